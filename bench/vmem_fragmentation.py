#!/usr/bin/env python3
"""Latency of alloc + free against fragmentation, as in §4.5.1 of the 2001 paper: table, JSON and plot.

Runs bench/vmem_fragmentation.c for every allocator, mode and number of free segments, each run a process of its own,
interleaved over several rounds; of each the least time counts. Results go to build/bench/vmem_fragmentation.json and .svg
(`--plot FILE.svg`). Fails when a policy of vmem is not flat: more than twice the latency at any fragmentation, in the modes
in which the same memory is used again and again (in `churn` it is not, and the processor's cache misses are what one sees).

SPDX-License-Identifier: BSD-2-Clause
"""

import argparse
import json
import math
import os
import pathlib
import platform
import subprocess
import sys

from kit import OUT, compile_with_library
from kit.process import environment

PROGRAM = OUT / "vmem_fragmentation"
ALLOCATORS = ("instant", "best", "next", "quantum", "rmap", "judy")
MODES = {
    "pair": "alloc + free of 65 to 128 integers, fragments of 1 to 64 in the way",
    "fit": "alloc + free of 1 to 64 integers, fragments of 1 to 64",
    "ids": "alloc + free of one integer, every other one is free",
    "churn": "random live segments of 1 to 64 integers replaced",
}
SEGMENTS = (1, 10, 100, 1000, 10000, 100000, 1000000)
COLOURS = {"instant": "#0b6e4f", "best": "#2f6fb5", "next": "#8a4fbf", "quantum": "#111111", "rmap": "#c0392b",
           "judy": "#d68910"}
LABELS = {"instant": "vmem, instant fit", "best": "vmem, best fit", "next": "vmem, next fit", "quantum": "vmem, quantum cache",
          "rmap": "resource map, first fit", "judy": "Judy1 array, lowest id"}
SLOWEST = {"rmap": {"pair": 1000000, "fit": 1000000, "churn": 100000}, "judy": {"pair": 0, "fit": 0, "churn": 0}}  # a map of a million takes milliseconds a call


def build():
    compile_with_library("vmem_fragmentation", "-ldl")


def run(allocator, mode, segments, library=None):
    """`library`: another vmag than the one that the program was linked with."""
    result = subprocess.run([PROGRAM, allocator, mode, str(segments)], stdout=subprocess.PIPE, text=True, timeout=120, env=environment(library))
    if result.returncode == 77:
        return None
    result.check_returncode()
    return json.loads(result.stdout)["ns"]


def measure(modes, segments, rounds):
    least = {}
    for number in range(rounds):
        for mode in modes:
            for count in segments:
                for allocator in ALLOCATORS:
                    if count > SLOWEST.get(allocator, {}).get(mode, count):
                        continue
                    key = (mode, allocator, count)
                    ns = run(allocator, mode, count)
                    if ns is not None:
                        least[key] = min(least.get(key, math.inf), ns)
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return least


def table(least, mode, segments):
    print(f"\n{mode}: {MODES[mode]}; ns\n")
    print(f"{'':26}" + "".join(f"{count:>12,}" for count in segments) + "   most/least")
    for allocator in ALLOCATORS:
        row = [least.get((mode, allocator, count)) for count in segments]
        known = [value for value in row if value is not None]
        if not known:
            continue
        print(f"{LABELS[allocator]:26}" + "".join(f"{'–' if value is None else f'{value:,.1f}':>12}" for value in row) +
              f"{max(known) / min(known):>12.2f}")


def panel(least, mode, segments, left, top, width, height):
    """One plot, both axes logarithmic."""
    def x(count):
        return left + width * math.log10(count) / math.log10(segments[-1])

    def y(ns):
        return top + height * (1 - (math.log10(ns) - 0) / 8)

    parts = [f'<text x="{left}" y="{top - 14}" font-weight="bold">{mode}</text>'
             f'<text x="{left + 50}" y="{top - 14}" fill="#555">{MODES[mode]}</text>']
    for power in range(0, 9):
        name = {0: "1 ns", 3: "1 µs", 6: "1 ms"}.get(power)
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y(10 ** power):.1f}" y2="{y(10 ** power):.1f}" stroke="#ddd"/>')
        if name:
            parts.append(f'<text x="{left - 8}" y="{y(10 ** power) + 4:.1f}" text-anchor="end">{name}</text>')
    for count in segments:
        parts.append(f'<text x="{x(count):.1f}" y="{top + height + 18}" text-anchor="middle">{count:,}</text>')
    for allocator in ALLOCATORS:
        if not any((mode, allocator, count) in least for count in segments):
            continue
        points = [(x(count), y(least[mode, allocator, count])) for count in segments if (mode, allocator, count) in least]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[allocator]}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{COLOURS[allocator]}"/>' for a, b in points]
    return "\n".join(parts)


def plot(least, modes, segments, path):
    width, height, step = 700, 240, 320
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="{step * len(modes) + 80}" '
             'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
             '<text x="80" y="24" font-size="15">Latency of alloc + free against the number of free segments</text>']
    for number, allocator in enumerate(ALLOCATORS):
        parts.append(f'<rect x="{80 + 155 * number}" y="36" width="12" height="12" fill="{COLOURS[allocator]}"/>'
                     f'<text x="{98 + 155 * number}" y="46">{LABELS[allocator]}</text>')
    for number, mode in enumerate(modes):
        parts.append(panel(least, mode, segments, 80, 90 + step * number, width, height))
    parts.append("</svg>")
    pathlib.Path(path).write_text("\n".join(parts) + "\n", encoding="utf-8")


def not_flat(least, modes, segments):
    for mode in modes:
        for allocator in ALLOCATORS:
            row = [least[mode, allocator, count] for count in segments if (mode, allocator, count) in least]
            if row and mode != "churn" and allocator not in ("rmap", "judy") and max(row) > 2 * row[0]:
                yield f"{LABELS[allocator]}, {mode}: {max(row):.0f} ns, {row[0]:.0f} ns with one segment"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few sizes, one round")
    parser.add_argument("--plot", default=OUT / "vmem_fragmentation.svg", help="where the plot goes")
    arguments = parser.parse_args()
    segments = SEGMENTS[::3] if arguments.quick else SEGMENTS
    modes = tuple(MODES)
    build()
    least = measure(modes, segments, 1 if arguments.quick else arguments.rounds)
    for mode in modes:
        table(least, mode, segments)
    rows = [{"mode": mode, "allocator": allocator, "segments": count, "ns": ns} for (mode, allocator, count), ns in least.items()]
    (OUT / "vmem_fragmentation.json").write_text(json.dumps({"machine": platform.machine(), "cpus": os.cpu_count(), "rows": rows}, indent=1) + "\n")
    plot(least, modes, segments, arguments.plot)
    found = list(not_flat(least, modes, segments))
    print("\nnot flat: " + "; ".join(found) if found else "\nflat within 2× in pair, fit and ids: all policies of vmem")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
