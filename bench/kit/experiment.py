"""What an experiment is, and what it has at hand.

An experiment measures every side (an allocator, mostly) at every point (threads, clients, a program …) of its axis, round by round.
Each lives in a file of bench/experiments and says in its attributes what the results say about it.

SPDX-License-Identifier: BSD-2-Clause
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from kit import OUT, TOP, sha256
from kit.process import die_with_parent, environment, prepare_child

PROGRAMS = TOP / "bench/programs"
COMPILE_FLAGS = ["-O2", "-g", "-Wall", "-Wextra", "-fno-builtin-malloc", "-fno-builtin-calloc", "-fno-builtin-realloc", "-fno-builtin-free"]
PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/usr/local/sbin"


class Skipped(Exception):
    """What is missing, in one line."""


@dataclasses.dataclass(frozen=True)
class Metric:
    label: str
    unit: str
    better: str = "lower"  # or "higher"
    scale: float = 1.0  # what the tables and plots divide by
    compared: bool = True  # False: a lower figure is no better, or it may be negative


SECONDS = Metric("processor time", "s")
WALL = Metric("time", "s")
CYCLES = Metric("user cycles", "billions", scale=1e9)
PEAK = Metric("peak resident memory", "MiB", scale=1 << 20)
RESIDENT = Metric("resident memory", "MiB", scale=1 << 20)


class Experiment:
    name = ""  # the file's
    title = ""
    paper = ""  # year, figure
    about = ""  # how it is done, in a sentence or two
    axis = "threads"
    metrics = {}  # name: Metric; the first is the one of the plot, those of `shown` are in the tables
    shown = ()
    plot = "lines"  # lines, bars, series
    needs = ()  # commands
    optional = {}  # points that are left out, and told, where their command is not installed
    parallel = False  # all sides of a point at the same time: for what mostly sleeps, and whose time does not count
    settled = True  # False: the figures are no repetitions of one another, or take too long to repeat until they are narrow

    def points(self, quick):
        """Where to measure, in order: numbers for lines, words for bars."""
        raise NotImplementedError

    def sides(self, bench):
        return list(bench.allocators)

    def prepare(self, bench):
        """Once, before the first measurement: programs, inputs, data."""

    def measure(self, bench, side, point):
        """One measurement: a figure for each metric; "series" beside them for what happens over time."""
        raise NotImplementedError

    def end_round(self):
        """After each round, and when it was given up: ends what the measurements left running."""

    def versions(self):
        """What was measured, by name."""
        return {}

    def finish(self, bench):
        """Once, after the last; may return pictures, by name."""
        return {}


class Bench:
    """What an experiment has at hand: the allocators, programs compiled, commands run on an allocator."""

    def __init__(self, allocators, quick, folder=OUT, vmag=None, missing=()):
        self.allocators, self.quick, self.folder = allocators, quick, pathlib.Path(folder)
        self.vmag = vmag  # the library, though vmag may not be among the allocators
        self.missing = missing  # allocators that were wanted and are not there
        self.budget = None  # seconds for the experiment, where they are few
        self.inputs = self.folder / "inputs"
        self.inputs.mkdir(parents=True, exist_ok=True)
        self.proofs = {}
        self.input_sums = {}

    def library(self, side):
        """The file to preload; None for the C library, and for a side that is no allocator: the program as it is."""
        return self.allocators[side]["library"] if side in self.allocators else None

    def environment(self, side, **more):
        return environment(self.library(side)) | {"PATH": PATH, "HOME": str(self.folder)} | more

    # --- programs ---

    def program(self, name, output=None, flags=()):
        """bench/programs/NAME, compiled when it has changed."""
        source = PROGRAMS / name
        binary = self.folder / "programs" / (output or source.stem)
        binary.parent.mkdir(exist_ok=True)
        newest = max(path.stat().st_mtime for path in (source, PROGRAMS / "program.h"))
        if not binary.exists() or binary.stat().st_mtime < newest:
            plus = source.suffix == ".cpp"
            compiler = os.environ.get("CXX", "c++") if plus else os.environ.get("CC", "cc")
            command = [compiler, "-std=c++17" if plus else "-std=gnu17", *COMPILE_FLAGS, *flags, "-pthread", "-o", binary, source, "-lm"]
            subprocess.run(command, check=True)
        return str(binary)

    def pattern(self, name, side, scale, **how):
        """One pattern of the bench program (bench/patterns)."""
        subprocess.run([TOP / "bench/build.sh"], check=True)
        return json.loads(self.run(side, [OUT / "bench", name, "--scale", str(scale)], **how)["output"].splitlines()[-1])

    def input(self, name, make):
        """A file of the inputs folder; make(file) writes it when it is not there."""
        path = self.inputs / name
        if not path.exists():
            with tempfile.NamedTemporaryFile("w", dir=self.inputs, delete=False) as file:
                make(file)
            os.replace(file.name, path)
        self.input_sums[name] = sha256(path)
        return str(path)

    # --- runs ---

    def run(self, side, command, proof=None, seconds=600, huge_pages=True, pinned=True, **variables):
        """The command on the side's allocator, on the last processor unless not `pinned`: what it cost (bench/programs/launch.c), and its output.

        `proof`: the same program with less to do, for the proof of which allocator runs."""
        command = [str(word) for word in command]
        self.prove(side, [str(word) for word in proof or command], variables)
        with tempfile.NamedTemporaryFile("r", dir=self.folder) as result:
            words = [self.program("launch.c"), "--seconds", str(seconds)]
            if self.library(side):
                words += ["--preload", self.library(side)]
            if pinned:
                words += ["--cpu", str(max(os.sched_getaffinity(0)))]
            if not huge_pages:
                words += ["--no-huge-pages"]
            clean = {name: value for name, value in self.environment(side, **variables).items() if name != "LD_PRELOAD"}
            done = subprocess.run([*words, result.name, *command], env=clean, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, cwd=self.folder, preexec_fn=die_with_parent)
            cost = json.load(result)
        if cost["status"] != 0:
            raise RuntimeError(f"{os.path.basename(command[0])} on {side}: status {cost['status']}: {done.stderr.strip()[-200:]}")
        cost["cpu_seconds"] = cost["user_seconds"] + cost["system_seconds"]
        cost["output"] = done.stdout
        return cost

    def prove(self, side, command, variables):
        """Once for each program: to which file the loader bound its malloc."""
        program = os.path.basename(command[0])
        if (side, program) in self.proofs:
            return
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            variables = self.environment(side, **variables) | {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": os.path.join(folder, "bindings")}
            subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
                           preexec_fn=lambda: prepare_child(os.sched_getaffinity(0)))
            bound = set()
            for path in pathlib.Path(folder).iterdir():
                bound |= set(re.findall(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(?:malloc|realloc)'", path.read_text(errors="replace")))
        # Where a program takes malloc's address, the loader names the program's own table of jumps.
        found = {giver for _, giver in bound} - {taker for taker, _ in bound if ".so" not in os.path.basename(taker)}
        wanted = self.library(side)
        right = found == {wanted} if wanted else found and all(re.search(r"/libc\.so", file) for file in found)
        if not right:
            raise RuntimeError(f"{program} on {side}: malloc came from {', '.join(sorted(found)) or 'nowhere that the loader knows'}")
        self.proofs[side, program] = min(found)


def lines_of_json(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def find(program):
    return shutil.which(program, path=PATH)


def version_of(*command):
    """The first line with a digit that a program says about itself."""
    if not find(command[0]):
        return "not there"
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, env={"PATH": PATH})
    return next((line.strip()[:80] for line in done.stdout.splitlines() if re.search(r"\d", line)), "unknown")


def package_version(package):
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True) if find("dpkg-query") else None
    return done.stdout if done and done.returncode == 0 else "unknown"
