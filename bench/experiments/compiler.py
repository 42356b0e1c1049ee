"""Today: a large C++ file compiled.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit import inputs
from kit.experiment import CYCLES, PEAK, SECONDS, WALL, Experiment, version_of


class Compiler(Experiment):
    title = "Compiling a large C++ file"
    paper = "today"
    about = "The standard library and 25 sets of containers (2 with --quick); time is that of all processes, memory that of the largest."
    axis = "compiler"
    plot = "bars"
    metrics = {"cpu_seconds": SECONDS, "wall_seconds": WALL, "user_cycles": CYCLES, "peak_bytes": PEAK}
    shown = ("cpu_seconds", "user_cycles", "peak_bytes")
    optional = {"g++": "g++", "clang++": "clang++"}

    def points(self, quick):
        return ["g++"] if quick else ["g++", "clang++"]

    def prepare(self, bench):
        sets = 2 if bench.quick else 25
        self.source = bench.input(f"large{sets}.cpp", lambda file: inputs.cpp(file, sets))

    def measure(self, bench, side, point):
        command = [point, "-std=c++17", "-O0" if bench.quick else "-O1", "-x", "c++", "-c", "-o", "/dev/null"]
        cost = bench.run(side, [*command, self.source], proof=[*command, "/dev/null"])
        return {name: cost[name] for name in self.metrics}

    def versions(self):
        return {"g++": version_of("g++", "--version"), "clang++": version_of("clang++", "--version")}


EXPERIMENT = Compiler()
