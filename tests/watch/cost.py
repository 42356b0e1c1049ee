# What sampling adds to a pair of malloc and free, in instructions: to malloc at most 8, to free nothing, to a pair with a sized free 15; to malloc of a large run at hand 28.
# A sample of 20,000 bytes and its free at most 700 as GCC 12 compiles it, 720 as others do. And at most 145 to a pair of an object cache after it, while an object that was sampled lives.
# `cost.py PROGRAM COMPILER`.  Sampled every 2^40 bytes, but for that one, so that what is counted is what operations cost that are not sampled.
# SPDX-License-Identifier: BSD-2-Clause
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from instructions import need_valgrind, per_pair

MOST = {("plain", 16): 8, ("plain", 1024): 8, ("sized", 64): 15, ("plain", 5000): 7, ("plain", 100000): 28}

SAMPLE = 20000
AFTER_MOST = 145


def main(program, compiler):
    sample_most = 700 if compiler.startswith("GNU 12.") else 720
    need_valgrind()
    good = True
    for (kind, size), most in MOST.items():
        os.environ["VMAG_CONF"] = ""
        off = per_pair(program, kind, size)
        os.environ["VMAG_CONF"] = "prof:true,lg_prof_sample:40"
        on = per_pair(program, kind, size)
        print(f"{kind} {size} bytes: {off:.2f} instructions a pair with the loop, {on:.2f} while sampling is on")
        good &= on - off < most + 0.5
    os.environ["VMAG_CONF"] = ""
    off = per_pair(program, "plain", SAMPLE)
    os.environ["VMAG_CONF"] = "prof:true,lg_prof_sample:0"
    on = per_pair(program, "plain", SAMPLE)
    print(f"plain {SAMPLE} bytes: {off:.2f} instructions a pair with the loop, {on:.2f} while all are sampled")
    good &= on - off < sample_most + 0.5
    os.environ["VMAG_CONF"] = ""
    off, after = per_pair(program, "cache", 64), per_pair(program, "after", 64)
    print(f"object cache: {off:.2f} instructions a pair with the loop, {after:.2f} after sampling, while an object of it lives")
    good &= after - off < AFTER_MOST + 0.5
    sys.exit(not good)


main(*sys.argv[1:])
