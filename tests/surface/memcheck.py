# Under valgrind's memcheck the shared library is out of the way, operators new and delete of C++ as malloc: what a program does wrong with them is told.
# SPDX-License-Identifier: BSD-2-Clause
import shutil
import subprocess
import sys

SKIPPED = 77
SECONDS = 300


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)


def main():
    program = sys.argv[1]
    if shutil.which("valgrind") is None:
        skip("valgrind is not installed (scripts/setup.sh test)")
    result = subprocess.run(["valgrind", "--leak-check=full", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
    told = result.stdout
    if "Valgrind: debuginfo reader:" in told:
        skip("this valgrind ends at what the compiler wrote for debuggers")
    for fault in ("Invalid read of size 1", "Mismatched free()", "100 bytes in 1 blocks are definitely lost", "200 bytes in 1 blocks are definitely lost"):
        assert fault in told, (fault, told)
    assert "Invalid free()" not in told, told
    print("memcheck: passed")


main()
