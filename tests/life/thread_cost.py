# What the heap adds to a thread's life, in instructions: at most 9,000 for one that allocates an object and frees it.
# `thread_cost.py PROGRAM`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from instructions import instructions, need_valgrind

MOST = 9000
THREADS = 200


def per_thread(program, kind):
    return (instructions(program, kind, 100, 2 * THREADS) - instructions(program, kind, 100, THREADS)) / THREADS


def main(program):
    need_valgrind()
    used, idle = per_thread(program, "used"), per_thread(program, "idle")
    print(f"a thread: {idle:.0f} instructions, {used:.0f} when it allocates an object and frees it")
    sys.exit(used - idle > MOST)


main(*sys.argv[1:])
