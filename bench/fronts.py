#!/usr/bin/env python3
"""Compares vmag's fronts of processors with those of threads: `fronts.py [--rounds N] [--scale F] [--patterns REGEX] [--library FILE]`.

Interleaved runs of the bench program, minima: user cycles and instructions per operation by perf where there is one, which other
programs on the machine disturb least; wall and CPU time; peak resident memory. Ratios are front:cpu / front:thread.

SPDX-License-Identifier: BSD-2-Clause
"""

import argparse
import json
import os
import re
import shutil
import subprocess

from kit import MIB, OUT, TOP
from kit.allocators import VMAG
from kit.figures import geometric_mean
from kit.process import cpus_for

BENCH = OUT / "bench"
FRONTS = ("front:thread", "front:cpu")
COUNTS = ("cycles", "instructions", "wall ns", "CPU ns", "peak MiB")


def run(pattern, threads, front, library, scale):
    """One run's figures by name; cycles and instructions are 0 without perf."""
    command = ["env", f"LD_PRELOAD={library}", f"VMAG_CONF={front}", BENCH, pattern, "--scale", str(scale)]
    if shutil.which("perf"):
        command = ["perf", "stat", "-x,", "-e", "cycles:u,instructions:u", *command]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"},
                            preexec_fn=lambda: os.sched_setaffinity(0, cpus_for(threads)))
    figures = json.loads(result.stdout.strip().splitlines()[-1])
    counted = [int(line.split(",")[0]) for line in result.stderr.splitlines() if re.match(r"\d+,", line)] or [0, 0]
    return (*(count / figures["operations"] for count in counted[:2]), figures["ns_per_operation"],
            figures["cpu_ns_per_operation"], figures["rss_peak"] / MIB)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--patterns", default=".")
    parser.add_argument("--library", default=VMAG)
    arguments = parser.parse_args()
    subprocess.run([TOP / "bench/build.sh"], check=True)
    listed = subprocess.run([BENCH, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    patterns = [pattern for pattern in map(json.loads, listed)
                if pattern["group"] == "speed" and re.search(arguments.patterns, pattern["pattern"])]
    print(f"{'':12}" + "".join(f"{name:>24}" for name in COUNTS))
    ratios = {False: [], True: []}
    for pattern in patterns:
        runs = {front: [] for front in FRONTS}
        for _ in range(arguments.rounds):
            for front in FRONTS:
                runs[front].append(run(pattern["pattern"], pattern["threads"], front, arguments.library, arguments.scale))
        thread, cpu = ([min(column) for column in zip(*runs[front])] for front in FRONTS)
        ratios[pattern["threads"] > 2].append([b / a if a else 1 for a, b in zip(thread, cpu)])
        print(f"{pattern['pattern']:12}" + "".join(f"{a:9.4g} {b:8.4g} {b / a if a else 1:5.2f}" for a, b in zip(thread, cpu)),
              flush=True)
    for many, rows in ratios.items():
        if rows:
            means = [geometric_mean(column) for column in zip(*rows)]
            print(f"geometric mean of {len(rows)} patterns, {'more' if many else '1 and 2'} threads: "
                  + ", ".join(f"{name} {mean:.3f}" for name, mean in zip(COUNTS, means)))


main()
