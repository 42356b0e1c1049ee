"""Today: 1 to 1,000 threads, throughput and what stays cached.

SPDX-License-Identifier: BSD-2-Clause
"""

import json

from kit.experiment import Experiment, Metric


class ManyThreads(Experiment):
    title = "One to a thousand threads"
    paper = "today"
    about = ("Each thread replaces random objects of 16 to 1024 bytes in a table of its own, frees all, and waits. When all wait, nothing is live: "
             "what is resident beyond the state before the first malloc is the allocator's.")
    metrics = {"per_second": Metric("replacements a second", "millions", "higher", 1e6), "cpu_ns": Metric("processor time a replacement", "ns"),
               "cached_bytes": Metric("resident with nothing live", "MiB", scale=1 << 20)}
    shown = ("per_second", "cpu_ns", "cached_bytes")

    def points(self, quick):
        return [1, 16, 1000] if quick else [1, 2, 4, 16, 64, 250, 1000]

    def prepare(self, bench):
        self.program = bench.program("threads.c")
        self.operations = 1000000 if bench.quick else 4000000

    def measure(self, bench, side, point):
        return json.loads(bench.run(side, [self.program, point, self.operations], pinned=point == 1)["output"])


EXPERIMENT = ManyThreads()
