# What misses cost that come again and again, in instructions: an object beyond the sizes of the fast path at a multiple of 16, allocated and freed, and an
# object smaller than a cache line that another thread allocated and this one frees, all that is allocated for it with it. `misses.py PROGRAM`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import platform
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from instructions import SKIPPED, need_valgrind, per_pair

MOST = (("aligned", 3000, 125), ("foreign", 32, 113))


def main(program):
    need_valgrind()
    if platform.machine() != "x86_64":
        print("SKIPPED: the limits are those of x86-64")
        sys.exit(SKIPPED)
    failed = False
    for kind, size, most in MOST:
        cost = per_pair(program, kind, size)
        print(f"{kind}, {size} bytes: {cost:.1f} instructions, at most {most}")
        failed |= cost > most
    sys.exit(failed)


main(*sys.argv[1:])
