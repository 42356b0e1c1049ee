# Runs an example with a file of commands and compares what it prints: `example.py PROGRAM COMMANDS EXPECTED [ARGUMENT…]`.
# SPDX-License-Identifier: BSD-2-Clause
import difflib
import subprocess
import sys


def main(program, commands, expected, *arguments):
    with open(commands, encoding="utf-8") as file:
        run = subprocess.run([program, *arguments], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    with open(expected, encoding="utf-8") as file:
        wanted = file.read()
    sys.stdout.writelines(difflib.unified_diff(wanted.splitlines(True), run.stdout.splitlines(True), "expected", "printed"))
    print(f"status {run.returncode}")
    sys.exit(bool(run.returncode or run.stdout != wanted))


main(*sys.argv[1:])
