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
    """One run's figures in the order of COUNTS; None what nothing has counted: cycles and instructions without perf, or of a machine without counters."""
    command = ["env", f"LD_PRELOAD={library}", f"VMAG_CONF={front}", BENCH, pattern, "--scale", str(scale)]
    if shutil.which("perf"):
        command = ["perf", "stat", "-x,", "-e", "cycles:u,instructions:u", *command]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"},
                            preexec_fn=lambda: os.sched_setaffinity(0, cpus_for(threads)))
    figures = json.loads(result.stdout.strip().splitlines()[-1])
    counted = counts_of(result.stderr)
    return (*(counted.get(name) and counted[name] / figures["operations"] for name in COUNTS[:2]), figures["ns_per_operation"],
            figures["cpu_ns_per_operation"], figures["rss_peak"] / MIB)


def counts_of(told):
    """What `perf stat -x,` tells, by event: `123,,cycles:u,…`; `<not supported>,,cycles:u,…` is left out."""
    fields = [line.split(",") for line in told.splitlines()]
    return {field[2].removesuffix(":u"): int(field[0]) for field in fields if len(field) > 2 and field[0].isdigit()}


def least(column):
    found = [value for value in column if value is not None]
    return min(found, default=None)


def ratio(thread, cpu):
    return cpu / thread if thread and cpu is not None else None


def written(value, form):
    """As wide as `form` makes a number; a dash for none."""
    return f"{'–':>{len(format(0.0, form))}}" if value is None else format(value, form)


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
        for number in range(arguments.rounds):
            for front in FRONTS if number % 2 == 0 else FRONTS[::-1]:
                runs[front].append(run(pattern["pattern"], pattern["threads"], front, arguments.library, arguments.scale))
        thread, cpu = ([least(column) for column in zip(*runs[front])] for front in FRONTS)
        row = [ratio(*pair) for pair in zip(thread, cpu)]
        ratios[pattern["threads"] > 2].append(row)
        print(f"{pattern['pattern']:12}" + "".join(f"{written(a, '9.4g')} {written(b, '8.4g')} {written(by, '5.2f')}" for a, b, by in zip(thread, cpu, row)),
              flush=True)
    for many, rows in ratios.items():
        if rows:
            columns = [[by for by in column if by] for column in zip(*rows)]
            means = [geometric_mean(column) if column else None for column in columns]
            print(f"geometric mean of {len(rows)} patterns, {'more' if many else '1 and 2'} threads: "
                  + ", ".join(f"{name} {written(mean, '.3f').strip()}" for name, mean in zip(COUNTS, means)))


if __name__ == "__main__":
    main()
