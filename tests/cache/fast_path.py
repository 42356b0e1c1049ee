# A hit of vmag_cache_alloc and vmag_cache_free costs at most 10 % more instructions than malloc and free of the same size, one of a quantum
# cache at most 30 % (three arguments, and a size to look up; it takes the same time): `fast_path.py PROGRAM`. The difference between a run with 2000 pairs and one with 1000 leaves the hits.
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
    for size in (16, 64, 512, 1024):
        cache, quantum, malloc = (per_pair(program, kind, size if kind != "quantum" else min(size, 256)) for kind in ("cache", "quantum", "malloc"))
        print(f"{size} bytes: cache {cache:.2f}, quantum cache {quantum:.2f}, malloc {malloc:.2f} instructions a pair, with the loop")
        good &= cache <= 1.1 * malloc and quantum <= 1.3 * malloc
    sys.exit(not good)


main(sys.argv[1])
