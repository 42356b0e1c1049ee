#!/usr/bin/env python3
"""Predicts how vmag scales to 64 and 256 processors: a closed queueing network, calibrated with counts and times of this machine.

docs/scaling.md tells the model, its assumptions and what it says. Counts come from the counting build (bench/counts.py), times
from the ordinary one; what the model says of contentions at two processors is shown beside what was counted there.
Needs two processors. About two minutes; numbers go to build/bench/scaling.json and .svg.

SPDX-License-Identifier: BSD-2-Clause
"""

import argparse
import heapq
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

import counts
from kit import OUT, TOP

PROCESSORS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ARENAS_MOST = 176  # src/heap/arena.h: ARENAS_AUTOMATIC_MOST
RUNS = 7
UNDISTURBED = 0.95  # of the processors
SECONDS_A_MEASUREMENT = 20
STEADY_SCALE = 2.0  # of the run that tells how often locks are visited: how they meet is told by short ones

# Time under a lock beyond taking and releasing it, in ns, and lines that are waited for meanwhile. The lock's own line comes
# before it is held, and stores wait for nobody: with a depot that leaves the header of the magazine that is taken. A bin
# fills or drains some sixty rounds in the bitmaps of a slab or two.
HELD = {"depot": (5, 1), "bin": (150, 3), "pages": (300, 6), "magazines": (20, 2), "base": (5, 1)}
HELD_ELSE = (50, 3)
PER_ARENA = ("depot", "bin", "pages")

EXAMPLES = """examples:
  bench/scaling.py                 measure, then predict
  bench/scaling.py --again         predict from what was measured last
  bench/scaling.py --svg docs/scaling.svg
"""


class Scenario:
    def __init__(self, name, pattern, classes, options="", arenas=None, about=""):
        self.name, self.pattern, self.options, self.about = name, pattern, options, about
        self.classes = classes  # size classes among which the visits are spread
        self.arenas = arenas or (lambda processors: min(processors, ARENAS_MOST))


SCENARIOS = [
    Scenario("own", "repl1k", 20, about="each thread replaces its own 1,000 objects of 16 to 512 bytes"),
    Scenario("batches", "rnd1k", 3, about="each thread allocates 1,000 objects and frees them in random order"),
    Scenario("passed on", "xmalloc2", 12, about="every object is freed by another thread than the one that allocated it"),
    Scenario("batches, one arena", "rnd1k", 3, "narenas:1", lambda processors: 1, "the same with one depot a class for all, as in 2001"),
]


# --- measuring -----------------------------------------------------------------------------------------------------------


def run_short(library, scenario, threads, scale):
    """One short run on as many processors as threads; how many of them it had on the average is its overlap."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    command = ["taskset", "-c", ",".join(map(str, cpus))]
    result = counts.run(library, scenario.pattern, scale, scenario.options, threads, command)
    result["overlap"] = result["cpu_ns"] / result["wall_ns"]
    return result


def run_undisturbed(library, scenario, threads, scale):
    """Runs of a millisecond or few, most of which a busy machine leaves alone: the least disturbed ones."""
    runs, begin = [], time.monotonic()
    while time.monotonic() - begin < SECONDS_A_MEASUREMENT and sum(run["overlap"] > UNDISTURBED * threads for run in runs) < RUNS:
        runs.append(run_short(library, scenario, threads, scale))
    runs.sort(key=lambda run: -run["overlap"])
    return runs[:RUNS]


def add_counts(runs):
    """The counts of several runs as those of one."""
    total = json.loads(json.dumps(runs[0]))
    for run in runs[1:]:
        total["operations"] += run["operations"]
        for kind in counts.KINDS:
            for cell, value in run["counts"][kind].items():
                if isinstance(value, dict):
                    for rank, count in value.items():
                        total["counts"][kind][cell][rank] = total["counts"][kind][cell].get(rank, 0) + count
                else:
                    total["counts"][kind][cell] += value
    total["cpu_ns_per_operation"] = statistics.median(run["cpu_ns_per_operation"] for run in runs)
    total["overlap"] = statistics.median(run["overlap"] for run in runs)
    return total


def measure(scale):
    """Least processor time an operation of each scenario on 1 and 2 threads, counts of 2 threads, and the machine's two times."""
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("scaling: two processors are needed to measure what passes between them")
    counting = counts.build(TOP / "build/count")
    plain = TOP / "build/lib/libvmag.so"
    if not plain.exists():
        sys.exit("scaling: build/lib/libvmag.so is not there: make first")
    program = OUT / "scaling"
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-Wall", "-Wextra", "-pthread", "-o", program, TOP / "bench/scaling.c"], check=True)
    machine = [json.loads(subprocess.run([program], capture_output=True, check=True).stdout) for _ in range(3)]
    measured = {"machine": {key: min(one[key] for one in machine) for key in machine[0]}, "scenarios": {}}
    for scenario in SCENARIOS:
        timed = {threads: run_undisturbed(plain, scenario, threads, scale) for threads in (1, 2)}
        times = {threads: statistics.median(run["cpu_ns_per_operation"] for run in runs) for threads, runs in timed.items()}
        steady = counts.run(counting, scenario.pattern, STEADY_SCALE, scenario.options, threads=2)
        met = add_counts(run_undisturbed(counting, scenario, 2, scale))
        measured["scenarios"][scenario.name] = {"cpu_ns": times, "steady": steady, "met": met, "overlap": statistics.median(run["overlap"] for run in timed[2])}
        print(f"measured {scenario.name}: {times[1]:.1f} and {times[2]:.1f} ns of processor time an operation on 1 and 2 processors "
              f"(on {measured['scenarios'][scenario.name]['overlap']:.2f} at once; counted on {met['overlap']:.2f})", file=sys.stderr)
    return measured


# --- the model -----------------------------------------------------------------------------------------------------------


class Station:
    """`count` locks alike; `visits` to all of them together and `service` ns of each visit, for one operation."""

    def __init__(self, name, count, visits, service):
        self.name, self.count, self.visits, self.service = name, count, visits, service
        self.queue = self.used = 0.0


def part_alone(scenario, processors):
    """The part of the threads that nobody else shares an arena with, where what is allocated comes back to the same thread."""
    arenas = scenario.arenas(processors)
    return max(1 - 2 * (processors - arenas) / processors, 0) if scenario.name in ("own", "batches") else 0


def stations(scenario, counted, machine, processors, line_ns, magazines=1.0):
    """`magazines`: how many times as long as now; half as long ones visit the depot twice as often."""
    visits = {}
    for kind in counts.KINDS:
        for rank, count in counted["counts"][kind]["locks"].items():
            visits[rank] = visits.get(rank, 0) + count
    made = counts.total(counted, "magazines")
    visits["magazines"], visits["bin"] = made, max(visits.get("bin", 0) - made, 0)
    result = []
    for rank, count in visits.items():
        held, lines = HELD.get(rank, HELD_ELSE)
        arenas = scenario.arenas(processors) if rank in PER_ARENA else 1
        places = arenas * (scenario.classes if rank in ("depot", "bin") else 1)
        each = count / counted["operations"] / (magazines if rank == "depot" else 1)
        alone = part_alone(scenario, processors) if rank in PER_ARENA else 0
        moved = 0 if processors == 1 else lines * line_ns
        result.append(Station(rank, math.inf, each * alone, machine["lock_ns"] + held))
        result.append(Station(rank, max(places - alone * processors * places / arenas, 1), each * (1 - alone), machine["lock_ns"] + held + moved))
    return result


def think_ns(times, machine, line_ns, processors):
    """Work of an operation outside of locks: what two threads cost more than one is lines on their way."""
    return times["1"] if processors == 1 else times["1"] + max(times["2"] - times["1"], 0) * line_ns / machine["line_ns"]


def mean_values(stations, think, processors):
    """Exact mean value analysis (Reiser and Lavenberg 1980). Operations a ns; leaves queue and use as an arriving one finds them."""
    rate = 0.0
    for present in range(1, processors + 1):
        waits = [station.service * (1 + station.queue) for station in stations]
        before = [rate * station.visits / station.count * station.service for station in stations]
        rate = present / (think + sum(station.visits * wait for station, wait in zip(stations, waits)))
        for station, wait, used in zip(stations, waits, before):
            station.queue = rate * station.visits / station.count * wait
            station.used = used
    return rate


def predict(scenario, measured, processors, line_ns, magazines=1.0, times=None):
    machine, own = measured["machine"], measured["scenarios"][scenario.name]
    network = stations(scenario, own["met" if times else "steady"], machine, processors, line_ns, magazines)
    think = think_ns(times or own["cpu_ns"], machine, line_ns, processors)
    if times is None and processors > 1:  # the locks' own time was measured with the rest
        think = max(think - sum(s.visits * s.service for s in network), own["cpu_ns"]["1"])
    rate = mean_values(network, think, processors)
    depot = max((s for s in network if s.name == "depot"), key=lambda s: s.visits * s.used, default=Station("depot", 1, 0, 0))
    return {"processors": processors, "rate": rate, "contended": depot.used, "contentions_a_second": rate * 1e9 * depot.visits * depot.used,
            "visits": depot.visits, "busiest": max(network, key=lambda s: s.visits * s.service / s.count).name}


def simulate(scenario, measured, processors, line_ns, operations=100_000):
    """The same network event by event with constant service and first come, first served: how much the assumption of MVA matters."""
    own = measured["scenarios"][scenario.name]
    network = [s for s in stations(scenario, own["steady"], measured["machine"], processors, line_ns) if s.name == "depot" and s.visits > 0]
    depot = network[-1]
    think = max(think_ns(own["cpu_ns"], measured["machine"], line_ns, processors) - depot.visits * depot.service, own["cpu_ns"]["1"]) / depot.visits
    free_at = [0.0] * int(depot.count)
    draw = random.Random(1)
    events = [(draw.expovariate(1 / think), number) for number in range(processors)]
    heapq.heapify(events)
    contended = now = 0
    visits = max(int(operations * depot.visits) * processors, 20_000)
    for _ in range(visits):
        now, number = heapq.heappop(events)
        lock = draw.randrange(len(free_at))
        contended += free_at[lock] > now
        free_at[lock] = max(free_at[lock], now) + depot.service
        heapq.heappush(events, (free_at[lock] + draw.expovariate(1 / think), number))
    return {"rate": visits / depot.visits / now, "contended": contended / visits}


# --- what it says ----------------------------------------------------------------------------------------------------------


def validation(measured):
    """At two processors: contended visits of depots, the model's at the speed of the counting run, and the counted ones."""
    rows = []
    for scenario in SCENARIOS:
        counted = measured["scenarios"][scenario.name]["met"]
        speed = {"1": counted["cpu_ns_per_operation"], "2": counted["cpu_ns_per_operation"]}
        told = predict(scenario, measured, 2, measured["machine"]["line_ns"], times=speed)
        exchanges = counts.total(counted, "exchanges")
        seen = counts.total(counted, "contentions") / exchanges if exchanges else 0
        rows.append((scenario, told["contended"], seen, counted))
    return rows


def efficiency(scenario, measured, processors, line_ns, magazines=1.0):
    """Throughput a processor, against what two processors have each: from there on the same work passes between processors."""
    base = predict(scenario, measured, 2, line_ns, magazines)["rate"] / 2
    return predict(scenario, measured, processors, line_ns, magazines)["rate"] / processors / base


def show(measured):
    machine = measured["machine"]
    print(f"a line from one processor to the other {machine['line_ns']:.0f} ns, a lock taken and released {machine['lock_ns']:.1f} ns")
    print("\ntwo processors: visits of depots that find it taken\n" f"{'':<24}{'ns/op, 1':>10}{'ns/op, 2':>10}{'visits/M':>10}{'model':>10}{'counted':>10}")
    for scenario, told, seen, counted in validation(measured):
        times = measured["scenarios"][scenario.name]["cpu_ns"]
        visits = counts.total(counted, "exchanges") / counted["operations"] * counts.MILLION
        print(f"{scenario.name:<24}{times['1']:>10.1f}{times['2']:>10.1f}{visits:>10.0f}{told:>10.2%}{seen:>10.2%}")
    print("\npredicted: throughput a processor as a part of what it is at two; visits of depots contended; contentions a second; the busiest lock")
    for line_ns in (machine["line_ns"], 50, 500):
        print(f"\na line takes {line_ns:.0f} ns")
        for scenario in SCENARIOS:
            cells = []
            for processors in (8, 64, 256):
                told = predict(scenario, measured, processors, line_ns)
                part = efficiency(scenario, measured, processors, line_ns)
                cells.append(f"{processors:>4}: {part:4.2f} {told['contended']:6.1%} {told['contentions_a_second']:>11,.0f}/s {told['busiest']}")
            print(f"  {scenario.name:<22}" + "   ".join(f"{cell:<38}" for cell in cells))
    print("\nsensitivity at 256 processors: magazines a half and a quarter as long; 64 processors simulated with constant service")
    for scenario in SCENARIOS[2:]:
        parts = [efficiency(scenario, measured, 256, machine["line_ns"], magazines) for magazines in (1, 0.5, 0.25)]
        simulated, told = simulate(scenario, measured, 64, machine["line_ns"]), predict(scenario, measured, 64, machine["line_ns"])
        print(f"  {scenario.name:<22} {parts[0]:.2f} {parts[1]:.2f} {parts[2]:.2f}   64: model {told['rate'] * 1e3:.1f} M/s, {told['contended']:.1%} contended; "
              f"simulated {simulated['rate'] * 1e3:.1f} M/s, {simulated['contended']:.1%}")


COLOURS = ("#0b6e4f", "#2f6fb5", "#8a4fbf", "#c0392b")


def plot(measured, file):
    """Throughput in multiples of one processor's, by processors, both logarithmic; dots are measured."""
    width, height, left, bottom = 640, 420, 60, 50
    x = lambda processors: left + math.log2(processors) / 8 * (width - left - 20)  # noqa: E731
    y = lambda speed: height - bottom - math.log2(max(speed, 0.1) * 10) / math.log2(3000) * (height - bottom - 20)  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for processors in PROCESSORS:
        out.append(f'<path d="M{x(processors):.1f} 20V{height - bottom}" stroke="#ddd"/><text x="{x(processors):.1f}" y="{height - bottom + 18}" text-anchor="middle">{processors}</text>')
    for speed in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        out.append(f'<path d="M{left} {y(speed):.1f}H{width - 20}" stroke="#eee"/><text x="{left - 8}" y="{y(speed) + 4:.1f}" text-anchor="end">{speed}</text>')
    out.append(f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">processors</text><text x="16" y="{height / 2}" transform="rotate(-90 16 {height / 2})" text-anchor="middle">throughput, one processor = 1</text>')
    for scenario, colour in zip(SCENARIOS, COLOURS):
        times = measured["scenarios"][scenario.name]["cpu_ns"]
        line = [(n, predict(scenario, measured, n, measured["machine"]["line_ns"])["rate"] * times["1"]) for n in PROCESSORS]
        path = "M" + "L".join(f"{x(n):.1f} {y(speed):.1f}" for n, speed in line)
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for threads in (1, 2):
            out.append(f'<circle cx="{x(threads):.1f}" cy="{y(threads * times["1"] / times[str(threads)]):.1f}" r="4" fill="{colour}"/>')
        at = SCENARIOS.index(scenario)
        out.append(f'<path d="M{left + 20} {36 + 18 * at}h24" stroke="{colour}" stroke-width="3"/><text x="{left + 50}" y="{40 + 18 * at}">{scenario.name}</text>')
    file.write_text("\n".join(out) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="do not measure, use build/bench/scaling.json")
    parser.add_argument("--scale", type=float, default=0.05, help="amount of work of a run: short ones are left alone more often")
    parser.add_argument("--svg", type=pathlib.Path, default=OUT / "scaling.svg")
    arguments = parser.parse_args()
    file = OUT / "scaling.json"
    if not arguments.again:
        measured = measure(arguments.scale)
        file.write_text(json.dumps(measured, indent=1))
    measured = json.loads(file.read_text())
    show(measured)
    plot(measured, arguments.svg)


if __name__ == "__main__":
    main()
