# Every point of docs/checklist-2001.md is there, and names tests that exist: `checklist.py CHECKLIST BUILD`.
# SPDX-License-Identifier: BSD-2-Clause
import pathlib
import re
import subprocess
import sys

POINTS = {"M": 14, "S": 13, "V": 16, "B": 5}


def tests_in(build):
    listed = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"Test +#\d+: (\S+)", listed)


def main(checklist, build):
    rows = {}
    for line in pathlib.Path(checklist).read_text(encoding="utf-8").splitlines():
        if found := re.match(r"\| ([MSVB]\d+)\b", line):
            rows[found[1]] = line.rsplit("|", 2)[1]
    wanted = [f"{letter}{number}" for letter, count in POINTS.items() for number in range(1, count + 1)]
    assert sorted(rows) == sorted(wanted), sorted(set(rows) ^ set(wanted))
    tests = tests_in(build)
    top = pathlib.Path(checklist).resolve().parent.parent
    for point, cell in rows.items():
        names = re.findall(r"`([^`]+)`", cell)
        assert names, f"{point} names no test"
        for name in names:
            there = (top / name).is_file() if "/" in name else any(test == name or test.startswith(name + ".") for test in tests)
            assert there, f"{point}: there is no test {name}"
    print(f"{len(rows)} points")


main(*sys.argv[1:])
