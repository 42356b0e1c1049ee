# bench/redo.py on one small experiment: results as the schema says, with proof of the allocator, a plot, a page, and nothing measured twice.
# SPDX-License-Identifier: BSD-2-Clause
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED = 77
SYSTEM = "/usr/bin/python3"


def with_libraries():
    """This test again in the system's Python when only that has the libraries."""
    if importlib.util.find_spec("matplotlib") and importlib.util.find_spec("jsonschema"):
        return
    if os.path.realpath(sys.executable) != os.path.realpath(SYSTEM) and os.path.exists(SYSTEM):
        os.execv(SYSTEM, [SYSTEM, *sys.argv])
    print("SKIPPED: python3-matplotlib and python3-jsonschema are not installed")
    sys.exit(SKIPPED)


def redo(folder, *more):
    command = [sys.executable, TOP / "bench/redo.py", "--quick", "--no-fetch", "--library", sys.argv[1], "--allocators", "vmag,glibc", "--twin", "--least", "--folder", folder,
               "--only", "lists", "--only", "fragmentation", *more]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | {"VMAG_DRIFT_MINUTES": "0.01"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr


def check_record(record, name):
    assert record["status"] in ("narrow", "not narrow", "measured"), record["why"]
    measured = {(run["side"], run["point"]) for run in record["runs"]}
    assert measured == {(side, point) for side in ("vmag", "glibc", "twin", "least") for point in record["points"]}, measured
    proofs = record["proofs"]
    assert any(key.startswith("vmag: ") and "libvmag" in value for key, value in proofs.items()), proofs
    assert any(key.startswith("twin: ") and "twin/libvmag" in value for key, value in proofs.items()), proofs
    assert any(key.startswith("least: ") and "libleast" in value for key, value in proofs.items()), proofs
    assert any(key.startswith("glibc: ") and "libc.so" in value for key, value in proofs.items()), proofs
    first = record["shown"][0]
    assert all(row["median"] > 0 and row["least"] <= row["median"] <= row["most"] for row in record["summary"] if row["metric"] == first), record["summary"]


def check_schema(found):
    sys.path.insert(0, str(TOP / "bench"))
    import jsonschema
    from kit import results
    results.check(found)
    found["experiments"]["lists"]["status"] = "splendid"
    try:
        results.check(found)
    except jsonschema.ValidationError:
        return
    raise AssertionError("the schema takes anything")


def check_folder(folder):
    for name in ("lists", "fragmentation"):
        assert "<svg" in (folder / f"{name}.svg").read_text() and (folder / f"{name}.png").read_bytes()[1:4] == b"PNG"
    page = (folder / "index.html").read_text()
    assert page.count("<svg") == 2 and "Fragmentation over time" in page and "libvmag" in page
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page), "the page is not self-contained"


def check_proof(folder):
    """A library that is not really used is found out."""
    sys.path.insert(0, str(TOP / "bench"))
    from kit.experiment import Bench
    bench = Bench({"ghost": {"library": str(folder / "no-such.so")}}, True, folder)
    try:
        bench.run("ghost", ["perl", "-e", "1"])
    except RuntimeError as why:
        assert "malloc came from" in str(why), why
        return
    raise AssertionError("an allocator that was not loaded was believed")


def main():
    with_libraries()
    with tempfile.TemporaryDirectory(prefix="vmag-redo-") as name:
        folder = pathlib.Path(name)
        redo(folder, "--rounds", "1:1")
        found = json.loads((folder / "results.json").read_text())
        for name, record in found["experiments"].items():
            check_record(record, name)
        check_folder(folder)
        assert redo(folder).count("is there already") == 2
        # Interrupted in the second round: the first stays, the second is measured anew.
        record = found["experiments"]["lists"]
        kept, record["status"] = record["runs"][:], "begun"
        record["runs"].append(dict(kept[0], round=2))
        (folder / "results.json").write_text(json.dumps(found))
        redo(folder, "--rounds", "2:2", "--no-plots")
        again = json.loads((folder / "results.json").read_text())
        runs = again["experiments"]["lists"]["runs"]
        assert runs[:len(kept)] == kept and len(runs) == 2 * len(kept)
        check_proof(folder)
        check_schema(again)


main()
