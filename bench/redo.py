#!/usr/bin/env python3
"""Redoes the experiments of the papers that vmag comes from, and today's, with vmag and its peers: JSON, plots, one HTML page, a table.

Every side (allocator) is measured at every point, round by round, the order of the sides turned around each time, until the 95 % intervals
of the medians of the experiment's first figure are narrow, or the time for it is over: then the results say so. An experiment that is
done is not done again (--again) unless the machine, a library or an input has changed; one that was interrupted begins the round anew that it was in.

SPDX-License-Identifier: BSD-2-Clause
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

import experiments
from kit import LEAST, OUT, TOP, TWIN, results, say, sha256
from kit.allocators import VMAG, choose, fetch_peers, least_in, twin_of
from kit.experiment import Bench, Skipped, find
from kit.machine import date, host, level_huge_pages
from kit.process import end_by_signals, end_children_from_now_on
from kit.progress import Progress

# tbb-deb can be asked for; its proxy itself binds the C library's malloc, so the proof of who served fails and with it the experiment.
ALLOCATORS = ("vmag", "glibc", "jemalloc", "mimalloc3", "mimalloc2", "snmalloc", "rpmalloc", "tcmalloc-deb")
QUICK_ALLOCATORS = ("vmag", "glibc", "jemalloc", "mimalloc3")
QUICK_MINUTES = 4.0  # for measuring; the rest of five goes to compiling, inputs and plots
LEAST_SECONDS = 10  # of an experiment whose time the others have used up: its first round is made all the same

EXAMPLES = """examples:
  bench/redo.py                                 everything: hours on a quiet machine
  bench/redo.py --quick                         a first look in five minutes
  bench/redo.py --minutes 60                    everything, as well as it can be done in an hour
  bench/redo.py --only database --only lists    these
  bench/redo.py --list                          what there is
  bench/redo.py --only programs --again         measured anew
  bench/redo.py --document                      nothing measured: plots, page and docs/experiments.md from the results that are there
"""


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("SPDX")[0], epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="this experiment; may be repeated")
    parser.add_argument("--list", action="store_true", help="the experiments, and what they need")
    parser.add_argument("--quick", action="store_true", help="small inputs, few points, four allocators: five minutes")
    parser.add_argument("--minutes", type=float, help="for all experiments together, divided among them; a first round is always whole")
    parser.add_argument("--rounds", type=rounds, default=None, metavar="LEAST:MOST", help="of each experiment (default 6:30; with --quick 1:3)")
    parser.add_argument("--width", type=float, default=0.02, help="an interval is narrow when it reaches no farther from the median than this part of it (default 0.02); of fewer than six rounds there is none")
    parser.add_argument("--allocators", type=lambda text: text.split(","), metavar="LIST", help="only these, separated by commas")
    parser.add_argument("--twin", action="store_true", help="a second copy of vmag takes part: what it and vmag differ by is not the allocator")
    parser.add_argument("--least", action="store_true", help="an allocator that does next to nothing takes part (bench/least.c): what a program takes whoever serves it")
    parser.add_argument("--library", type=pathlib.Path, default=VMAG, help="vmag (default build/lib/libvmag.so)")
    parser.add_argument("--again", action="store_true", help="measure anew what is there already; interrupted, the same command goes on")
    parser.add_argument("--no-fetch", action="store_true", help="do not get missing peers and packages")
    parser.add_argument("--no-plots", action="store_true", help="only the JSON")
    parser.add_argument("--document", action="store_true", help="write the figures into docs/experiments.md; alone: measure nothing")
    parser.add_argument("--folder", type=pathlib.Path, metavar="DIR", help="where results go (default build/bench/experiments, build/bench/quick)")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or ((1, 3) if arguments.quick else (6, 30))
    arguments.folder = (arguments.folder or OUT / ("quick" if arguments.quick else "experiments")).resolve()
    unknown = set(arguments.only or ()) - set(experiments.NAMES)
    if unknown:
        parser.error(f"no experiment is called {', '.join(sorted(unknown))}; there are: {', '.join(experiments.NAMES)}")
    return arguments


def rounds(text):
    least, _, most = text.partition(":")
    return int(least), int(most or least)


# --- python's libraries -----------------------------------------------------------------------------------------------


LIBRARIES = "import jsonschema, matplotlib"


def has_libraries(python):
    return pathlib.Path(python).exists() and subprocess.run([python, "-c", LIBRARIES], stderr=subprocess.DEVNULL).returncode == 0


def make_venv(folder):
    say(f"redo: getting matplotlib and jsonschema into {folder.relative_to(TOP)}")
    install = [folder / "bin/pip", "install", "-q", "--disable-pip-version-check", "matplotlib", "jsonschema"]
    if subprocess.run([sys.executable, "-m", "venv", folder]).returncode != 0 or subprocess.run(install).returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)


def go_to_libraries(fetch):
    """Goes on in a Python with matplotlib and jsonschema: this one, the system's, or one made in build/bench/venv. Without, only the JSON is written."""
    if has_libraries(sys.executable):
        return True
    venv = OUT / "venv/bin/python"
    others = [path for path in (venv, pathlib.Path("/usr/bin/python3")) if has_libraries(path)]
    if not others and fetch:
        make_venv(OUT / "venv")
        others = [venv] if has_libraries(venv) else []
    if others:
        os.execv(others[0], [str(others[0]), *sys.argv])
    say("redo: no plots and no check of the results: matplotlib and jsonschema are missing")
    return False


# --- measuring --------------------------------------------------------------------------------------------------------


def begin(arguments, names):
    """The results so far, or new ones. With --again they say which of `names` are still to be begun anew, for the same command after an interruption."""
    path = arguments.folder / "results.json"
    found = results.load(path) or {"format": results.FORMAT, "again": None, "experiments": {}}
    if not arguments.again:
        found["again"] = None
    elif not found["again"] or found["again"]["names"] != names:
        found["again"] = {"names": names, "left": names[:]}
    return found, path


def with_sums(bench, sides):
    """The allocators among the sides; vmag where the sides are other things, layers of it."""
    chosen = {side: bench.allocators[side] for side in sides if side in bench.allocators}
    if not chosen and bench.vmag:
        chosen = {"vmag": {"version": "this tree", "origin": "build/lib", "library": bench.vmag}}
    return {name: dict(allocator, sha256=sha256(allocator["library"]) if allocator["library"] else None) for name, allocator in chosen.items()}


def describe(experiment, bench, arguments):
    """The record of an experiment that is about to begin: what is measured, on what, with what."""
    sides, points = experiment.sides(bench), experiment.points(arguments.quick)
    absent = [point for point in points if point in experiment.optional and not find(experiment.optional[point])]
    return {
        "title": experiment.title, "paper": experiment.paper, "about": experiment.about, "axis": experiment.axis, "plot": experiment.plot,
        "metrics": {name: dataclasses.asdict(metric) for name, metric in experiment.metrics.items()}, "shown": list(experiment.shown),
        "sides": sides, "points": [point for point in points if point not in absent], "missing": [*bench.missing, *map(str, absent)],
        "machine": host(), "allocators": with_sums(bench, sides), "inputs": {}, "quick": arguments.quick,
        "settings": {"least_rounds": arguments.rounds[0], "most_rounds": arguments.rounds[1], "width": arguments.width, "minutes": arguments.minutes},
        "status": "begun", "why": None, "failures": {}, "versions": {}, "proofs": {}, "runs": [], "summary": [], "pictures": {},
        "date": date(), "seconds": 0.0, "load_before": os.getloadavg()[0], "load_after": os.getloadavg()[0],
    }


class Measuring:
    """One experiment on its way: its record in the results, kept up to date."""

    def __init__(self, experiment, bench, arguments, everything, path, progress, budget):
        self.experiment, self.bench, self.arguments = experiment, bench, arguments
        self.everything, self.path, self.progress, self.budget = everything, path, progress, budget
        self.record = everything["experiments"][experiment.name]
        self.began = self.told = time.monotonic()

    def tell(self, what):
        now = time.monotonic()
        self.progress.step(f"{self.experiment.name}: {what}", now - self.told)
        self.told = now

    def over(self):
        return time.monotonic() - self.began > self.budget

    def round(self, number):
        """False when time was over in the middle; the first round is always whole."""
        sides = self.record["sides"] if number % 2 else self.record["sides"][::-1]
        for point in self.record["points"]:
            for group in [sides] if self.experiment.parallel else [[side] for side in sides]:
                if number > 1 and self.over():
                    return False
                self.measure(number, point, [side for side in group if side not in self.record["failures"]])
        return True

    def measure(self, number, point, sides):
        """All of the sides at once; one, mostly, which is measured in this thread: the servers that it starts end with the thread that did."""
        level_huge_pages()
        if len(sides) < 2:
            found = [self.attempt(side, point) for side in sides]
        else:
            with concurrent.futures.ThreadPoolExecutor(len(sides)) as pool:
                try:
                    attempts = [pool.submit(self.attempt, side, point) for side in sides]
                    while concurrent.futures.wait(attempts, timeout=1).not_done:
                        pass  # a signal that comes just before the main thread begins to wait is seen to when it has waited
                    found = [attempt.result() for attempt in attempts]
                except BaseException:
                    end_children_from_now_on()  # for which the threads of the pool wait
                    raise
        for side, figures in zip(sides, found):
            if isinstance(figures, Exception):
                self.fail(side, point, figures)
            else:
                series = figures.pop("series", None)
                self.record["runs"].append({"side": side, "point": point, "round": number, "figures": figures} | ({"series": series} if series else {}))
            self.tell(f"round {number}, {point} {self.experiment.axis if self.experiment.plot == 'lines' else ''}, {side}")

    def attempt(self, side, point):
        """Its figures, or the error: one side does not take the others along."""
        try:
            return self.experiment.measure(self.bench, side, point)
        except Exception as why:
            return why

    def fail(self, side, point, why):
        """The side takes no more part in the experiment, nor do its figures."""
        self.record["failures"][side] = f"{point}: {said_by(why)}"
        (self.path.parent / f"{self.experiment.name}.error.txt").write_text(f"{side}, {point}\n" + "".join(traceback.format_exception(type(why), why, why.__traceback__)))
        say(f"redo: {self.experiment.name} goes on without {side}: {self.record['failures'][side]}")

    def rounds(self):
        least, most = self.arguments.rounds if self.experiment.settled else (1, max(1, self.arguments.rounds[0] // 3))
        for number in range(max([run["round"] for run in self.record["runs"]], default=0) + 1, most + 1):
            try:
                whole = self.round(number)
            finally:
                self.experiment.end_round()
            self.save()
            if not whole or number >= least and (self.is_narrow() or self.over()):
                return

    def is_narrow(self):
        """By the first figure; where there is none, nothing is narrow."""
        rows = [row["narrow"] for row in self.record["summary"] if row["metric"] in self.record["shown"][:1]]
        return self.experiment.settled and bool(rows) and all(rows)

    def save(self):
        record = self.record
        record["summary"] = results.summarize(record, record["settings"]["width"])
        record["proofs"] = {f"{side}: {program}": library for (side, program), library in sorted(self.bench.proofs.items())}
        record["seconds"] = round(time.monotonic() - self.began, 1)
        record["load_after"] = os.getloadavg()[0]
        results.save(self.everything, self.path)

    def run(self):
        missing = [command for command in self.experiment.needs if not find(command)]
        if missing:
            raise Skipped(f"{', '.join(missing)} not installed: scripts/setup.sh experiments")
        if not self.record["points"]:
            raise Skipped(f"{', '.join(self.record['missing'])} not installed: scripts/setup.sh experiments")
        self.bench.proofs.clear()
        self.bench.input_sums.clear()
        self.bench.program("launch.c")
        self.experiment.prepare(self.bench)
        self.record["versions"] = self.experiment.versions()
        self.record["inputs"] = dict(self.bench.input_sums)
        self.rounds()
        failures = self.record["failures"]
        if "vmag" in failures or len(failures) == len(self.record["sides"]):
            raise RuntimeError("; ".join(f"{side}, {why}" for side, why in failures.items()))
        self.record["pictures"] = self.experiment.finish(self.bench)
        self.record["status"] = ("narrow" if self.is_narrow() else "not narrow") if self.experiment.settled else "measured"
        self.record["why"] = None
        self.save()


def said_by(why):
    """An error, and what the program said that ended with it."""
    detail = getattr(why, "stderr", None) or ""
    detail = detail.decode(errors="replace") if isinstance(detail, bytes) else detail
    return f"{why} {detail.strip()[-300:]}".strip()


def measure(experiment, bench, arguments, everything, path, progress, budget):
    record, now = everything["experiments"].get(experiment.name), describe(experiment, bench, arguments)
    anew = everything["again"] and experiment.name in everything["again"]["left"]
    current = record and not anew and results.is_current(record, now, bench.inputs)
    if current and record["status"] in ("narrow", "not narrow", "measured"):
        say(f"redo: {experiment.name} is there already, measured {record['date']}; --again measures it anew")
        return
    if current and record["status"] == "begun":
        results.drop_unfinished_round(record)
        record["settings"] = now["settings"]
    else:
        everything["experiments"][experiment.name] = now
    if anew:
        everything["again"]["left"].remove(experiment.name)
    measuring = Measuring(experiment, bench, arguments, everything, path, progress, budget)
    try:
        measuring.run()
    except Skipped as why:
        measuring.record.update(status="skipped", why=str(why))
    except (KeyboardInterrupt, SystemExit):
        measuring.save()
        raise
    except Exception as why:  # one experiment that fails does not take the others along
        if not measuring.record["failures"]:
            (path.parent / f"{experiment.name}.error.txt").write_text(traceback.format_exc())
        measuring.record.update(status="failed", why=said_by(why))
    measuring.save()
    measuring.tell("done")
    if measuring.record["why"]:
        say(f"redo: {experiment.name} {measuring.record['status']}: {measuring.record['why']}")


# --- main -------------------------------------------------------------------------------------------------------------


def show_list():
    for name in experiments.NAMES:
        experiment = experiments.load(name)
        missing = [command for command in (*experiment.needs, *experiment.optional.values()) if not find(command)]
        print(f"{name:18} {experiment.paper:28} {experiment.title}" + (f"  (missing: {', '.join(missing)})" if missing else ""))


def measure_all(arguments):
    subprocess.run([TOP / "bench/build.sh"], check=True)
    if not arguments.no_fetch:
        subprocess.run([TOP / "scripts/setup.sh", "experiments"], check=False)
        fetch_peers()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    there = choose(arguments.allocators, "redo", arguments.library, arguments.folder)
    wanted = arguments.allocators or (QUICK_ALLOCATORS if arguments.quick else ALLOCATORS)
    allocators = {name: there[name] for name in wanted if name in there}
    missing = [name for name in wanted if name not in there]
    if missing:
        say(f"redo: left out: {', '.join(missing)}")
    if arguments.twin and "vmag" in allocators:
        allocators[TWIN] = twin_of(allocators["vmag"], arguments.folder)
    if arguments.least:
        allocators[LEAST] = least_in(arguments.folder)
    bench = Bench(allocators, arguments.quick, arguments.folder, there.get("vmag", {}).get("library"), missing)
    names = [name for name in experiments.NAMES if not arguments.only or name in arguments.only]
    minutes = arguments.minutes or (QUICK_MINUTES if arguments.quick else 15.0 * len(names))
    everything, path = begin(arguments, names)
    if (load := os.getloadavg()[0]) > 0.5:
        say(f"redo: the machine is not quiet (load {load:.1f}); the best rounds say more than the medians")
    progress = Progress(minutes * 60)
    end = time.monotonic() + minutes * 60
    for number, name in enumerate(names):
        # What one leaves the others get.
        left, rest = end - time.monotonic(), len(names) - number
        budget = max(left, 0) / rest
        progress.total = progress.done + max(left, LEAST_SECONDS * rest)
        bench.budget = budget if arguments.minutes else None
        measure(experiments.load(name), bench, arguments, everything, path, progress, budget)
    everything["again"] = None
    results.save(everything, path)
    return everything, path


def main():
    arguments = read_arguments()
    if arguments.list:
        return show_list()
    end_by_signals()
    libraries = go_to_libraries(not arguments.no_fetch)
    only_document = arguments.document and not arguments.only and not arguments.quick and not arguments.again and arguments.minutes is None
    if only_document:
        path = arguments.folder / "results.json"
        everything = results.load(path) or sys.exit(f"redo: no results in {path}")
    else:
        everything, path = measure_all(arguments)
    from kit import document
    if libraries:
        results.check(everything)
    if libraries and not arguments.no_plots:
        from kit import page, plots
        plots.draw_all(everything, path.parent)
        page.write(everything, path.parent)
        say(f"redo: {path.parent / 'index.html'}")
    print("\n".join(document.standing(everything)))
    if arguments.document:
        document.write(everything)
    say(f"redo: figures in {path}")
    return 1 if any(record["status"] == "failed" for record in everything["experiments"].values()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nredo: interrupted; the same command goes on from here")
