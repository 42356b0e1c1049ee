"""Today: Python at work, with its own allocator for small objects and without.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit import TOP
from kit.experiment import CYCLES, PEAK, SECONDS, Experiment, version_of


class PythonProgram(Experiment):
    title = "Python"
    paper = "today"
    about = "Dictionaries, JSON, pickles, regular expressions, threads (tests/real/python_program.py). python: as it comes; malloc: PYTHONMALLOC=malloc."
    axis = "mode"
    plot = "bars"
    metrics = {"cpu_seconds": SECONDS, "user_cycles": CYCLES, "peak_bytes": PEAK}
    shown = ("cpu_seconds", "user_cycles", "peak_bytes")
    needs = ("python3",)

    def points(self, quick):
        return ["malloc"] if quick else ["python", "malloc"]

    def measure(self, bench, side, point):
        cost = bench.run(side, ["python3", TOP / "tests/real/python_program.py"], **({"PYTHONMALLOC": "malloc"} if point == "malloc" else {}))
        return {name: cost[name] for name in self.metrics}

    def versions(self):
        return {"python": version_of("python3", "--version")}


EXPERIMENT = PythonProgram()
