# Objects of object caches in heap profiles: known by their cache's name wherever a profile goes.
# `caches.py VMAG LIBRARY HOLDER FORMAT`; the format is include/vmag/format.h, which says whether they are sampled.
# SPDX-License-Identifier: BSD-2-Clause
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile

from holder import Holder, need_tool, skip

MIB = 1 << 20
HELD = 8


def run(vmag, *words):
    done = subprocess.run([vmag, *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def check_heap(vmag, source):
    """The cache's objects, and those of malloc beside them."""
    found = json.loads(run(vmag, "heap", "--json", source))
    cache = next(row for row in found["caches"] if row["name"] == "holder")
    assert abs(cache["bytes"] - HELD * MIB) < 6 * cache["bytes_error"] + MIB // 4, cache
    assert found["bytes"] > cache["bytes"] + 2 * MIB, found
    assert "of object caches:" in run(vmag, "heap", source)
    rows = [line for line in run(vmag, "heap", "--format=csv", source).splitlines() if '"holder"' in line]
    assert rows and all(row.split(",")[8] == "" for row in rows), rows


def check_labels(vmag, pid, folder):
    proto = os.path.join(folder, "p.pb.gz")
    run(vmag, "export", pid, proto)
    with open(proto, "rb") as file:
        assert b"holder" in gzip.decompress(file.read())
    pprof = shutil.which("pprof") or os.path.expanduser("~/go/bin/pprof")
    if not os.path.exists(pprof):
        print("without pprof (go install github.com/google/pprof): labels are not read by it")
        return
    said = subprocess.run([pprof, "-tags", "-unit=B", proto], capture_output=True, text=True, check=True).stdout
    assert "cache: Total" in said and "holder" in said, said
    only = subprocess.run([pprof, "-top", "-unit=B", "-nodefraction=0", "-tagfocus=cache=holder", proto],
                          capture_output=True, text=True, check=True).stdout
    assert "take_cached" in only and "site_hold" not in only, only


def check_kept(vmag, pid, folder):
    """As a file, and as a black box."""
    kept = os.path.join(folder, "p.heap")
    run(vmag, "export", pid, kept)
    check_heap(vmag, kept)
    check_heap(vmag, os.path.join(folder, f"box.{pid}.box"))


def check_top(vmag, pid):
    rows = json.loads(run(vmag, "top", "--json", "--interval=0.1", "--view=caches", pid))["rows"]
    cache = next(row for row in rows if row["name"] == "holder")
    assert any(" by " in line and "take_cached" in line for line in cache["detail"]), cache


def main(vmag, library, program, format):
    need_tool(vmag)
    if "VMAG_ARENA_CACHES" not in open(format, encoding="utf-8").read():
        skip("this library samples no objects of object caches")
    with tempfile.TemporaryDirectory() as folder:
        with Holder(library, program, f"prof:true,lg_prof_sample:13,prof_unwinder:frames,black_box:{folder}/box") as holder:
            holder.tell("hold", 4)
            holder.tell("cache", HELD)
            check_heap(vmag, holder.pid)
            check_labels(vmag, holder.pid, folder)
            check_kept(vmag, holder.pid, folder)
            check_top(vmag, holder.pid)


main(*sys.argv[1:])
