# A fresh process that allocates a few KiB: what it holds resident more than with the C library's malloc, in memory of its own and in
# pages of the library; and how much of the library when it also frees. `fresh.py LIBRARY PROGRAM COMPILER`. Minima of some runs. Pages of other
# files are told and not judged: which of them the kernel maps along depends on where they are mapped and on how they came into its cache.
# SPDX-License-Identifier: BSD-2-Clause
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile

RUNS = 40

library, program, compiler = sys.argv[1:]
with open(program, "rb") as file:
    is_musl = b"/ld-musl-" in file.read(4096)  # whose loader maps the file in one piece: up to 16 pages are mapped along
# What layout/ lists fills whole pages as GCC 12 compiles it. Others' code may be a page longer in two places.
OTHERS_KIB = 0 if compiler.startswith("GNU 12.") else 8
MORE_LIMIT_KIB = (152 if is_musl else 124) + OTHERS_KIB
LIBRARY_LIMIT_KIB = (80 if is_musl else 60) + OTHERS_KIB  # the tables that the loader reads, the first stretch of the code, and what it writes to; no other fits (os/layout_linux.c)
LISTED_LIMIT_KIB = (104 if is_musl else 96) + OTHERS_KIB  # all that is listed

PR_SET_THP_DISABLE = 41  # inherited: a kernel that backs all memory with huge pages would be measured, not the library

ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def resident(environment, *arguments):
    """KiB in all, of the library's file, and of that and of memory that is no file's."""
    smaps = subprocess.run([program, *arguments], stdout=subprocess.PIPE, check=True, timeout=600, text=True,
                           env={**os.environ, **environment}).stdout
    total = of_library = own = 0
    ours = False
    for line in smaps.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            ours = line.endswith(os.path.basename(library))
        elif line.startswith("Rss:"):
            total += int(line.split()[1])
            of_library += ours * int(line.split()[1])
            own += ours * int(line.split()[1])
        elif line.startswith("Anonymous:"):
            own += (not ours) * int(line.split()[1])
    return total, of_library, own


def border(mark):
    """Where a part of layout/text.ld begins; None: nm does not tell."""
    listing = subprocess.run(["nm", library], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout if shutil.which("nm") else ""
    return next((int(line.split()[0], 16) for line in listing.splitlines() if line.endswith(f" {mark}")), None)


def functions_beyond(mark, *arguments):
    """Names of the functions that run and lie beyond that mark in the library's code; None: valgrind or the border is missing."""
    end = border(mark)
    if shutil.which("valgrind") is None or end is None:
        return None
    names, home, function = set(), None, None
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as out:
        subprocess.run(["valgrind", "--tool=callgrind", "--dump-instr=yes", "--compress-strings=no", "--compress-pos=no",
                        f"--callgrind-out-file={out.name}", program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "LD_PRELOAD": library}, timeout=600)
        for line in open(out.name, encoding="utf-8"):
            if line.startswith("ob="):
                home = os.path.basename(line[3:].strip())
            elif line.startswith("fn="):
                function = line[3:].strip()
            elif line.startswith("0x") and home == os.path.basename(library) and int(line.split()[0], 16) >= end:
                names.add(function)
    return sorted(names)


def minima(environment, *arguments):
    return [min(numbers) for numbers in zip(*(resident(environment, *arguments) for _ in range(RUNS)))]


bare, _, bare_own = minima({})
fresh, of_library, own = minima({"LD_PRELOAD": library})
busy, threads = (minima({"LD_PRELOAD": library}, what)[1] for what in ("busy", "threads"))
print(f"fresh process: {bare} KiB with the C library, {fresh} KiB here ({fresh - bare:+} KiB); {own - bare_own} KiB more of the "
      f"library's file ({of_library}) and of no file; {busy} KiB of the library's file when it frees, {threads} with two threads")
assert of_library > 0, "the library is not mapped"
assert of_library <= LIBRARY_LIMIT_KIB, (f"{of_library} KiB of the library: list in layout/text.ld what now runs at start, or do it later; "
                                         f"functions beyond its first stretch: {functions_beyond('layout_larger')}")
for what, listed, argument in (("when it frees", busy, "busy"), ("with two threads", threads, "threads")):
    assert listed <= LISTED_LIMIT_KIB, (f"{listed} KiB of the library {what}: is all that then runs listed in layout/text.ld? "
                                        f"Among what is not, in one run: {functions_beyond('layout_seldom', argument)}")
assert own - bare_own <= MORE_LIMIT_KIB, f"more than {MORE_LIMIT_KIB} KiB above"
