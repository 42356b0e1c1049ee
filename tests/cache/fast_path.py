# A hit of vmag_cache_alloc and vmag_cache_free costs at most 10 % more instructions than malloc and free of the same size, one of a quantum
# cache at most 15 % (15 and 16 to 15 and 15 in the calls, and four arguments more to be passed in the loop): `fast_path.py PROGRAM`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from instructions import need_valgrind, per_pair


def main(program):
    need_valgrind()
    good = True
    for size in (16, 64, 512, 1024):
        cache, quantum, malloc = (per_pair(program, kind, size if kind != "quantum" else min(size, 256)) for kind in ("cache", "quantum", "malloc"))
        print(f"{size} bytes: cache {cache:.2f}, quantum cache {quantum:.2f}, malloc {malloc:.2f} instructions a pair, with the loop")
        good &= cache <= 1.1 * malloc and quantum <= 1.15 * malloc
    sys.exit(not good)


main(sys.argv[1])
