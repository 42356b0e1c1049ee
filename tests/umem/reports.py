# What lose.c loses is reported, and what it keeps is not; every report is text, and JSON that parses.
# `reports.py LOSE LIBRARY`.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import signal
import subprocess
import sys
import tempfile

NAMES = "umastat umem_cache vmem findleaks umausers umem_verify umem_log umem_status".split()


def run(command, **environment):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600,
                            env={**os.environ, **environment})
    assert result.returncode == 0, f"{command} {environment}: status {result.returncode}\n{result.stderr}"
    return result


def check_leaks(report):
    sizes = sorted((group["bytes"], group["buffers"]) for group in report["groups"])
    assert sizes == [(240, 5), (1000, 5)], f"lost are {sizes}"
    assert report["buffers"] == 10 and report["bytes"] == 1240
    for group in report["groups"]:
        assert "umem_lose" in group["stack"][0], group["stack"]
        assert len(group["stack"]) >= 2, "only one frame"
        assert group["stack"][0].startswith("lose_pairs+"), group["stack"]


def at_exit(program, debug="default"):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report")
        for name in NAMES:
            value = f"{name},json,{path}"
            run([program], UMEM_DEBUG=debug, UMEM_LOGGING="transaction,contents,fail", VMAG_UMEM_REPORT=value)
        with open(path, encoding="utf-8") as file:
            reports = [json.loads(line) for line in file]
    assert [report["report"] for report in reports] == NAMES, "not every report came once"
    assert all(report["format"] == "vmag-umem-1" and report["pid"] > 0 for report in reports)
    return {report["report"]: report for report in reports}


def check_foreign_files(program):
    """A path may be foreseen by those who share its folder: no link is followed."""
    with tempfile.TemporaryDirectory() as folder:
        kept, link = os.path.join(folder, "kept"), os.path.join(folder, "link")
        os.symlink(kept, link)
        assert "cannot be written" in run([program], VMAG_UMEM_REPORT=f"umastat,{link}").stderr
        assert not os.path.exists(kept), "a link was followed"
        assert "cannot be written" in run([program], VMAG_UMEM_REPORT="umastat,/dev/full").stderr
        assert "cannot be written" in run([program], VMAG_UMEM_REPORT="umastat,/proc/self/oom_score_adj").stderr  # EINVAL
        assert "does not tell what is mapped" in run([program, "no files"], UMEM_DEBUG="default", VMAG_UMEM_REPORT="findleaks").stderr
        long = f"{folder}{'/.' * 450}/{'x' * 200}"
        assert run([program], VMAG_UMEM_REPORT=f"umastat,{long}").stderr.startswith("vmag: VMAG_UMEM_REPORT=umastat,/")
        assert os.listdir(folder) == ["link"], "of a path that is too long a part was taken"
        for name in ("/dev/stderr", "/proc/self/fd/2"):
            assert "umem_alloc_48" in run([program], VMAG_UMEM_REPORT=f"umastat,{name}").stderr
        with open(kept, "w+", encoding="utf-8") as file:
            subprocess.run([program], stderr=file, check=True, env={**os.environ, "VMAG_UMEM_REPORT": "umastat,/dev/stderr"})
            file.seek(0)
            assert "umem_alloc_48" in file.read()


def main(program, library):
    check_foreign_files(program)
    reports = at_exit(program)
    check_leaks(reports["findleaks"])
    assert reports["umem_verify"]["damaged"] == 0
    assert any(cache["name"] == "lose" and cache["in_use"] == 1 for cache in reports["umastat"]["caches"])
    names = [cache["name"] for cache in reports["umastat"]["caches"]]
    assert len(names) == len(set(names)), names
    row = next(cache for cache in reports["umastat"]["caches"] if cache["name"] == "umem_alloc_48")
    assert row["in_use"] == 5 and row["allocs"] >= 5, row
    assert any(cache["name"] == "lose" for cache in reports["umem_cache"]["caches"])
    assert [entry["event"] for entry in reports["umem_log"]["entries"]].count("free") >= 1
    assert reports["umem_status"]["debugging"] == 1 and reports["umem_status"]["audit_frames"] == 15
    (status, ) = [json.loads(line) for line in run([program, "umem_status"], UMEM_DEBUG="audit=30,default").stdout.splitlines()]
    assert status["audit_frames"] == 30, status
    users = reports["umausers"]["groups"]
    assert users[0]["bytes"] >= users[-1]["bytes"] and users[0]["bytes"] >= 100000

    (whatis, ) = [json.loads(line) for line in run([program, "whatis"], UMEM_DEBUG="audit=3").stdout.splitlines()]
    assert whatis["cache"] == "lose" and whatis["size"] == 72 and whatis["state"] == "live", whatis
    assert len(whatis["allocated"]) <= 3 and "umem_lose" in whatis["allocated"][0]
    whatis = json.loads(run([program, "whatis"]).stdout)
    assert whatis["is"] == "in a slab of the heap" and whatis["cache"] == "lose", whatis
    whatis = json.loads(run([program, "whatis inside"]).stdout)
    assert "large object" in whatis["is"] and whatis["size"] >= 100000, whatis
    whatis = json.loads(run([program, "whatis freed"]).stdout)
    assert whatis["is"] == "free memory of the heap", whatis
    whatis = json.loads(run([program, "whatis code"]).stdout)
    assert whatis["is"] == "part of the program or a library", whatis

    # Who asks is told all damage, and goes on.
    damaged = run([program, "damage", "umem_verify"], UMEM_DEBUG="audit,noabort")
    assert json.loads(damaged.stdout)["damaged"] == 2 and damaged.stderr.count("written beyond") == 2, damaged
    # But for the end, which is as if nobody had asked.
    for words in (["damage", "umem_verify"], ["damage"]):
        ended = subprocess.run([program, *words], capture_output=True, text=True, env={**os.environ, "UMEM_DEBUG": "guards", "VMAG_UMEM_REPORT": "umem_verify"})
        assert ended.returncode == -signal.SIGABRT and ended.stderr.count("written beyond") == 2, ended

    logs = {"UMEM_DEBUG": "audit,contents=16", "UMEM_LOGGING": "transaction=1M,contents,fail"}
    entries = json.loads(run([program, "umem_log contents 5"], **logs).stdout)["entries"]
    assert any(entry["size"] == 123 and entry["event"] == "free" and len(entry["contents"]) == 32 for entry in entries), entries
    entries = json.loads(run([program, "umem_log 3"], **logs).stdout)["entries"]
    assert len(entries) == 3 and entries[0]["age_ns"] <= entries[2]["age_ns"], entries
    for debug in ({"UMEM_DEBUG": "audit"}, {}):
        entries = json.loads(run([program, "umem_log slab"], UMEM_LOGGING="slab=1M", **debug).stdout)["entries"]
        assert any(entry["event"] == "make" and entry["object_bytes"] == 48 + 16 * bool(debug) for entry in entries), entries
        assert all(entry["size"] >= entry["object_bytes"] for entry in entries), entries
        assert not debug or all("stack" in entry and entry["stack"] for entry in entries), entries
    assert "slab of 16384 bytes for objects of" in run([program], UMEM_LOGGING="slab", VMAG_UMEM_REPORT="umem_log slab").stderr
    segments = json.loads(run([program, "vmem"]).stdout)
    assert segments["report"] == "vmem" and isinstance(segments["arenas"], list)
    caches = json.loads(run([program, "umastat"], VMAG_CONF="prof:true,lg_prof_sample:0").stdout)["caches"]
    assert [cache["in_use"] for cache in caches if cache["name"] == "umem_alloc_48"] == [5], f"samples are not counted: {caches}"

    for name in NAMES:
        text = run([program], UMEM_DEBUG="audit", UMEM_LOGGING="transaction", VMAG_UMEM_REPORT=name).stderr
        assert len(text.splitlines()) >= 1, f"{name} as text says nothing"
    text = run([program], UMEM_DEBUG="audit", VMAG_UMEM_REPORT="findleaks").stderr
    assert text.startswith("vmag: 1240 bytes in 10 buffers are lost"), text
    assert "needs UMEM_DEBUG" in run([program], VMAG_UMEM_REPORT="findleaks").stderr
    assert "no such report" in run([program], VMAG_UMEM_REPORT="nonsense").stderr
    assert "there is no arena of that name" in run([program], VMAG_UMEM_REPORT="vmem nobodys").stderr
    assert "umem_alloc_48" in run([program], VMAG_UMEM_REPORT="umastat").stderr
    # A program that knows nothing of all this.
    text = run([sys.executable, "-c", "pass"], LD_PRELOAD=library, UMEM_DEBUG="default", VMAG_UMEM_REPORT="umastat").stderr
    assert "umem_alloc_" in text, text


main(*sys.argv[1:])
