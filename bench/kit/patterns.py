"""An experiment that consists of patterns of the bench program (bench/patterns).

SPDX-License-Identifier: BSD-2-Clause
"""

from kit.experiment import Experiment, Metric


class Patterns(Experiment):
    axis = "pattern"
    plot = "bars"
    metrics = {"ns": Metric("time an operation", "ns"), "cpu_ns": Metric("processor time an operation", "ns"),
               "peak": Metric("peak resident memory, without the program's own tables", "MiB", scale=1 << 20)}
    shown = ("ns", "cpu_ns", "peak")
    patterns = ()
    threads = {}  # those that are not alone on their processor
    scale, quick_scale = 1.0, 0.1

    def points(self, quick):
        return list(self.patterns)

    def measure(self, bench, side, point):
        told = bench.pattern(point, side, self.quick_scale if bench.quick else self.scale, pinned=point not in self.threads)
        return {"ns": told["ns_per_operation"], "cpu_ns": told["cpu_ns_per_operation"], "peak": told["rss_peak"] - told["own_bytes"]}
