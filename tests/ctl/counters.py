# What exact counters of a thread cost, alone and while the event trace is on: instructions of one way to allocate and free, counted by callgrind.
# `counters.py PROGRAM LIBRARY`.
# SPDX-License-Identifier: BSD-2-Clause
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
PAIRS = 20000
TRIES = 3  # what a moment adds, such as a tick of the decay, it adds to one run and not to another: two that agree are free of it
MORE = {"pair": 19, "medium": 19, "held": 19, "calloc": 20, "realloc": 38, "new": 19, "sized": 21, "mallocx": 24}  # at most, with counters on
TRACED_MORE = {"held": 40, "calloc": 40}  # the same of a trace: counters leave it its fast path


def instructions(program, library, *words, conf=""):
    told = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, *words],
                          env={**os.environ, "LD_PRELOAD": library, "VMAG_CONF": conf},
                          stderr=subprocess.PIPE, text=True, check=True, timeout=600).stderr
    return int(re.search(r"Collected : (\d+)", told).group(1))


def pair(program, library, *words, conf=""):
    """The loop's own instructions, some ten, are the same for all."""
    return (instructions(program, library, str(2 * PAIRS), *words, conf=conf) - instructions(program, library, str(PAIRS), *words, conf=conf)) / PAIRS


def settled(program, library, *words):
    """What two tries agree on; else the least of all."""
    found = []
    while len(found) < TRIES:
        found.append(pair(program, library, *words))
        if found.count(found[-1]) == 2:
            return found[-1]
    return min(found)


def while_traced(program, library):
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for way, more in TRACED_MORE.items():
            plain, counted = (pair(program, library, way, *words, conf=f"trace:{folder}/t") for words in ((), ("counted",)))
            print(f"{way}, traced: {plain:.1f} instructions with the loop, {counted:.1f} counted")
            if round(counted - plain) > more:
                faults.append(f"{way}, traced: {counted - plain:.1f} more are too many, {more} allowed")
    return faults


def main(program, library):
    if shutil.which("valgrind") is None:
        print("valgrind is missing")
        sys.exit(SKIPPED)
    faults = []
    for way, more in MORE.items():
        plain, counted = settled(program, library, way), settled(program, library, way, "counted")
        print(f"{way}: {plain:.1f} instructions with the loop, {counted:.1f} counted")
        if round(counted - plain) > more:
            faults.append(f"{way}: {counted - plain:.1f} more are too many, {more} allowed")
        for jemalloc in glob.glob("/usr/lib/*/libjemalloc.so.2") if way == "pair" else []:
            theirs = pair(program, jemalloc, way, "counted")
            print(f"jemalloc: {theirs:.1f}")
            if counted > theirs:
                faults.append("more than jemalloc's")
    faults += while_traced(program, library)
    print("\n".join(faults))
    sys.exit(bool(faults))


main(*sys.argv[1:])
