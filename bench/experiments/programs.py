"""2006, Figure 8 and its tables: single-threaded programs, time and memory.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit import inputs
from kit.experiment import CYCLES, PEAK, PROGRAMS, SECONDS, WALL, Experiment, version_of

LARGE, SMALL = ("21000000000000370000000000001369", 170), ("210000000008919800000010725657", 130)


class Programs(Experiment):
    title = "Single-threaded programs: run time and memory"
    paper = "2006, Figure 8"
    about = ("perl: cca's job, regular expressions over the C sources of this tree. factor: continued fractions on numbers of 16 to 32 bytes, cfrac's job. gs: Ghostscript, a large PostScript file. "
             "groups: sh6bench's pattern. lua: an interpreter that parses and optimises expressions, smlng's job. z3: a solver on integers and an uninterpreted function. Each takes a second or two: the least of many short runs says more than that of a few long ones.")
    axis = "program"
    plot = "bars"
    metrics = {"cpu_seconds": SECONDS, "wall_seconds": WALL, "user_cycles": CYCLES, "peak_bytes": PEAK}
    shown = ("cpu_seconds", "user_cycles", "peak_bytes")

    optional = {"perl": "perl", "gs": "gs", "lua": "lua5.4", "z3": "z3"}

    def commands(self, bench):
        quick = bench.quick
        source = bench.input("sources.c", inputs.c_sources)
        pages, holes = (20, 6) if quick else (40, 7)
        page = bench.input(f"pages{pages}.ps", lambda file: inputs.postscript(file, pages))
        expressions = bench.input("expressions.txt", inputs.expressions)
        problem = bench.input(f"problem{holes}.smt2", lambda file: inputs.problem(file, holes))
        return {
            "perl": ["perl", PROGRAMS / "preprocessor.pl", source, 1 if quick else 8],
            "factor": [bench.program("factor.c"), *(SMALL if quick else LARGE)],
            "gs": ["gs", "-q", "-dBATCH", "-dNOPAUSE", "-dNODISPLAY", page],
            "groups": [bench.program("groups.c"), 10 if quick else 250, 1, 1000],
            "lua": ["lua5.4", PROGRAMS / "optimise.lua", expressions, 1 if quick else 4],
            "z3": ["z3", problem],
        }

    def points(self, quick):
        return ["perl", "factor", "gs", "groups", "lua", "z3"]

    def prepare(self, bench):
        self.command = self.commands(bench)

    def measure(self, bench, side, point):
        cost = bench.run(side, self.command[point], proof=["gs", "-q", "-dBATCH", "-dNODISPLAY", "-c", "quit"] if point == "gs" else None)
        return {name: cost[name] for name in self.metrics}

    def versions(self):
        return {"perl": version_of("perl", "--version"), "gs": version_of("gs", "--version"), "lua": version_of("lua5.4", "-v"), "z3": version_of("z3", "--version")}


EXPERIMENT = Programs()
