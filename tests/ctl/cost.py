# Reading all statistics of a process with 64 arenas and 100 threads costs no more than with jemalloc 5.3. `cost.py PROGRAM LIBRARY`.
# SPDX-License-Identifier: BSD-2-Clause
import glob
import os
import subprocess
import sys

SKIPPED = 77
FIGURES = ("epoch", "bins", "names", "lines", "json")
LEAST_ROUNDS, ROUNDS = 4, 24 # interleaved; each program run tells the least of 25 of its own


def run(program, library):
    environment = {**os.environ, "LD_PRELOAD": library, "MALLOC_CONF": "narenas:64"}
    done = subprocess.run([program], env=environment, stdout=subprocess.PIPE, text=True, timeout=1000)
    if done.returncode != 0:
        print(f"{library} has no mallctl")
        sys.exit(SKIPPED)
    return {name: int(number) for name, number in (line.split() for line in done.stdout.splitlines())}


def main(program, library):
    jemalloc = glob.glob("/usr/lib/*/libjemalloc.so.2") + glob.glob("/usr/lib/libjemalloc.so.2")
    if not jemalloc:
        print("libjemalloc.so.2 is missing")
        sys.exit(SKIPPED)
    least = {}
    for done in range(1, ROUNDS + 1): # until each figure has been as small as it should: a machine that is slow for a while is not a fault
        for name in (library, jemalloc[0]):
            for figure, number in run(program, name).items():
                least[name, figure] = min(number, least.get((name, figure), number))
        dearer = [figure for figure in FIGURES if least[library, figure] > least[jemalloc[0], figure]]
        if not dearer and done >= LEAST_ROUNDS:
            break
    for figure in FIGURES:
        print(f"{figure}: {least[library, figure]} ns, jemalloc {least[jemalloc[0], figure]} ns")
    assert not dearer, dearer


main(*sys.argv[1:])
