"""What the runners of the bench suite share.

SPDX-License-Identifier: BSD-2-Clause
"""

import hashlib
import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = TOP / "build/bench"
TWIN = "twin"  # a second copy of vmag: what its figures and vmag's differ by is not the allocator
LEAST = "least"  # an allocator that does next to nothing (bench/least.c): what a program takes whoever serves it
OURS = ("vmag", TWIN, LEAST)  # all others are peers
MIB = 1 << 20


def say(text):
    print(text, file=sys.stderr, flush=True)


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def compile_with_library(name, *flags):
    """bench/NAME.c, linked with vmag as it is built, as build/bench/NAME."""
    OUT.mkdir(parents=True, exist_ok=True)
    library = TOP / "build/lib"
    if not (library / "libvmag.so").exists():
        sys.exit("build/lib/libvmag.so is not there: make first")
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", f"-I{TOP}/include", f"{TOP}/bench/{name}.c", "-o", OUT / name,
                    f"-L{library}", "-lvmag", f"-Wl,-rpath,{library}", *flags], check=True)
