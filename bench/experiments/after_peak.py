"""Today: what stays resident a minute after the peak.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit.experiment import RESIDENT, Experiment, Metric, lines_of_json

SLACK_BYTES = 4 << 20


class AfterPeak(Experiment):
    title = "Memory after the peak"
    paper = "today"
    about = ("Four threads build up small and medium objects, nine stretches of 2000 in ten die, the threads end; then the program does nothing (idle), or a thousand short-lived objects a second (light). "
             "The bar for what is resident after a minute: 1.10 times what is live, and 4 MiB. With --quick four seconds.")
    axis = "afterwards"
    plot = "series"
    parallel = True
    settled = False
    metrics = {"resident_end": RESIDENT, "resident_at_once": Metric("resident at once", "MiB", scale=1 << 20),
               "live": Metric("live", "MiB", scale=1 << 20, compared=False), "over_the_bar": Metric("resident / (1.10 × live + 4 MiB)", "")}
    shown = ("resident_end", "resident_at_once", "live", "over_the_bar")

    def points(self, quick):
        return ["idle"] if quick else ["idle", "light"]

    def prepare(self, bench):
        self.program = bench.program("peak.c")

    def measure(self, bench, side, point):
        megabytes, seconds = (128, 4) if bench.quick else (512, 60)
        cost = bench.run(side, [self.program, point, megabytes, seconds], proof=[self.program, point, 8, 0], pinned=False)
        series = lines_of_json(cost["output"])
        end = series[-1]
        return {"resident_end": end["resident_bytes"], "resident_at_once": series[0]["resident_bytes"], "live": end["live_bytes"],
                "over_the_bar": end["resident_bytes"] / (1.10 * end["live_bytes"] + SLACK_BYTES), "series": series}


EXPERIMENT = AfterPeak()
