#!/usr/bin/env python3
"""Runs the bench patterns with vmag and its peers, interleaved, and shows tables; JSON goes beside them.

Each run is a process of its own with the allocator preloaded. Rounds are interleaved (pattern by pattern, each
allocator once, in another order each round), so that a disturbance of the machine hits everybody. Single-thread patterns are
pinned to one CPU, 2-thread ones to two. What stays resident is measured in runs of their own, whose sleeps overlap.

SPDX-License-Identifier: BSD-2-Clause
"""

import argparse
import json
import math
import os
import pathlib
import re
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from kit import MIB, OUT, TOP, say
from kit.allocators import PEERS, choose, fetch_peers
from kit.figures import figure, geometric_mean
from kit.machine import level_huge_pages, machine, memory_available
from kit.process import RUN_LIMIT_SECONDS, cpus_for, end_by_signals, environment, prepare_child
from kit.progress import Progress

BENCH = OUT / "bench"

SLACK_BYTES = 2 * MIB  # what an allocator may hold beyond 1.10 of what the program uses
MOST_RESTING = 32
UNTIMED = ("nothing", "startup", "idle500")  # their time says nothing
QUICK_SETTLE = re.compile(r"^(keep|phases|idle|startup|nothing|rnd100k|rnd1M|repl100k$|replbig|mixed|growdouble|xmalloc|server|many)")

EXAMPLES = """examples:
  bench/run.py                                  everything, about a quarter of an hour
  bench/run.py --quick                          a first look, under five minutes on a quiet machine
  bench/run.py --patterns '^(pair|lifo)' --rounds 9
  bench/run.py --allocators vmag,glibc,mimalloc3 --patterns keep --settle 10
  bench/run.py --json /tmp/today.json           write the results there
"""


# --- what to run ---------------------------------------------------------------------------------------------------


def build(fetch):
    subprocess.run([TOP / "bench/build.sh"], check=True)
    if fetch:
        fetch_peers()


def is_from(used, library):
    return os.path.realpath(used) == os.path.realpath(library) if library else "/libc.so" in used


def drop_pretenders(allocators):
    """An allocator only takes part if the bench program's malloc family really comes from its library."""
    for name in list(allocators):
        result = Run(name, allocators[name], {"pattern": "startup", "threads": 1}, 1, 0).finish()
        library = allocators[name]["library"]
        used = result.get("malloc_from", "nothing: the run failed")
        if not is_from(used, library):
            say(f"run: {name} is left out: malloc came from {used}, not from {library or 'the C library'}")
            del allocators[name]
        else:
            allocators[name]["malloc_from"] = used


def choose_patterns(expression):
    listed = subprocess.run([BENCH, "--list"], check=True, capture_output=True, text=True).stdout
    patterns = [json.loads(line) for line in listed.splitlines()]
    return [pattern for pattern in patterns if re.search(expression, pattern["pattern"])]


# --- running -------------------------------------------------------------------------------------------------------


class Run:
    """One process: started at once, finished when its result is read."""

    def __init__(self, name, allocator, pattern, scale, settle):
        self.name = name
        self.pattern = pattern["pattern"]
        cpus = cpus_for(pattern["threads"])
        self.limit_seconds = limit = math.ceil(RUN_LIMIT_SECONDS + settle)
        command = [BENCH, self.pattern, "--scale", str(scale), "--settle", str(settle)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(allocator["library"]), preexec_fn=lambda: prepare_child(cpus, limit))

    def wait_until_resting(self):
        """Returns when the work is done and the process sleeps; how many bytes it has resident."""
        line = self.process.stdout.readline()
        if line != "resting\n":
            return 0
        try:
            return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def finish(self):
        try:
            out, complaint = self.process.communicate(timeout=self.limit_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return {"failed": f"not done after {self.limit_seconds} s"}
        if self.process.returncode != 0:
            return {"failed": f"status {self.process.returncode}: {complaint.strip()[-200:]}"}
        return json.loads(out.removeprefix("resting\n"))


def record(results, name, pattern, result, kind):
    """Adds one run to results[pattern][name]; a failure is kept, by kind, and told at the end."""
    entry = results.setdefault(pattern, {}).setdefault(name, {"runs": [], "settled": None, "failed": {}})
    if "failed" in result:
        entry["failed"][kind] = result["failed"]
    elif kind == "timed":
        entry["runs"].append(result)
    else:
        entry["settled"] = result


def copies(allocators, folder):
    """The allocators, their libraries copied. Where a file's pages lie in the machine's memory costs or spares some allocators up to a
    quarter of the time, as long as the file is what it is: so no round has the files of another."""
    folder.mkdir()
    copied = {name: shutil.copy(allocator["library"], folder / f"{name}.so") for name, allocator in allocators.items() if allocator["library"]}
    return {name: allocator | {"library": copied.get(name, allocator["library"])} for name, allocator in allocators.items()}


def run_rounds(allocators, patterns, rounds, scale, results, progress):
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        for number in range(1, rounds + 1):
            run_round(number, copies(allocators, pathlib.Path(folder) / str(number)), patterns, scale, results, progress)


def run_round(number, allocators, patterns, scale, results, progress):
    for pattern in patterns:
        # In another order each round: what the process before has freed is cheap to get again.
        order = list(allocators.items())
        random.Random(f"{number} {pattern['pattern']}").shuffle(order)
        for name, allocator in order:
            level_huge_pages()
            result = Run(name, allocator, pattern, scale, 0).finish()
            if "failed" not in result and not is_from(result["malloc_from"], allocator["library"]):
                result = {"failed": f"malloc came from {result['malloc_from']}"}
            record(results, name, pattern["pattern"], result, "timed")
            progress.step(f"round {number}  {pattern['pattern']}  {name}")


def run_settling(allocators, patterns, scale, settle, results, progress):
    """The work of one process after the other, while those before it sleep; as many as fit in half the free memory."""
    resting = []
    room = memory_available() // 2

    def finish_oldest():
        run, _ = resting.pop(0)
        record(results, run.name, run.pattern, run.finish(), "settled")
        progress.step(f"settling  {run.pattern}  {run.name}")

    for pattern in patterns:
        for name, allocator in allocators.items():
            run = Run(name, allocator, pattern, scale, settle)
            resting.append((run, run.wait_until_resting()))
            while len(resting) >= MOST_RESTING or sum(held for _, held in resting) > room:
                finish_oldest()
    while resting:
        finish_oldest()


# --- numbers -------------------------------------------------------------------------------------------------------


def values(entry, key):
    """Of the timed runs; none when one of them failed: a side that crashes now and then is nobody's best peer."""
    return [run[key] for run in entry["runs"]] if entry and "timed" not in entry["failed"] else []


def least(entry, key):
    found = values(entry, key)
    return min(found) if found else None


def middle(entry, key):
    found = values(entry, key)
    return statistics.median(found) if found else None


def own_of(entry):
    runs = entry["runs"] or [entry["settled"]]
    return runs[0]["own_bytes"]


def peak_rss(entry):
    """Median peak without the bench's own tables, which are the same for all."""
    peak = middle(entry, "rss_peak")
    return None if peak is None else peak - own_of(entry)


def settled_rss(entry):
    settled = entry and entry["settled"]
    return settled["rss_settle"] - settled["own_bytes"] if settled else None


def spread(entry):
    found = values(entry, "ns_per_operation")
    return max(found) / min(found) if found and min(found) > 0 else None


def common_mean(results, names, patterns, number):
    """Each allocator's geometric mean over the patterns that all of them have a figure of, how many those are, and who has none for having failed."""
    failed = [name for name in names if any("timed" in results[pattern].get(name, {}).get("failed", ()) for pattern in patterns)]
    names = [name for name in names if name not in failed]
    rows = [[number(results[pattern].get(name)) for name in names] for pattern in patterns]
    whole = [row for row in rows if all(cell for cell in row)]
    without = f" (without {', '.join(failed)}, which failed)" if failed else ""
    return {name: geometric_mean([row[i] for row in whole]) for i, name in enumerate(names)} if whole else {}, len(whole), without


# --- tables --------------------------------------------------------------------------------------------------------


def short_version(allocator):
    return re.sub(r"[-+].*", "", allocator["version"]) if allocator["version"] != "this tree" else ""


class Table:
    """Patterns down, allocators across; then the best peer and vmag's ratio to it."""

    def __init__(self, title, allocators, number, extra=(), kind="timed"):
        self.title = title
        self.kind = kind  # of the runs that it is about
        self.allocators = allocators
        self.number = number
        self.extra = extra  # pairs of heading and function of a pattern's entries

    def heading(self):
        names = [name.removesuffix("-deb") for name in self.allocators]
        versions = [short_version(allocator) for allocator in self.allocators.values()]
        extra = [heading for heading, _ in self.extra]
        yield f"\n{self.title}"
        yield " " * 12 + "".join(f"{name:>10}" for name in names) + f"  {'best peer':<13}{'vmag/best':>9}" + "".join(f"{text:>9}" for text in extra)
        yield " " * 12 + "".join(f"{version[:9]:>10}" for version in versions)

    def row(self, pattern, entries):
        cells = {name: self.number(entries.get(name)) for name in self.allocators}
        text = f"{pattern:<12}"
        for name, value in cells.items():
            failed = self.kind in entries.get(name, {}).get("failed", ())
            text += f"{'FAILED' if failed else figure(value):>10}"
        peer, ratio = best_peer(cells)
        text += f"  {peer:<13}{'-' if ratio is None else f'{ratio:.2f}':>9}"
        return text + "".join(f"{figure(function(entries)):>9}" for _, function in self.extra)

    def print(self, results, patterns):
        print("\n".join(self.heading()))
        for pattern in patterns:
            print(self.row(pattern, results[pattern]))


def best_peer(cells):
    peers = {name: value for name, value in cells.items() if name != "vmag" and value is not None}
    if not peers:
        return "-", None
    best = min(peers, key=peers.get)
    ours = cells.get("vmag")
    return best, ours / peers[best] if ours is not None and peers[best] else None


def typical_spread(entries):
    return statistics.median([found for entry in entries.values() if (found := spread(entry))] or [1])


def in_mib(function):
    def number(entry):
        value = function(entry) if entry else None
        return None if value is None else value / MIB
    return number


def live_mib(key, runs_of):
    """A column with what the program itself holds, from the first allocator that has it."""
    def number(entries):
        return next((runs[0][key] / MIB for entry in entries.values() if (runs := runs_of(entry))), None)
    return number


def print_tables(results, allocators, patterns, rounds, settle):
    names = [pattern["pattern"] for pattern in patterns]
    timed = [name for name in names if name not in UNTIMED]
    settled = [name for name in names if any(entry["settled"] or "settled" in entry["failed"] for entry in results[name].values())]
    tables = []
    if rounds:
        tables += [
            (timed, Table(f"Time: wall ns per operation, minimum of {rounds} rounds (spread: max/min, median of the allocators, and vmag's)",
                          allocators, lambda entry: least(entry, "ns_per_operation"),
                          (("spread", typical_spread), ("vmag's", lambda entries: spread(entries.get("vmag")))))),
            (timed, Table(f"Time: wall ns per operation, median of {rounds} rounds",
                          allocators, lambda entry: middle(entry, "ns_per_operation"))),
            (timed, Table(f"CPU: user and system ns per operation, minimum of {rounds} rounds",
                          allocators, lambda entry: least(entry, "cpu_ns_per_operation"))),
            (names, Table("Memory: peak resident MiB, without the bench's own tables",
                          allocators, in_mib(peak_rss), (("live", live_mib("live_peak", lambda entry: entry["runs"])),))),
        ]
    tables.append((settled, Table(f"Memory: resident MiB {settle:g} s after the work, without the bench's own tables",
                                  allocators, in_mib(settled_rss),
                                  (("live", live_mib("live_end", lambda entry: entry["settled"] and [entry["settled"]])),), "settled")))
    for rows, table in tables:
        if rows:
            table.print(results, rows)


# --- summary -------------------------------------------------------------------------------------------------------


def summary_of_means(title, means, bar):
    lines = [f"{title}: " + ", ".join(f"{name} {figure(value)}" for name, value in means.items())]
    peers = {name: value for name, value in means.items() if name != "vmag"}
    if "vmag" in means and peers:
        best = min(peers, key=peers.get)
        lines.append(f"  vmag / best single peer ({best}): {means['vmag'] / peers[best]:.3f}{bar}")
    return lines


def summary_of_time(results, allocators, patterns):
    few = [pattern["pattern"] for pattern in patterns if pattern["threads"] <= 2 and pattern["group"] == "speed"]
    many = [pattern["pattern"] for pattern in patterns if pattern["threads"] > 2 and pattern["group"] == "speed"]
    number = {"Time": lambda entry: least(entry, "ns_per_operation"), "CPU": lambda entry: least(entry, "cpu_ns_per_operation")}
    lines = []
    for what, function in number.items():
        for label, chosen in (("1 and 2 threads", few), ("more threads", many)):
            means, count, without = common_mean(results, allocators, chosen, function)
            bar = " (bar: 0.90)" if chosen is few else ""
            lines += summary_of_means(f"{what}, geometric mean of ns over {count} patterns, {label}{without}", means, bar) if means else []
            if chosen is few:
                lines += summary_of_ratios(results, allocators, few, function)
    return lines


def summary_of_ratios(results, allocators, patterns, function):
    """Where vmag stands against the best peer of each pattern."""
    ratios = {pattern: best_peer({name: function(results[pattern].get(name)) for name in allocators})[1] for pattern in patterns}
    ratios = {pattern: ratio for pattern, ratio in ratios.items() if ratio is not None}
    if not ratios:
        return []
    worst = sorted(ratios, key=ratios.get, reverse=True)[:10]
    at_best = sum(ratio <= 1 for ratio in ratios.values())
    beyond = sum(ratio > 1.10 for ratio in ratios.values())
    return [f"  vmag at or below the best peer of each pattern: {at_best} of {len(ratios)} (bar: all); beyond 1.10: {beyond} (bar: none)",
            "  furthest behind: " + ", ".join(f"{pattern} {ratios[pattern]:.2f}" for pattern in worst)]


def summary_of_memory(results, allocators, patterns):
    if "glibc" not in allocators:
        return []
    names = [pattern["pattern"] for pattern in patterns if pattern["pattern"] != "nothing"]
    large = [name for name in names if any(run["live_peak"] >= 8 * MIB for e in results[name].values() for run in e["runs"])]
    lines = []
    for label, chosen in (("patterns, all", names), ("patterns with 8 MiB or more live", large)):
        means, count, without = common_mean(results, allocators, chosen, lambda entry: peak_rss(entry) if entry else None)
        if "glibc" in means:
            bar = " (bar for vmag: 1.05)" if chosen is names else ""
            lines.append(f"Peak RSS / glibc's, geometric mean, {count} {label}{bar}{without}: " + ", ".join(f"{name} {value / means['glibc']:.2f}" for name, value in means.items()))
    return lines


def summary_of_settling(results, allocators, settle):
    """How many patterns end beyond 1.10 of what the program uses plus 2 MiB.

    It uses what is live, what the process has without malloc, and its threads' stacks (the least of all allocators)."""
    nothing = results.get("nothing", {}).get("glibc")
    base = nothing and least(nothing, "rss_end")
    if not base:
        return []
    beyond = {name: [] for name in allocators}
    count = 0
    for pattern, entries in results.items():
        count += any(entry["settled"] for entry in entries.values())
        stacks = min((entry["settled"]["thread_bytes"] for entry in entries.values() if entry["settled"]), default=0)
        for name in allocators:
            settled = entries.get(name) and entries[name]["settled"]
            if settled and settled_rss(entries[name]) > 1.10 * (settled["live_end"] + base + stacks) + SLACK_BYTES:
                beyond[name].append(pattern)
    if not count:
        return []
    lines = [f"Resident after {settle:g} s beyond 1.10 x (live + {base / MIB:.1f} MiB of the program itself + stacks) + 2 MiB, of {count} patterns: " +
             ", ".join(f"{name} {len(patterns)}" for name, patterns in beyond.items())]
    if beyond.get("vmag"):
        lines.append("  vmag beyond: " + ", ".join(beyond["vmag"]))
    return lines


def summary_of_small_costs(results, allocators):
    lines = []
    fresh = {name: least(results.get("startup", {}).get(name), "rss_end") for name in allocators}
    if fresh.get("glibc"):
        lines.append("Fresh process, KiB more resident than with glibc (bar: 300): " +
                     ", ".join(f"{name} {(value - fresh['glibc']) / 1024:.0f}" for name, value in fresh.items() if value and name != "glibc"))
    threads = {name: least(results.get("idle500", {}).get(name), "per_thread") for name in allocators}
    if any(value is not None for value in threads.values()):
        lines.append("Idle thread that allocated once, KiB (bar: 10): " +
                     ", ".join(f"{name} {value / 1024:.1f}" for name, value in threads.items() if value is not None))
    return lines


def failures(results):
    return [f"{pattern} with {name} ({kind}): {why}" for pattern, entries in results.items() for name, entry in entries.items()
            for kind, why in entry["failed"].items()]


# --- main ----------------------------------------------------------------------------------------------------------


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("SPDX")[0], epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="timed rounds (default 5; with --quick 3)")
    parser.add_argument("--patterns", default="", metavar="REGEX", help="only patterns whose name matches")
    parser.add_argument("--allocators", type=lambda text: text.split(","), metavar="LIST", help="only these, separated by commas")
    parser.add_argument("--settle", type=float, default=5, metavar="SECONDS", help="how long after the work to read resident memory (default 5; 0: not at all)")
    parser.add_argument("--scale", type=float, metavar="FACTOR", help="amount of work (default 1; with --quick 0.2)")
    parser.add_argument("--quick", action="store_true", help="less work, fewer rounds, settling only where it matters most")
    parser.add_argument("--no-fetch", action="store_true", help="do not get missing peers")
    parser.add_argument("--json", type=pathlib.Path, default=TOP / "build/bench/results.json", metavar="FILE", help="default build/bench/results.json")
    arguments = parser.parse_args()
    if arguments.rounds is None:
        arguments.rounds = 3 if arguments.quick else 5
    if arguments.scale is None:
        arguments.scale = 0.2 if arguments.quick else 1.0
    return arguments


def main():
    arguments = read_arguments()
    end_by_signals()
    if re.search("[ :]", str(TOP)):
        sys.exit(f"run: nothing can be preloaded from {TOP}: the loader splits LD_PRELOAD at blanks and colons; a clone elsewhere can")
    build(fetch=not arguments.no_fetch)
    where = machine()
    allocators = choose(arguments.allocators, "run")
    drop_pretenders(allocators)
    missing = [name for name in arguments.allocators or ("vmag", *PEERS) if name not in allocators]
    patterns = choose_patterns(arguments.patterns)
    if not patterns or not allocators:
        sys.exit("run: nothing to do")
    settling = [p for p in patterns if arguments.settle > 0 and (not arguments.quick or QUICK_SETTLE.search(p["pattern"]))]

    results = {pattern["pattern"]: {} for pattern in patterns}
    progress = Progress(len(allocators) * (len(patterns) * arguments.rounds + len(settling)))
    if where["load_at_start"] > 0.5:
        say(f"run: the machine is not quiet (load {where['load_at_start']:.1f}); trust minima more than medians")
    run_rounds(allocators, patterns, arguments.rounds, arguments.scale, results, progress)
    run_settling(allocators, settling, arguments.scale, arguments.settle, results, progress)
    where["load_at_end"] = os.getloadavg()[0]

    print(f"{where['cpu']}, {where['cpus']} CPUs, Linux {where['kernel']}, load {where['load_at_start']:.1f} before and {where['load_at_end']:.1f} after, {where['date']}")
    print_tables(results, allocators, patterns, arguments.rounds, arguments.settle)
    summary = summary_of_time(results, allocators, patterns) + summary_of_memory(results, allocators, patterns)
    summary += summary_of_settling(results, allocators, arguments.settle) + summary_of_small_costs(results, allocators)
    failed = failures(results)
    print("\nSummary" + (f" (without {', '.join(missing)}: not there)" if missing else ""))
    print("\n".join(summary))
    if failed:
        print("\nFailed, and in no mean nor best peer of these\n" + "\n".join(failed))

    settings = {key: str(value) if isinstance(value, pathlib.Path) else value for key, value in vars(arguments).items()}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({
        "machine": where, "settings": settings, "allocators": allocators, "missing": missing, "patterns": patterns,
        "results": results, "summary": summary, "failed": failed}, indent=1) + "\n")
    say(f"run: details in {arguments.json}")
    return 1 if any(" with vmag (" in line for line in failed) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nrun: interrupted")
