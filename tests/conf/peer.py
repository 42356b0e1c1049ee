# What jemalloc 5.3.0 refuses of its options, ours refuses; what it takes, ours takes with the same value; and the differences that
# docs/jemalloc.md tells are there. `peer.py PROGRAM LIBRARY JEMALLOC NAMES`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import re
import subprocess
import sys

SKIPPED = 77
VALUES = ("", "true", "false", "tru", "TRUE", "0", "1", "7", "010", "08", "0x10", "+3", " 3", "3 ", "5k", "5K", "1.5", ".5", "2.", "0.25", "-0.5", "-1",
          "-2", "-16", "-17", "16", "17", "63", "64", "65", "100", "5000", "100000", "3000000", "x", "disabled", "primary", "secondary", "auto",
          "always", "never", "alloc", "free", "abort", "high", "J", "jeprof.x", "2147483648", "default")
QUIET = ("abort_conf", "confirm_conf", "stats_print", "stats_interval", "prof", "prof_leak", "prof_leak_error") # what ends, prints, or writes files
OPTIONAL = ("utrace", "xmalloc", "lg_san_uaf_align", "cache_oblivious") # not in each build of 5.3.0
UNTOLD = {"narenas_ratio": "ratio", "bin_shards": "text", "slab_sizes": "text", "prof_log": "bool", "lg_tcache_max": "size_t", "san_guard_small": "size_t",
          "san_guard_large": "size_t", "hpa_hugification_threshold_ratio": "ratio"} # jemalloc has no opt.* of these
UNLIKE = ("stats_print_opts", "stats_interval_opts", "oversize_threshold", "hpa_hugification_threshold") # told as they were given
LIMITS = {"narenas": "176", "tcache_max": "8", "max_background_threads": "4096"} # those of ours
UNREAD = ("bin_shards", "slab_sizes") # their text is not read
TEXTS = ("prof_prefix", "stats_print_opts", "stats_interval_opts", *UNREAD)


def names(path):
    types = {"const char*": "text"}
    with open(path, encoding="ascii") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.startswith("opt.")]
    return {row[0][4:]: types.get(row[1], row[1]) for row in rows}


def run(program, library, told, pairs):
    conf = ",".join(f"{name}:{value}" for name, value in pairs)
    clean = {key: value for key, value in os.environ.items() if key not in ("MALLOC_OPTIONS", "VMAG_CONF")}
    done = subprocess.run([program, *(word for name in told for word in (name, told[name]))], capture_output=True, text=True, timeout=300,
                          env={**clean, "LD_PRELOAD": library, "MALLOC_CONF": conf})
    if done.returncode == SKIPPED:
        print(library, "is not jemalloc 5.3.0 with its profiler")
        sys.exit(SKIPPED)
    assert done.returncode == 0, (library, conf, done.returncode, done.stderr[-500:])
    values = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    refused = {name for name, value in pairs if re.search(rf"(Invalid|Out-of-range) [^\n]*: {name}:{re.escape(value)}$"
                                                          rf"|^vmag: MALLOC_CONF: {name}:{re.escape(value)}: ", done.stderr, re.M)}
    return values, refused


def differs(name, kind, value):
    """The differences that docs/jemalloc.md tells: what ours takes or refuses whatever jemalloc does."""
    if name in UNREAD or value == "default" and name not in TEXTS or kind == "bool" and value in ("0", "1") or (name, value) == ("narenas", "0"):
        return "taken"
    if (name, value) == ("narenas_ratio", "5000") or kind == "text" and name not in TEXTS and value == "": # jemalloc takes the beginning of a word
        return "refused"
    return None


def main(program, ours, theirs, path):
    told = {name: kind for name, kind in names(path).items() if name not in OPTIONAL + QUIET}
    options, count, wrong = {**told, **UNTOLD}, 0, []
    for value in VALUES:
        pairs = [(name, value) for name in options]
        values_there, refused_there = run(program, theirs, told, pairs)
        values, refused = run(program, ours, told, pairs)
        for name, kind in options.items():
            if value.startswith("-") and kind in ("unsigned", "size_t", "uint64_t"): # no number for these; jemalloc takes it modulo 2^64
                continue
            count += 1
            here, there = ("refused" if name in which else "taken" for which in (refused, refused_there))
            if here != (differs(name, kind, value) or there):
                wrong.append(f"{name}:{value} is {here}, by jemalloc {there}")
            elif name in told and name not in UNLIKE and here == there == "taken" and values[name] not in (values_there[name], LIMITS.get(name)):
                wrong.append(f"{name}:{value} is told as {values[name]}, by jemalloc as {values_there[name]}")
    print(*wrong, f"{count} pairs", sep="\n")
    sys.exit(1 if wrong else 0)


main(*sys.argv[1:])
