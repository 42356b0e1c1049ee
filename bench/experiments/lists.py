"""2012: lists built and mapped by four threads of a reference-counting runtime.

SPDX-License-Identifier: BSD-2-Clause
"""

import json

from kit.experiment import PEAK, SECONDS, WALL, Experiment, Metric


class Lists(Experiment):
    title = "Lists of a reference-counting runtime"
    paper = "2012"
    about = ("Threads build a list of boxed numbers, map it three times (each cell made as one dies), and drop it; every cell and number is an object counted with atomics. "
             "The post had four threads on two cores.")
    metrics = {"seconds": WALL, "cpu_seconds": SECONDS, "peak_bytes": PEAK, "major_faults": Metric("major page faults", "")}
    shown = ("seconds", "cpu_seconds", "peak_bytes")

    def points(self, quick):
        return [1, 4] if quick else [1, 2, 4, 8]

    def prepare(self, bench):
        self.program = bench.program("lists.c")
        self.cells, self.rounds = (50000, 3) if bench.quick else (500000, 4)

    def measure(self, bench, side, point):
        cost = bench.run(side, [self.program, point, self.cells, self.rounds], pinned=False)
        told = json.loads(cost["output"])
        return {"seconds": told["seconds"], "cpu_seconds": told["cpu_seconds"], "peak_bytes": cost["peak_bytes"], "major_faults": cost["major_faults"]}


EXPERIMENT = Lists()
