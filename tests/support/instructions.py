# Instructions of a pair of calls in a program `PROGRAM KIND SIZE PAIRS`: the difference between a run with twice the pairs and one with them leaves the hits.
# So many that what a moment adds, such as a tick of the decay, is hundredths of an instruction.
# SPDX-License-Identifier: BSD-2-Clause
import re
import shutil
import subprocess
import sys

PAIRS = 20000
SKIPPED = 77


def need_valgrind():
    if shutil.which("valgrind") is None:
        print("SKIPPED: valgrind is missing")
        sys.exit(SKIPPED)


def instructions(program, kind, size, pairs):
    result = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, kind, str(size), str(pairs)],
                            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=True, timeout=1000)
    return int(re.search(r"Collected : (\d+)", result.stderr).group(1))


def per_pair(program, kind, size):
    return (instructions(program, kind, size, 2 * PAIRS) - instructions(program, kind, size, PAIRS)) / PAIRS
