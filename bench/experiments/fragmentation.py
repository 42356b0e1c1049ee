"""2011: fragmentation over time, of a program whose live bytes stay the same while its sizes drift.

SPDX-License-Identifier: BSD-2-Clause
"""

import os
import statistics

from kit.experiment import Experiment, Metric, lines_of_json


class Fragmentation(Experiment):
    title = "Fragmentation over time"
    paper = "2011, consistent memory"
    about = ("Two threads hold the same number of bytes all the time while the sizes they ask for wander between 24 bytes and 6 KiB and back, twice; some buffers are up to 256 KiB. "
             "All allocators at the same time. VMAG_DRIFT_MINUTES sets how long (default 10, less when there is little time for all). The drift compares the second wave with the first.")
    axis = "live MiB"
    plot = "series"
    parallel = True
    settled = False
    metrics = {"resident_per_live": Metric("resident bytes a live byte, mean of the second half", ""),
               "resident_per_live_most": Metric("resident bytes a live byte, most", ""),
               "drift_per_hour": Metric("drift of it an hour", "", compared=False),
               "cpu_seconds": Metric("processor time", "s", compared=False)}
    shown = ("resident_per_live", "resident_per_live_most", "drift_per_hour", "cpu_seconds")
    series = ("seconds", "resident_bytes", "live_bytes")

    def points(self, quick):
        return [64] if quick else [256]

    def prepare(self, bench):
        self.program = bench.program("drift.c")
        usual = 6 if bench.quick else min(600, max(bench.budget * 0.8, 60)) if bench.budget else 600
        self.seconds = max(float(os.environ.get("VMAG_DRIFT_MINUTES", usual / 60)) * 60, 3)

    def measure(self, bench, side, point):
        cost = bench.run(side, [self.program, round(self.seconds), point, 150000], proof=[self.program, 1, 16, 10000], pinned=False, seconds=int(self.seconds * 3) + 60)
        series = lines_of_json(cost["output"])
        ratios = [line["resident_bytes"] / line["live_bytes"] for line in series if line["live_bytes"] > point << 19]
        half = len(ratios) // 2
        first, second = ratios[half // 4:half], ratios[half + half // 4:]  # the first quarter of each wave is left out: the live set is still being built
        drift = statistics.fmean(second) - statistics.fmean(first)
        return {"resident_per_live": statistics.fmean(second), "resident_per_live_most": max(first + second), "drift_per_hour": drift / (self.seconds / 2) * 3600,
                "cpu_seconds": cost["cpu_seconds"], "series": series}


EXPERIMENT = Fragmentation()
