"""Today: C++ containers, with sizes passed to operator delete and without.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit.experiment import CYCLES, PEAK, SECONDS, Experiment


class SizedDelete(Experiment):
    title = "C++: sized delete"
    paper = "today"
    about = "Maps, vectors of strings, trees of shared pointers that come and go; the same program built with -fsized-deallocation and without."
    axis = "operator delete"
    plot = "bars"
    metrics = {"cpu_seconds": SECONDS, "user_cycles": CYCLES, "peak_bytes": PEAK}
    shown = ("cpu_seconds", "user_cycles", "peak_bytes")

    def points(self, quick):
        return ["sized", "unsized"]

    def prepare(self, bench):
        self.programs = {"sized": bench.program("sized_delete.cpp", "sized", ["-fsized-deallocation"]),
                         "unsized": bench.program("sized_delete.cpp", "unsized", ["-fno-sized-deallocation"])}

    def measure(self, bench, side, point):
        cost = bench.run(side, [self.programs[point], 60 if bench.quick else 600])
        return {name: cost[name] for name in self.metrics}


EXPERIMENT = SizedDelete()
