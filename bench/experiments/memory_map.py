"""2006, Figure 9: where memory was in use, address by time, in a run of the interpreter of Figure 8.

SPDX-License-Identifier: BSD-2-Clause
"""

import os
import subprocess
import tempfile

from kit import TOP, inputs
from kit.experiment import PATH, PROGRAMS, Experiment, Metric, Skipped

TOOL = TOP / "build/bin/vmag"


class MemoryMap(Experiment):
    title = "Memory in use over time"
    paper = "2006, Figure 9"
    about = "A trace of the Lua program of Figure 8, drawn by `vmag map`: time to the right, addresses up; the darker, the more of a piece of memory was in use."
    axis = "program"
    plot = "picture"
    settled = False
    metrics = {"trace_bytes": Metric("trace", "MiB", scale=1 << 20)}
    shown = ()
    needs = ("lua5.4",)

    def points(self, quick):
        return ["lua"]

    def sides(self, bench):
        return ["vmag"]

    def prepare(self, bench):
        if not TOOL.exists():
            raise Skipped("build/bin/vmag is not there: make tool")
        if not bench.vmag:
            raise Skipped("no libvmag.so: make")
        self.picture = bench.folder / "memory_map.png"
        self.expressions = bench.input("expressions.txt", inputs.expressions)

    def measure(self, bench, side, point):
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            trace = os.path.join(folder, "trace")
            variables = {"PATH": PATH, "LC_ALL": "C"}
            subprocess.run([TOOL, "run", "--lib", bench.vmag, f"--trace={trace}", "--", "lua5.4", PROGRAMS / "optimise.lua", self.expressions, "1"], check=True, env=variables,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            subprocess.run([TOOL, "map", trace, "-o", self.picture], check=True, env=variables, stderr=subprocess.PIPE)
            return {"trace_bytes": os.path.getsize(trace)}

    def finish(self, bench):
        return {"memory_map": self.picture.name} if self.picture.exists() else {}


EXPERIMENT = MemoryMap()
