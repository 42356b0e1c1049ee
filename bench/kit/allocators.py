"""The allocators that take part: vmag as it is built, the C library's, and the peers that bench/peers/get.sh brings.

An allocator is a dictionary: version, origin, library (None: the C library's own malloc).

SPDX-License-Identifier: BSD-2-Clause
"""

import os
import pathlib
import platform
import shutil
import subprocess
import sys

from kit import LEAST, OUT, TOP, TWIN, say

VMAG = TOP / "build/lib/libvmag.so"
VERSIONS = TOP / "build/peers/versions.txt"
PEERS = ("jemalloc", "mimalloc3", "mimalloc2", "snmalloc", "rpmalloc", "jemalloc-deb", "mimalloc-deb", "tcmalloc-deb", "tbb-deb")  # that bench/peers/get.sh knows


def fetch_peers():
    """Peers that are not there yet, or that the script did not know when it ran last."""
    script = TOP / "bench/peers/get.sh"
    if not VERSIONS.exists() or VERSIONS.stat().st_mtime < script.stat().st_mtime:
        subprocess.run([script], check=False)


def known(who, library, folder):
    """All allocators that are there, by name, vmag first; peers that are not there are told. `who` asks, for the message."""
    found = {}
    if library.exists():
        # A copy, so that a build meanwhile does not change what is measured.
        found["vmag"] = {"version": "this tree", "origin": "build/lib", "library": str(shutil.copy(library, folder))}
    else:
        say(f"{who}: {library} is not there; going on without vmag")
    found["glibc"] = {"version": platform.libc_ver()[1], "origin": "the system", "library": None}
    lines = VERSIONS.read_text().splitlines() if VERSIONS.exists() else []
    peers = [line.split() for line in lines]
    for name, version, origin, library in sorted(peers, key=lambda peer: peer[2].startswith("debian")):
        beside = VERSIONS.parent / pathlib.Path(library).name  # where what was built lies, though the tree has moved since
        path = beside if beside.exists() else pathlib.Path(library)
        if path.exists():
            found[name] = {"version": version, "origin": origin, "library": str(path)}
    missing = [name for name in PEERS if name not in found]
    if missing:
        say(f"{who}: not there: {', '.join(missing)} (bench/peers/get.sh; build/peers/log)")
    return found


def twin_of(vmag, folder):
    """The same file under another name."""
    (folder / TWIN).mkdir(exist_ok=True)
    return dict(vmag, library=str(shutil.copy(vmag["library"], folder / TWIN)))


def least_in(folder):
    """bench/least.c, compiled there."""
    library = folder / "libleast.so"
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-fPIC", "-shared", "-fno-builtin", "-fvisibility=hidden", "-DHUGE_PAGES=1", "-pthread",
                    "-o", library, TOP / "bench/least.c"], check=True)
    return {"version": "this tree", "origin": "bench/least.c", "library": str(library)}


def choose(wanted, who, library=VMAG, folder=OUT):
    """Those of the list `wanted` that are there, or all (None)."""
    there = known(who, library, folder)
    if wanted is None:
        return there
    missing = [name for name in wanted if name not in there and name != "vmag"]
    if missing:
        sys.exit(f"{who}: no such allocator: {', '.join(missing)}; there are: {', '.join(there)}")
    return {name: there[name] for name in wanted if name in there}
