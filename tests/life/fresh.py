# A fresh process that allocates a few KiB: what it holds resident more than with the C library's malloc, files' pages and all,
# and how much of the library. `fresh.py LIBRARY PROGRAM`. Minima of some runs: which of a file's pages the kernel maps along
# depends on where it is mapped.
# SPDX-License-Identifier: BSD-2-Clause
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile

RUNS = 15
MORE_LIMIT_KIB = 300
WINDOW = 64 * 1024
LIBRARY_LIMIT_KIB = 128  # a window of its file and what it writes to; a second window does not fit

PR_SET_THP_DISABLE = 41  # inherited: a kernel that backs all memory with huge pages would be measured, not the library

library, program = sys.argv[1:]
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def resident(environment):
    """KiB in all, and of the library's file."""
    smaps = subprocess.run([program], stdout=subprocess.PIPE, check=True, timeout=600, text=True, env={**os.environ, **environment}).stdout
    total = of_library = 0
    ours = False
    for line in smaps.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            ours = line.endswith(os.path.basename(library))
        elif line.startswith("Rss:"):
            total += int(line.split()[1])
            of_library += ours * int(line.split()[1])
    return total, of_library


def functions_beyond():
    """Names of the functions that run and lie beyond the library's first window; None: valgrind is missing."""
    if shutil.which("valgrind") is None:
        return None
    names, home, function = set(), None, None
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as out:
        subprocess.run(["valgrind", "--tool=callgrind", "--dump-instr=yes", "--compress-strings=no", "--compress-pos=no",
                        f"--callgrind-out-file={out.name}", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "LD_PRELOAD": library}, timeout=600)
        for line in open(out.name, encoding="utf-8"):
            if line.startswith("ob="):
                home = os.path.basename(line[3:].strip())
            elif line.startswith("fn="):
                function = line[3:].strip()
            elif line.startswith("0x") and home == os.path.basename(library) and int(line.split()[0], 16) >= WINDOW:
                names.add(function)
    return sorted(names)


bare = min(resident({})[0] for _ in range(RUNS))
runs = [resident({"LD_PRELOAD": library}) for _ in range(RUNS)]
fresh, own = (min(numbers) for numbers in zip(*runs))
print(f"fresh process: {bare} KiB with the C library, {fresh} KiB here ({fresh - bare:+} KiB), {own} KiB of them of the library's file")
assert own > 0, "the library is not mapped"
assert own <= LIBRARY_LIMIT_KIB, (f"more than {LIBRARY_LIMIT_KIB} KiB of the library: list in layout/text.ld what now runs at start, "
                                  f"or do it later; functions beyond the first window: {functions_beyond()}")
assert fresh - bare <= MORE_LIMIT_KIB, f"more than {MORE_LIMIT_KIB} KiB above"
