# bench/redo.py from session to session: what is measured again, what goes on, what a failure or a signal leaves behind. The experiments are made up.
# SPDX-License-Identifier: BSD-2-Clause
import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from unittest import mock

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "bench"))

import redo  # noqa: E402
from kit import allocators, results  # noqa: E402
from kit.experiment import Experiment, Metric  # noqa: E402


class MadeUp(Experiment):
    title = paper = about = "made up"
    metrics = {"ns": Metric("time", "ns")}
    shown = ("ns",)
    optional = {8: "no-such-command"}

    def __init__(self, name):
        self.name, self.measured, self.act = name, 0, lambda side, point: None

    def points(self, quick):
        return [1, 2, 8]

    def prepare(self, bench):
        bench.input("text", lambda file: file.write("text"))

    def measure(self, bench, side, point):
        self.measured += 1
        self.act(side, point)
        return {"ns": 10.0 + self.measured / 1000}


class Place:
    """A folder with a library and results in it, and two experiments."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.library = self.folder / "libvmag.so"
        self.results = self.folder / "results/results.json"
        self.made = {name: MadeUp(name) for name in ("one", "two")}
        self.build("A")

    def build(self, text):
        self.library.write_text(text)

    def session(self, *words, there=("glibc", "peer")):
        """How often each was measured, and what was said."""
        before = {name: one.measured for name, one in self.made.items()}
        libraries = {"vmag": str(self.library)} | {name: None for name in there}
        chosen = {name: {"version": "1", "origin": "here", "library": library} for name, library in libraries.items()}
        command = ["redo.py", "--no-fetch", "--rounds", "2:2", "--folder", str(self.results.parent), "--allocators", "vmag,glibc,peer", *words]
        said = io.StringIO()
        with (mock.patch.object(sys, "argv", command), mock.patch.object(redo.experiments, "NAMES", tuple(self.made)),
              mock.patch.object(redo.experiments, "load", self.made.get), mock.patch.object(redo, "choose", lambda *_: chosen),
              mock.patch.object(redo, "level_huge_pages", lambda: None), mock.patch.object(redo.Bench, "program", lambda *_: None),
              mock.patch.object(redo.subprocess, "run"), contextlib.redirect_stderr(said)):
            with contextlib.suppress(KeyboardInterrupt):
                redo.measure_all(redo.read_arguments())
        return tuple(one.measured - before[name] for name, one in self.made.items()), said.getvalue()

    def record(self, name):
        return json.loads(self.results.read_text())["experiments"][name]


WHOLE = 12  # three sides, two points, two rounds


def test_builds(place):
    """What another build has measured is never taken for this one's."""
    assert place.session()[0] == (WHOLE, WHOLE)
    place.build("B")
    assert place.session("--only", "one")[0] == (WHOLE, 0)
    assert place.record("one")["allocators"]["vmag"]["sha256"] != place.record("two")["allocators"]["vmag"]["sha256"]
    from kit import document
    assert "Not all had the same vmag: one: " in " ".join(document.conditions(json.loads(place.results.read_text())))
    assert place.session()[0] == (0, WHOLE)
    assert place.session()[0] == (0, 0)
    assert place.session("--quick")[0] == (WHOLE, WHOLE)
    (place.results.parent / "inputs/text").write_text("another text")
    assert place.session("--quick", "--only", "one")[0] == (WHOLE, 0)


def test_missing(place):
    """What is not there is told and stays told; when it is there, it is measured."""
    counts, said = place.session(there=("glibc",))
    assert counts == (8, 8) and "left out: peer" in said
    assert place.record("one")["missing"] == ["peer", "8"]
    assert place.session()[0] == (WHOLE, WHOLE)


def test_peers(place):
    """A peer that was built lies beside the list of them, wherever the tree is; one that is not there is named."""
    copies = place.folder / "copies"
    copies.mkdir()
    (place.folder / "libone.so").write_text("")
    (place.folder / "versions.txt").write_text("mimalloc3 3.3 crates.io:x /where/the/tree/was/libone.so\nmimalloc2 2.3 crates.io:x /no/such/place/libtwo.so\n")
    with mock.patch.object(allocators, "VERSIONS", place.folder / "versions.txt"), contextlib.redirect_stderr(io.StringIO()) as said:
        found = allocators.known("test", place.library, copies)
    assert found["mimalloc3"]["library"] == str(place.folder / "libone.so") and "mimalloc2" not in found
    assert "test: not there: jemalloc, mimalloc2, " in said.getvalue()


def interrupt_at(place, name, measurement):
    one = place.made[name]
    start = one.measured

    def act(side, point):
        if one.measured - start == measurement:
            one.act = lambda *_: None
            raise KeyboardInterrupt
    one.act = act


def test_again(place):
    """Interrupted, the same command with --again goes on: with the whole round that it was in, and without what it had done."""
    place.session()
    interrupt_at(place, "two", 8)
    assert place.session("--again")[0] == (WHOLE, 8)
    assert place.record("two")["status"] == "begun" and len(place.record("two")["runs"]) == 7
    assert place.session("--again")[0] == (0, 6) and place.record("two")["status"] == "not narrow", place.record("two")
    assert place.session("--again")[0] == (WHOLE, WHOLE)


def test_failure(place):
    """A peer that crashes does not take the others along, and is compared with nobody."""
    def act(side, point):
        if side == "peer" and point == 2:
            raise RuntimeError("crashed")
    place.made["one"].act = act
    assert "goes on without peer: 2: crashed" in place.session()[1]
    record = place.record("one")
    assert record["status"] == "not narrow" and record["failures"] == {"peer": "2: crashed"}
    assert {row["side"]: row["rounds"] for row in record["summary"]} == {"vmag": 2, "glibc": 2}

    def all_fail(side, point):
        raise RuntimeError("crashed")
    place.made["two"].act = all_fail
    place.session("--only", "two", "--again")
    assert place.record("two")["status"] == "failed" and place.record("two")["summary"] == []


def test_narrow(place):
    """With six rounds alike; not without figures."""
    place.made["two"].measure = lambda bench, side, point: {}
    place.session("--rounds", "6:6")
    assert place.record("one")["status"] == "narrow" and place.record("two")["status"] == "not narrow"


def test_damaged(place):
    """A file of results that cannot be read is kept."""
    for text in ('{"format": "vmag-exp', "[1, 2]", '{"format": "vmag-experiments/1", "experiments": {}}', '{"format": "vmag-experiments/2", "experiments": []}', b"\xff\xfe"):
        place.results.parent.mkdir(exist_ok=True)
        place.results.write_bytes(text if isinstance(text, bytes) else text.encode())
        with contextlib.redirect_stderr(io.StringIO()) as said:
            assert results.load(place.results) is None
        aside, = place.results.parent.glob("results.2*.json")
        assert aside.name in said.getvalue() and not place.results.exists()
        aside.unlink()


PATIENCE = 300  # of a busy machine; what is to end at once would sleep for longer
SLEEPER = """
import subprocess, sys, tempfile, time
sys.path.insert(0, sys.argv[1])
from kit.process import die_with_parent, end_by_signals
end_by_signals()
with tempfile.TemporaryDirectory() as folder:
    child = subprocess.Popen(["sleep", "900"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
    print(folder, child.pid, flush=True)
    while child.poll() is None:
        time.sleep(0.1)  # a signal that comes just before is seen to behind it
"""


PARALLEL = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
import redo

class Asleep:
    parallel = True
    def measure(self, bench, side, point):
        sys.stdout.write("asleep\\n")  # print() writes the end of the line apart
        sys.stdout.flush()
        subprocess.run(["sleep", "900"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

redo.end_by_signals()
measuring = object.__new__(redo.Measuring)
measuring.experiment, measuring.bench = Asleep(), None
measuring.measure(1, 1, ["vmag", "glibc"])
"""


def gone(pid):
    """Before it would end by itself."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if ") Z" in pathlib.Path(f"/proc/{pid}/stat").read_text():
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_signals(place):
    for number in (signal.SIGTERM, signal.SIGHUP):
        runner = subprocess.Popen([sys.executable, "-c", SLEEPER, TOP / "bench"], stdout=subprocess.PIPE, text=True)
        folder, pid = runner.stdout.readline().split()
        runner.send_signal(number)
        assert runner.wait(PATIENCE) == 128 + number and not os.path.exists(folder) and gone(pid)
        runner.stdout.close()
    # All sides at once: the runner does not wait for what they run.
    runner = subprocess.Popen([sys.executable, "-c", PARALLEL, TOP / "bench"], stdout=subprocess.PIPE, text=True)
    assert [runner.stdout.readline() for _ in range(2)] == ["asleep\n"] * 2
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(PATIENCE) == 128 + signal.SIGTERM
    runner.stdout.close()


def main():
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory(prefix="vmag-sessions-") as folder:
                test(Place(folder))


main()
