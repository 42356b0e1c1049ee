#!/usr/bin/env python3
"""Object caches, as in §3.4 and §3.8 of the 2001 paper: table, JSON and plots.

pairs    latency of a tight alloc and free loop and its scaling: the magazine layer, the slab layer alone, malloc; and an object
         that is costly to make (a lock, a condition, two buffers), from a cache against malloc + initialisation. The pairs of all
         threads are counted over the same time; a pair's is that of the processors. Each run is a process of its own, interleaved
         over several rounds; of each the least time counts.
steady   two threads whose level of objects wanders: visits of the depot per operation against 1/M, the magazine size M and the
         contention second by second. `wander` does nothing else; `paced` does other work in between, as programs do;
         `pass` frees every object in another thread.

Results go to build/bench/object_caches.json and object_caches.svg (`--plot FILE.svg`). Fails when a hit of a cache is more than 10 %
slower than malloc, the magazine layer not faster than the slab layer, construction not saved, a miss rate above 1/M, a
magazine size unsettled, or a steady load has one contention a second or more once it has settled.

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

PROGRAM = OUT / "object_caches"
KINDS = {"cache": "magazine layer", "slabs": "slab layer alone", "malloc": "malloc + free", "constructed": "constructed objects",
         "malloc+init": "malloc + initialisation"}
COLOURS = {"cache": "#0b6e4f", "slabs": "#c0392b", "malloc": "#2f6fb5", "constructed": "#0b6e4f", "malloc+init": "#8a4fbf"}
SIZE = 64
THREADS_MOST = 64  # of object_caches.c


def build():
    compile_with_library("object_caches", "-fno-builtin", "-lpthread")


def run(*arguments, library=None):
    """`library`: another vmag than the one that the program was linked with."""
    line = subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True, timeout=300, env=environment(library)).stdout
    return json.loads(line)


def processors():
    return len(os.sched_getaffinity(0))


def run_pairs(kind, threads, library=None):
    """Pairs a second of all threads, and nanoseconds of a processor a pair."""
    per_second = run("pair", kind, threads, SIZE, library=library)["per_second"]
    return per_second, min(threads, processors()) / per_second * 1e9


def measure_pairs(threads, rounds):
    least = {}
    for number in range(rounds):
        for count in threads:
            for kind in KINDS:
                _, ns = run_pairs(kind, count)
                least[kind, count] = min(least.get((kind, count), math.inf), ns)
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return least


def measure_steady(seconds):
    return {pattern: run("steady", pattern, 2, seconds) for pattern in ("wander", "paced", "pass")}


def settled(lines):
    """The last third, where the size of magazines no longer changes."""
    return lines[-max(len(lines) // 3, 1):]


def summary(lines):
    last = settled(lines)
    operations, visits = sum(line["operations"] for line in last), sum(line["visits"] for line in last)
    return {"rounds": [line["rounds"] for line in lines], "operations_a_second": operations / len(last),
            "visits_per_operation": visits / operations, "contentions_a_second": sum(line["contentions"] for line in last) / len(last)}


def faults(pairs, steady):
    for threads in sorted({threads for _, threads in pairs}):
        if threads > processors():
            continue
        if threads == 1 and pairs["cache", threads] > 1.1 * pairs["malloc", threads]:
            yield "a hit of a cache is more than 10 % slower than malloc"
        if pairs["cache", threads] >= pairs["slabs", threads]:
            yield f"{threads} threads: the magazine layer is not faster than the slab layer"
        if pairs["constructed", threads] >= pairs["malloc+init", threads]:
            yield f"{threads} threads: keeping objects constructed gains nothing"
    for pattern, figures in steady.items():
        rounds = figures["rounds"]
        if figures["visits_per_operation"] > 1.02 / rounds[-1]:  # the counts of a second are not taken all at once
            yield f"{pattern}: more than one visit in M operations"
        if len(set(settled(rounds))) > 1:
            yield f"{pattern}: the size of magazines does not settle"
        if figures["contentions_a_second"] >= 1:
            yield f"{pattern}: one contention a second or more"


def plot(pairs, steady, path):
    """Left: nanoseconds a pair by threads. Right: the size of magazines over time."""
    threads = sorted({count for _, count in pairs})
    most = max(pairs.values())
    texts, shapes = [], []
    for group, count in enumerate(threads):
        for bar, kind in enumerate(KINDS):
            ns = pairs[kind, count]
            height, left = 300 * ns / most, 60 + group * 190 + bar * 34
            shapes.append(f'<rect x="{left}" y="{340 - height:.1f}" width="28" height="{height:.1f}" fill="{COLOURS[kind]}"'
                          f' fill-opacity="{0.55 if kind in ("constructed", "malloc+init") else 1}"/>')
            texts.append(f'<text x="{left + 14}" y="{335 - height:.1f}" text-anchor="middle">{ns:.0f}</text>')
        texts.append(f'<text x="{60 + group * 190 + 85}" y="358" text-anchor="middle">{count} thread{"s" * (count > 1)}</text>')
    for row, (kind, label) in enumerate(KINDS.items()):
        shapes.append(f'<rect x="60" y="{378 + 16 * row}" width="10" height="10" fill="{COLOURS[kind]}"/>')
        texts.append(f'<text x="76" y="{387 + 16 * row}">{label}</text>')
    origin = 60 + len(threads) * 190 + 60
    for colour, (pattern, figures) in zip(("#c0392b", "#0b6e4f", "#2f6fb5"), steady.items()):
        rounds = figures["rounds"]
        points = " ".join(f"{origin + 300 * i / max(len(rounds) - 1, 1):.0f},{340 - value:.0f}" for i, value in enumerate(rounds))
        shapes.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        texts.append(f'<text x="{origin + 306}" y="{344 - rounds[-1]}" fill="{colour}">{pattern}: {rounds[-1]}</text>')
    texts.append(f'<text x="{origin}" y="358">rounds a magazine, over {len(next(iter(steady.values()))["rounds"])} s</text>')
    texts.append('<text x="60" y="20">nanoseconds for a pair of alloc and free</text>')
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{origin + 400}" height="470" font-family="sans-serif" '
                    f'font-size="12"><rect width="100%" height="100%" fill="white"/>{"".join(shapes)}{"".join(texts)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=20, help="of each steady load")
    parser.add_argument("--quick", action="store_true", help="one round, six seconds")
    parser.add_argument("--plot", type=pathlib.Path, default=OUT / "object_caches.svg")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 9
    build()
    threads = sorted({1, 2, min(processors(), THREADS_MOST)})
    pairs = measure_pairs(threads, arguments.rounds)
    steady = {pattern: summary(lines) for pattern, lines in measure_steady(arguments.seconds).items()}
    print(f"{'ns a pair, least':28}" + "".join(f"{count:>8} thr" for count in threads))
    for kind, label in KINDS.items():
        print(f"{label:28}" + "".join(f"{pairs[kind, count]:12.1f}" for count in threads))
    for pattern, figures in steady.items():
        print(f"{pattern:8} M = {figures['rounds'][-1]:3}, {figures['operations_a_second'] / 1e6:7.2f} million operations a second, "
              f"one visit of the depot in {1 / max(figures['visits_per_operation'], 1e-9):.0f}, "
              f"{figures['contentions_a_second']:.2f} contentions a second")
    (OUT / "object_caches.json").write_text(json.dumps({"machine": platform.processor() or platform.machine(), "cpus": processors(),
                                                        "pairs": {f"{kind}/{count}": ns for (kind, count), ns in pairs.items()},
                                                        "steady": steady}, indent=1) + "\n")
    plot(pairs, steady, arguments.plot)
    found = list(faults(pairs, steady))
    print("\n".join(found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
