# A program that libvmag.a is linked into: of every entry point, in profiles and traces, stacks begin with who called it, not with the allocator.
# `entries.py VMAG PROGRAM`
# SPDX-License-Identifier: BSD-2-Clause
import glob
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile

from holder import need_tool

UNWINDERS = ("frames", "tables", "system")
# Of the program's or the C library's: they allocate for who calls them.
BETWEEN = {"posix", "old", "old_grown", "batch", "__strdup", "strdup", "__GI___strdup"}


def record(program, folder, name, conf):
    prefix = os.path.join(folder, name)
    subprocess.run([program], check=True, env={**os.environ, "VMAG_CONF": conf.format(prefix)})
    path, = glob.glob(prefix + ".*")
    return path


def stacks_of(vmag, path):
    """Names, innermost first."""
    done = subprocess.run([vmag, "heap", "--json", "--measure", "all-bytes", path], capture_output=True, text=True, check=True)
    return [[frame["function"] for frame in site["frames"]] for site in json.loads(done.stdout)["sites"]]


def check(vmag, path, what):
    known = set()
    for stack in stacks_of(vmag, path):
        own = next((at for at, name in enumerate(stack) if name.startswith("by_")), None)
        if own is None or any("pthread_create" in name for name in stack[:own]):
            continue  # what the C library wants for itself
        assert set(stack[:own]) <= BETWEEN, (what, stack)
        known.add(stack[own])
    # No memory of the heap are resources of arenas, and objects of a reserve were there before.
    assert len(known) >= 34 and "by_constructor" in known, (what, sorted(known))
    pprof = path + ".pb.gz"
    subprocess.run([vmag, "export", path, pprof], check=True)
    names = gzip.open(pprof).read()
    assert b"by_malloc" in names and b"heap_alloc_sampled" not in names and b"missed_malloc" not in names, what


def check_program(vmag, program, folder):
    name = os.path.basename(program)
    for unwinder in UNWINDERS:
        profile = "prof:true,lg_prof_sample:0,prof_accum:true,prof_final:true,prof_prefix:{}"
        trace = "trace_stacks:true,trace:{}"
        for what, conf in (("profile", profile), ("trace", trace)):
            path = record(program, folder, f"{name}.{unwinder}.{what}", f"{conf},prof_unwinder:{unwinder}")
            check(vmag, path, f"a {what} of {name} by {unwinder}")


def main(vmag, program):
    need_tool(vmag)
    with tempfile.TemporaryDirectory() as folder:
        check_program(vmag, program, folder)
        # Without debug information functions that are inlined in others have no names.
        if shutil.which("strip"):
            bare = os.path.join(folder, "bare")
            subprocess.run(["strip", "-g", "-o", bare, program], check=True)
            check_program(vmag, bare, folder)


main(*sys.argv[1:])
