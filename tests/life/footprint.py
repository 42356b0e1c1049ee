# Runs footprint without and with the library preloaded; fails when a fresh process or an idle thread holds too much more.
# A thread is compared with a bare one, which holds its stack and what the C library keeps for it.
# SPDX-License-Identifier: BSD-2-Clause
import ctypes
import os
import subprocess
import sys

FRESH_LIMIT_KIB = 300
THREAD_LIMIT_BYTES = 10 * 1024

PR_SET_THP_DISABLE = 41  # inherited: a kernel that backs all memory with huge pages would be measured, not the library

library, program = sys.argv[1:]
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def measure(environment, *arguments):
    output = subprocess.run([program, *arguments], stdout=subprocess.PIPE, check=True, timeout=600, text=True,
                            env={**os.environ, **environment}).stdout
    return [int(number) for number in output.split()]


base_fresh, stack = measure({}, "bare")
fresh, thread = measure({"LD_PRELOAD": library})
print(f"fresh process: {base_fresh} KiB with the C library, {fresh} KiB here ({fresh - base_fresh:+} KiB)")
print(f"idle thread: {stack} bytes bare, {thread} bytes after one malloc here ({thread - stack:+} bytes)")
assert fresh - base_fresh <= FRESH_LIMIT_KIB, f"more than {FRESH_LIMIT_KIB} KiB above"
assert thread - stack <= THREAD_LIMIT_BYTES, f"more than {THREAD_LIMIT_BYTES} bytes a thread on top of its stack"
