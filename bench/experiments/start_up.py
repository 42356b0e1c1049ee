"""Today: what a process costs that does next to nothing.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit import OUT, TOP
from kit.experiment import Experiment, Metric, version_of

import subprocess

TIMES = {"nothing": 40, "small": 40, "perl": 20, "python": 5, "node": 1, "java": 1}


class StartUp(Experiment):
    title = "Starting programs"
    paper = "today"
    about = ("nothing: a C program without malloc. small: a few KiB. perl, python, node, java: the interpreter with an empty program. "
             "Each is started several times in a row (node and java once): time is the least of them, memory the first one's; the median is that of the rounds.")
    optional = {"node": "node", "java": "java"}
    axis = "program"
    plot = "bars"
    metrics = {"wall_ms": Metric("time, the least of some starts", "ms"), "cpu_ms": Metric("processor time, the least of some starts", "ms"), "peak_bytes": Metric("peak resident memory", "MiB", scale=1 << 20)}
    shown = ("wall_ms", "cpu_ms", "peak_bytes")

    def points(self, quick):
        return list(TIMES)

    def prepare(self, bench):
        subprocess.run([TOP / "bench/build.sh"], check=True)
        self.commands = {"nothing": [OUT / "bench", "nothing"], "small": [OUT / "bench", "startup"], "perl": ["perl", "-e", "1"], "python": ["python3", "-c", "pass"],
                         "node": ["node", "-e", "0"], "java": ["java", "-Xshare:auto", "-Xmx256m", "-version"]}

    def measure(self, bench, side, point):
        times = max(TIMES[point] // (4 if bench.quick else 1), 1)
        costs = [bench.run(side, self.commands[point], pinned=point not in ("node", "java")) for _ in range(times)]
        return {"wall_ms": min(cost["wall_seconds"] for cost in costs) * 1e3, "cpu_ms": min(cost["cpu_seconds"] for cost in costs) * 1e3,
                "peak_bytes": costs[0]["peak_bytes"]}

    def versions(self):
        return {"perl": version_of("perl", "--version"), "python": version_of("python3", "--version"), "node": version_of("node", "--version"),
                "java": version_of("java", "-version")}


EXPERIMENT = StartUp()
