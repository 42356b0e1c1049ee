# Hits of umem_alloc and of umem_cache_alloc, each with its free, cost at most 10 % more instructions than malloc and free.
# `fast_path.py PROGRAM`.  The difference between a run with 2000 pairs and one with 1000 leaves the hits.
# SPDX-License-Identifier: BSD-2-Clause
import re
import shutil
import subprocess
import sys

PAIRS = 1000


def instructions(program, kind, size, pairs):
    result = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, kind, str(size), str(pairs)],
                            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=True, timeout=1000)
    return int(re.search(r"Collected : (\d+)", result.stderr).group(1))


def per_pair(program, kind, size):
    return (instructions(program, kind, size, 2 * PAIRS) - instructions(program, kind, size, PAIRS)) / PAIRS


def main(program):
    if shutil.which("valgrind") is None:
        print("SKIPPED: valgrind is missing")
        sys.exit(77)
    good = True
    for size in (16, 1000):
        malloc, umem, cache = (per_pair(program, kind, size) for kind in ("malloc", "umem", "cache"))
        print(f"{size} bytes: malloc {malloc:.2f}, umem_alloc {umem:.2f}, umem_cache_alloc {cache:.2f} instructions a pair, with the loop")
        good &= umem <= 1.1 * malloc and cache <= 1.1 * malloc
    sys.exit(not good)


main(*sys.argv[1:])
