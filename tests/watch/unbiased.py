# The sampling profiler's estimates of live objects and bytes, over many runs, against what the program knows to be true.
# `unbiased.py LIBRARY SITES [RUNS]`.  A site's mean over the runs must lie within 2 of its standard errors; chance puts one
# estimate in twenty beyond, objects and bytes of a site together: two sites may be so unlucky, none beyond 3.5.
# SPDX-License-Identifier: BSD-2-Clause
import collections
import glob
import math
import os
import subprocess
import sys
import tempfile


def symbols_of(program):
    lines = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split() for line in lines]
    return [(int(row[0], 16), int(row[1], 16), row[3]) for row in rows if len(row) == 4 and row[3].startswith("site_")]


def load_bias(text, program):
    line = next(line for line in text.splitlines() if line.endswith(os.path.realpath(program)))
    return int(line.split("-")[0], 16)


def sites_of(path, program, symbols):
    """Live objects and bytes by site, from the records of a profile."""
    text = open(path, encoding="utf-8").read()
    bias, found, frames = load_bias(text, program), collections.Counter(), []
    for line in text.split("MAPPED_LIBRARIES")[0].splitlines():
        words = line.split()
        if line.startswith("@"):
            frames = [int(word, 16) - bias for word in words[1:]]
        elif line.startswith("  t*:") and frames:
            names = {name for start, size, name in symbols for pc in frames if start < pc <= start + size}
            for name in names:
                found[name, "objects"] += int(words[1].rstrip(":"))
                found[name, "bytes"] += int(words[2])
    return found


def run(library, program, which, more=""):
    with tempfile.TemporaryDirectory() as folder:
        conf = f"prof:true,prof_final:true,prof_prefix:{folder}/p{more}"
        out = subprocess.run([program, which], capture_output=True, text=True, check=True,
                             env=dict(os.environ, LD_PRELOAD=library, VMAG_CONF=conf)).stdout
        truth = {line.split()[0]: [int(word) for word in line.split()[1:]] for line in out.splitlines()}
        return truth, sites_of(glob.glob(folder + "/p.*.f.heap")[0], program, symbols_of(program))


def judge(library, program, runs):
    beyond, worst = 0, 0
    for which in ["small", "large", "runs", "mixed", "churn", "threads"]:
        results = [run(library, program, which) for _ in range(runs)]
        for site, (objects, size) in results[0][0].items():
            for kind, truth in [("objects", objects), ("bytes", size)]:
                seen = [found[site, kind] for _, found in results]
                mean = sum(seen) / len(seen)
                error = math.sqrt(sum((x - mean) ** 2 for x in seen) / (len(seen) - 1) / len(seen))
                off = (mean - truth) / error if error else float(mean != truth) * 99
                beyond, worst = beyond + (abs(off) > 2), max(worst, abs(off))
                share = mean / truth if truth else mean
                print(f"{which:8} {site:15} {kind:8} {share:8.3f} of {truth:10}  {off:+5.2f} standard errors")
    return beyond <= 4 and worst <= 3.5


def main(library, program, runs=30):
    """Chance fails one measurement in seventy, so it fails all three once in 300,000; a bias fails the next, of more runs, all the more."""
    sys.exit(not any(judge(library, program, times * int(runs)) for times in (1, 2, 4)))


if __name__ == "__main__":
    main(*sys.argv[1:])
