# Hits of umem_alloc and of umem_cache_alloc, each with its free, cost at most 10 % more instructions than malloc and free.
# `fast_path.py PROGRAM`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from instructions import need_valgrind, per_pair


def main(program):
    need_valgrind()
    good = True
    for size in (16, 1000):
        malloc, umem, cache = (per_pair(program, kind, size) for kind in ("malloc", "umem", "cache"))
        print(f"{size} bytes: malloc {malloc:.2f}, umem_alloc {umem:.2f}, umem_cache_alloc {cache:.2f} instructions a pair, with the loop")
        good &= umem <= 1.1 * malloc and cache <= 1.1 * malloc
    sys.exit(not good)


main(*sys.argv[1:])
