"""2006, Figure 6: malloc-test, one 512-byte object a cycle, 1 to 32 threads.

SPDX-License-Identifier: BSD-2-Clause
"""

import json

from kit.experiment import Experiment, Metric


class MallocTest(Experiment):
    title = "malloc-test: allocator throughput by threads"
    paper = "2006, Figure 6"
    about = "Threads allocate and free one 512-byte object at a time in a tight loop; the cycles of a run are divided among the threads."
    metrics = {"per_second": Metric("allocations a second", "millions", "higher", 1e6), "cpu_ns": Metric("processor time an allocation", "ns")}
    shown = ("per_second", "cpu_ns")
    size = 512
    counts = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    quick_counts = (1, 2, 8, 32)

    def points(self, quick):
        return list(self.quick_counts if quick else self.counts)

    def prepare(self, bench):
        self.program = bench.program("malloc_test.c")
        self.cycles = 4000000 if bench.quick else 40000000

    def measure(self, bench, side, point):
        cost = bench.run(side, [self.program, point, self.cycles, self.size], pinned=point == 1)
        return json.loads(cost["output"])


EXPERIMENT = MallocTest()
