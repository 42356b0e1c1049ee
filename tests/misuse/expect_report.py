# Runs a misuse program: it must die by SIGABRT after exactly one line on stderr, `vmag: …`, naming the address and the call;
# where the program says 0x0, there is no address, and none is named.
# SPDX-License-Identifier: BSD-2-Clause
import re
import signal
import subprocess
import sys

SKIPPED = 77


def fail(reason, result):
    print(f"FAILED: {reason}")
    print(f"status {result.returncode}, stdout {result.stdout!r}, stderr {result.stderr!r}")
    sys.exit(1)


def check(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, text=True)
    if result.returncode == SKIPPED:
        print(result.stderr)
        sys.exit(SKIPPED)
    call, _, address = result.stdout.strip().rpartition(" ")
    lines = result.stderr.splitlines()
    if result.returncode != -signal.SIGABRT:
        fail("did not die by SIGABRT", result)
    if len(lines) != 1 or not lines[0].startswith("vmag: "):
        fail("not exactly one line beginning `vmag: `", result)
    if address == "0x0" and not lines[0].startswith(f"vmag: {call}: "):
        fail("the report names more than the call", result)
    if address != "0x0" and not re.search(rf"\b{address}\b", lines[0]):
        fail(f"the report does not name the address {address}", result)
    if not re.search(rf"(?<![\w]){re.escape(call)}(?![\w])", lines[0]):
        fail(f"the report does not name the call {call}", result)
    print(lines[0])


check(sys.argv[1:])
