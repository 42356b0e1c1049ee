# A setuid program ignores the environment: a senseless VMAG_CONF is complained about in a plain run and not even read in a secure one.
# Needs root to make the setuid copy, and a temporary folder that honours it.
# SPDX-License-Identifier: BSD-2-Clause
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

SKIPPED = 77
NOBODY = 65534


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def run(program):
    result = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                            env={**os.environ, "VMAG_CONF": "no_such_option:1"})
    return result.returncode, result.stdout.strip(), result.stderr


def main(program):
    if os.geteuid() != 0:
        skip("only root can make a setuid copy of the program")
    closed = [str(folder) for folder in pathlib.Path(program).resolve().parents if not folder.stat().st_mode & stat.S_IXOTH]
    if closed:
        skip(f"others may not enter {closed[0]}, and so find no library there")
    status, secure, errors = run(program)
    assert (status, secure) == (0, "0"), f"plain run: status {status}, secure {secure}"
    assert "VMAG_CONF" in errors, f"the plain run did not complain about the option: {errors!r}"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = shutil.copy(program, folder)
        os.chown(copy, NOBODY, NOBODY)
        os.chmod(copy, 0o4755)
        status, secure, errors = run(copy)
    if secure == "0":
        skip("the temporary folder does not honour setuid")
    assert (status, secure) == (0, "1"), f"secure run: status {status}, secure {secure}, {errors}"
    assert errors == "", f"the secure run read the environment: {errors!r}"


main(sys.argv[1])
