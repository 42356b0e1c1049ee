# A fresh process of a program that the static library is linked into: what of its file is resident. `fresh_linked.py PROGRAM`, tests/life/fresh.c. What
# every program runs through lies together in the archive, too (layout/archive.ld): else it is spread over the program's code, and all of that is mapped.
# SPDX-License-Identifier: BSD-2-Clause
import os
import re
import subprocess
import sys

RUNS = 15
LIMIT_KIB = 256  # three windows of 64 KiB, and what the loader reads and writes; 420 to 484 when it is spread


def resident(program):
    """KiB of the program's file."""
    smaps = subprocess.run([program], stdout=subprocess.PIPE, check=True, timeout=600, text=True).stdout
    total, ours = 0, False
    for line in smaps.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            ours = line.endswith(os.path.realpath(program))
        elif ours and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


least = min(resident(sys.argv[1]) for _ in range(RUNS))
print(f"a fresh process with the static library: {least} KiB of the program's file")
assert 0 < least <= LIMIT_KIB, f"more than {LIMIT_KIB} KiB: is the archive laid out (layout/join.cmake)?"
