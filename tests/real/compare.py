# Runs a script of this folder twice, on the C library's malloc and with the library preloaded: same output, same status.
# `compare.py LIBRARY SCRIPT.sh`.  The script runs in an empty folder; "SKIP: why" and status 77 skip the test loudly.
# SPDX-License-Identifier: BSD-2-Clause
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
SECONDS = 700


def environment(library):
    clean = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "VMAG_CONF")}
    clean.update(LC_ALL="C", TZ="UTC", SOURCES=os.path.dirname(os.path.abspath(__file__)))
    return {**clean, "LD_PRELOAD": library} if library else clean


def check_preload_works(library):
    maps = subprocess.run(["cat", "/proc/self/maps"], env=environment(library), stdout=subprocess.PIPE, text=True, check=True)
    assert os.path.basename(library) in maps.stdout, "the preloaded library is not in the map of a child"


def run(script, folder, library):
    """One run in a new folder of the same name, so that no path in the output can differ."""
    os.mkdir(folder)
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(["sh", "-eu", script], cwd=folder, env=environment(library), timeout=SECONDS,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{'preloaded' if library else 'C library'}: status {result.returncode}, {len(result.stdout)} bytes of output, "
          f"{time.monotonic() - start:.2f} s, CPU {cpu:.2f} s")
    shutil.rmtree(folder)
    return result


def first_difference(ours, theirs):
    for number, pair in enumerate(zip(ours.splitlines(), theirs.splitlines()), 1):
        if pair[0] != pair[1]:
            return f"line {number}: {pair[0][:200]!r} instead of {pair[1][:200]!r}"
    return f"{len(ours)} bytes instead of {len(theirs)}"


def compare(library, script, folder):
    theirs = run(script, folder, None)
    if theirs.returncode == SKIPPED:
        print("SKIPPED: " + theirs.stdout.decode().strip())
        sys.exit(SKIPPED)
    assert theirs.returncode == 0, f"the script fails by itself: {theirs.stderr.decode(errors='replace')[-3000:]}"
    assert len(theirs.stdout) > 0, "the script says nothing: there is nothing to compare"
    ours = run(script, folder, library)
    errors = ours.stderr.decode(errors="replace")
    assert "vmag: " not in errors, f"a report on stderr: {errors[-3000:]}"
    assert ours.returncode == 0, f"status {ours.returncode} when preloaded: {errors[-3000:]}"
    assert ours.stdout == theirs.stdout, "output differs: " + first_difference(ours.stdout, theirs.stdout)


def main(library, script):
    library, script = os.path.abspath(library), os.path.abspath(script)
    check_preload_works(library)
    with tempfile.TemporaryDirectory(prefix="vmag-real-") as parent:
        compare(library, script, os.path.join(parent, "work"))


main(*sys.argv[1:])
