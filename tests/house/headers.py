# Every public header compiles, alone and with the others, as C and as C++, without a warning that strict users ask for. `headers.py INCLUDE`,
# by whatever of gcc and clang is there.
# SPDX-License-Identifier: BSD-2-Clause
import os
import shutil
import subprocess
import sys

USUAL = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wundef", "-Wcast-qual", "-Wconversion", "-Werror"]
CALLS = [
    *(([name, "-x", "c", f"-std={standard}"], ["-Wstrict-prototypes"]) for name in ("gcc", "clang") for standard in ("c99", "c17")),
    *(([name, "-x", "c++", f"-std={standard}"], ["-Wold-style-cast"]) for name in ("g++", "clang++") for standard in ("c++11", "c++20")),
]


def main(include):
    headers = sorted(os.path.relpath(os.path.join(folder, name), include) for folder, _, names in os.walk(include) for name in names)
    assert len(headers) > 10, headers
    lines = [f"#include <{header}>\n" for header in headers]
    failed = 0
    for call, more in CALLS:
        if not shutil.which(call[0]):
            continue
        for text in [*lines, "".join(lines), "".join(reversed(lines))]:
            done = subprocess.run([*call, *USUAL, *more, f"-I{include}", "-fsyntax-only", "-"], input=text, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{' '.join(call)}: {text}{done.stderr[:1500]}")
                failed += 1
    sys.exit(failed > 0)


main(*sys.argv[1:])
