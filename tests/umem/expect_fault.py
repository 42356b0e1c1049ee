# Runs a misuse program under UMEM_DEBUG: it must die by the signal after a report with that finding, naming address and call.
# `expect_fault.py SIGNAL FINDING PROGRAM`.  The block must hold one line of misuse, the buffer where there is one, and, with
# audit, stacks that lead into the program.
# SPDX-License-Identifier: BSD-2-Clause
import os
import re
import signal
import subprocess
import sys


def fail(reason, result):
    print(f"FAILED: {reason}")
    print(f"status {result.returncode}, stdout {result.stdout!r}, stderr:\n{result.stderr}")
    sys.exit(1)


def main(signal_name, finding, program):
    result = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, text=True)
    call, _, address = result.stdout.strip().rpartition(" ")
    lines = result.stderr.splitlines()
    if result.returncode != -getattr(signal, signal_name):
        fail(f"did not die by {signal_name}", result)
    heads = [line for line in lines if line.startswith("vmag: ")]
    if len(heads) != 1 or lines[0] != heads[0]:
        fail("not one report that begins `vmag: `", result)
    if lines[0] != f"vmag: {call}({address}): {finding}":
        fail(f"the first line is not 'vmag: {call}({address}): {finding}'", result)
    has_buffer = any(line.startswith("  buffer ") for line in lines)
    if has_buffer != (os.environ.get("EXPECT_BUFFER", "yes") == "yes"):
        fail("the buffer is told, or not, against expectation", result)
    audit = re.search(r"default|audit", os.environ["UMEM_DEBUG"])
    if has_buffer and audit:
        name = os.path.basename(program)
        stack = result.stderr.split("  allocated ")[1].splitlines()[1]
        if name not in stack:
            fail(f"the stack of the allocation does not begin in {name}", result)
    print(result.stderr)


main(*sys.argv[1:])
