# What exact counters of a thread cost: instructions of a pair of malloc and free, counted by callgrind. `counters.py PROGRAM LIBRARY`.
# SPDX-License-Identifier: BSD-2-Clause
import glob
import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77
PAIRS = 10000
MOST = 56 # 30 without


def instructions(program, library, *words):
    told = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, *words], env={**os.environ, "LD_PRELOAD": library},
                          stderr=subprocess.PIPE, text=True, check=True, timeout=100).stderr
    return int(re.search(r"Collected : (\d+)", told).group(1))


def pair(program, library, *words):
    """The loop's own instructions are a call of nothing: what remains of it, some ten, is the same for all."""
    return (instructions(program, library, str(2 * PAIRS), *words) - instructions(program, library, str(PAIRS), *words)) / PAIRS


def main(program, library):
    if shutil.which("valgrind") is None:
        print("valgrind is missing")
        sys.exit(SKIPPED)
    plain, counted = pair(program, library), pair(program, library, "counted")
    print(f"a pair and the loop around it: {plain:.1f} instructions, {counted:.1f} counted")
    assert counted - plain <= MOST - 30, (plain, counted)
    for jemalloc in glob.glob("/usr/lib/*/libjemalloc.so.2"):
        theirs = pair(program, jemalloc, "counted")
        print(f"jemalloc: {theirs:.1f}")
        assert counted <= theirs


main(*sys.argv[1:])
