# Python's own test suite, a good part of it, with the library preloaded; what fails must fail on the C library's malloc too.
# `python_tests.py LIBRARY ALLOCATOR TEST…`: ALLOCATOR is python's own setting, "default" or "malloc" (every object by malloc).
# SPDX-License-Identifier: BSD-2-Clause
import glob
import os
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
REPEATS = ["--ignore", "*ProcessTestCaseNoPoll*"]  # left out: all of subprocess's once more, with select for poll


def interpreters():
    yield from ("python3", "/usr/bin/python3", "/usr/local/bin/python3")
    yield from sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")), reverse=True)


def resolved(interpreter):
    """The real program with the test package, not a shell wrapper in front of it; None where there is none."""
    try:
        result = subprocess.run([interpreter, "-c", "import sys, test.test_json, test.test_re; print(sys.executable)"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=300)
    except OSError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def run(python, allocator, tests, library):
    environment = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "VMAG_CONF")}
    environment["PYTHONMALLOC"] = allocator
    if library:
        environment["LD_PRELOAD"] = library
    with tempfile.TemporaryDirectory(prefix="vmag-python-") as folder:
        result = subprocess.run([python, "-m", "test", "--timeout", "600", "-j2", *REPEATS, *tests], cwd=folder, env=environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1500)
    return result


def failing(output):
    block = re.search(r"tests? failed:\n((?: +.*\n)+)", output)
    return set(block.group(1).split()) if block else set()


def main(library, allocator, *tests):
    python = next(filter(None, map(resolved, interpreters())), None)
    if python is None:
        print("SKIPPED: no python3 here has its test suite installed (Debian: libpython3-testsuite)")
        sys.exit(SKIPPED)
    ours = run(python, allocator, tests, os.path.abspath(library))
    print(ours.stdout[-2500:])
    assert "vmag: " not in ours.stdout, "a report among the output"
    if ours.returncode == 0:
        return
    assert failing(ours.stdout), f"status {ours.returncode}, but no list of failures"
    theirs = run(python, allocator, sorted(failing(ours.stdout)), None)
    only_ours = failing(ours.stdout) - failing(theirs.stdout)
    print(f"failing on the C library's malloc too: {sorted(failing(theirs.stdout))}")
    assert not only_ours, f"failing only with the library: {sorted(only_ours)}"


main(*sys.argv[1:])
