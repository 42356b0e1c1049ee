"""Today: transparent huge pages, as the system has them and forbidden to the process.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit.experiment import Experiment, Metric


class HugePages(Experiment):
    title = "Huge pages, on and off"
    paper = "today"
    about = ("Large live sets of small objects, with transparent huge pages as the system has them (\"on\": the machine's setting is with the results) "
             "and forbidden to the process by prctl (\"off\").")
    axis = "pattern"
    plot = "bars"
    metrics = {"cpu_ns": Metric("processor time an operation", "ns"), "peak": Metric("peak resident memory", "MiB", scale=1 << 20),
               "faults": Metric("page faults", "thousands", scale=1000)}
    shown = ("cpu_ns", "peak", "faults")

    def points(self, quick):
        return [f"{pattern} {state}" for pattern in ("rnd1M", "keep64") for state in ("on", "off")]

    def measure(self, bench, side, point):
        pattern, state = point.split()
        told = bench.pattern(pattern, side, 0.1 if bench.quick else 1.0, huge_pages=state == "on")
        return {"cpu_ns": told["cpu_ns_per_operation"], "peak": told["rss_peak"] - told["own_bytes"], "faults": told["minor_faults"]}


EXPERIMENT = HugePages()
