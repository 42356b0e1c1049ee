#!/usr/bin/env python3
"""redis-server on vmag in the place of the jemalloc that it is linked to, and on that, interleaved: throughput, CPU time, memory.

Each round starts a fresh server for each side, by turns. The clients are redis-benchmark's, over a Unix socket. What the server's process
spends of CPU time for a request is the steadier number: the throughput is also the clients' and the machine's. Memory is
the private resident memory of the server (smaps_rollup), with the data in it, at once and after some seconds, and after half of the keys were deleted.

SPDX-License-Identifier: BSD-2-Clause
"""

import argparse
import csv
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20
TESTS = ("set", "get", "lpush")
DELETE_HALF = """local n = 0
for i = 0, tonumber(ARGV[1]) - 1, 2 do n = n + redis.call('del', string.format('key:%012d', i)) end
return n"""


class Server:
    """A server without persistence on a socket of its own; its memory belongs to the allocator that was asked for.

    `libraries`: the folder where vmag is found as libjemalloc.so.2; None: the system's jemalloc serves."""

    def __init__(self, libraries, folder):
        self.socket = os.path.join(folder, "socket")
        environment = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
        if libraries:
            environment["LD_LIBRARY_PATH"] = str(libraries)
        words = ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", folder]
        self.process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)
        while not os.path.exists(self.socket):
            if self.process.poll() is not None:
                sys.exit("redis: the server ended at once")
            time.sleep(0.05)
        maps = pathlib.Path(f"/proc/{self.process.pid}/maps").read_text()
        place = f"{libraries}/libjemalloc.so.2" if libraries else "/libjemalloc.so.2"
        if place not in maps or maps.count("libjemalloc.so.2") != maps.count(place):
            sys.exit("redis: the server does not run on the allocator asked for")

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0]) / 1e9

    def memory(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Private_"))

    def command(self, *words):
        return subprocess.run(["redis-cli", "-s", self.socket, *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    def benchmark(self, test, options):
        """Requests a second, and microseconds of the server's CPU for a request."""
        before = self.cpu_seconds()
        words = ["redis-benchmark", "-s", self.socket, "--csv", "-t", test, "-n", str(options.requests), "-c", "10",
                 "-P", str(options.pipeline), "-r", str(options.keys), "-d", str(options.bytes)]
        output = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        rows = list(csv.DictReader(output.splitlines()))
        return float(rows[0]["rps"]), (self.cpu_seconds() - before) / options.requests * 1e6

    def end(self):
        self.process.terminate()
        self.process.wait()


def one_run(libraries, options):
    result = {}
    with tempfile.TemporaryDirectory(prefix="vmag-redis-") as folder:
        server = Server(libraries, folder)
        try:
            for test in TESTS:
                result[test + " requests/s"], result[test + " server µs/request"] = server.benchmark(test, options)
            result["private MiB"] = server.memory() / MIB
            time.sleep(options.settle)
            result["private MiB, at rest"] = server.memory() / MIB
            server.command("eval", DELETE_HALF, "0", str(options.keys))
            time.sleep(options.settle)
            result["private MiB, half deleted"] = server.memory() / MIB
        finally:
            server.end()
    return result


def measure(sides, options):
    results = {side: [] for side in sides}
    for number in range(options.rounds):
        names = list(sides)
        for side in names if number % 2 == 0 else reversed(names):
            print(f"\rround {number + 1} of {options.rounds}, {side}   ", end="", file=sys.stderr, flush=True)
            results[side].append(one_run(sides[side], options))
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)
    return results


def table(results):
    ours, theirs = results.values()
    print(f"| median (best) of {len(ours)} rounds | {' | '.join(results)} | vmag / jemalloc |\n|---|---|---|---|")
    for key in ours[0]:
        best = max if "requests/s" in key else min
        both = [[run[key] for run in runs] for runs in (ours, theirs)]
        cells = [f"{statistics.median(values):,.2f} ({best(values):,.2f})" for values in both]
        ratio = statistics.median(both[0]) / statistics.median(both[1])
        print(f"| {key} | {cells[0]} | {cells[1]} | {ratio:.3f} ({best(both[0]) / best(both[1]):.3f}) |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=TOP / "build/lib/libvmag.so", type=pathlib.Path, help="vmag")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=500000)
    parser.add_argument("--keys", type=int, default=200000)
    parser.add_argument("--bytes", type=int, default=100, help="of a value")
    parser.add_argument("--pipeline", type=int, default=16)
    parser.add_argument("--settle", type=float, default=4, help="seconds of rest after the load, and after the deletion")
    parser.add_argument("--json", type=pathlib.Path, help="all numbers")
    options = parser.parse_args()
    for program in ("redis-server", "redis-benchmark", "redis-cli"):
        if not shutil.which(program):
            sys.exit(f"redis: {program} is not installed: scripts/setup.sh test")
    with tempfile.TemporaryDirectory(prefix="vmag-redis-library-") as folder:
        # A copy, so that a build meanwhile does not change what is measured.
        shutil.copy(options.library, os.path.join(folder, "libjemalloc.so.2"))
        sides = {"vmag": folder, "jemalloc": None}
        results = measure(sides, options)
    table(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
