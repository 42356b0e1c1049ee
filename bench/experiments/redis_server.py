"""Today: redis, whose own jemalloc is replaced by preloading.

SPDX-License-Identifier: BSD-2-Clause
"""

import csv
import os
import subprocess
import tempfile
import time

from kit.experiment import PATH, Experiment, Metric, version_of
from kit.servers import Server

DELETE_HALF = """local n = 0
for i = 0, tonumber(ARGV[1]) - 1, 2 do n = n + redis.call('del', string.format('key:%012d', i)) end
return n"""


class RedisServer(Experiment):
    title = "Redis"
    paper = "today"
    about = ("redis-server under redis-benchmark (10 clients, 16 requests in flight, values of 100 bytes) over a socket: processor time of the server a request, private memory with the "
             "data and after half of the keys were deleted. linked: the jemalloc that Debian's server comes with, nothing preloaded.")
    axis = "requests"
    plot = "bars"
    metrics = {"cpu_us": Metric("processor time of the server a request", "µs"), "per_second": Metric("requests a second", "thousands", "higher", 1e3),
               "resident": Metric("private memory with the data", "MiB", scale=1 << 20), "resident_half": Metric("private memory, half of it deleted", "MiB", scale=1 << 20)}
    shown = ("cpu_us", "per_second", "resident", "resident_half")
    needs = ("redis-server", "redis-benchmark", "redis-cli")

    def points(self, quick):
        return ["set", "get", "lpush"]

    def sides(self, bench):
        return ["linked" if side == "glibc" else side for side in bench.allocators]

    def measure(self, bench, side, point):
        keys, requests = (20000, 40000) if bench.quick else (200000, 400000)
        with tempfile.TemporaryDirectory(prefix="vmag-redis-") as folder:
            path = os.path.join(folder, "socket")
            command = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
            with Server(command, bench.environment(side), lambda: os.path.exists(path), bench.library(side), os.path.join(folder, "log")) as server:
                before = server.cpu_seconds()
                words = ["redis-benchmark", "-s", path, "--csv", "-t", point, "-n", str(requests), "-c", "10", "-P", "16", "-r", str(keys), "-d", "100"]
                told = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env={"PATH": PATH}).stdout
                row = list(csv.DictReader(told.splitlines()))[0]
                figures = {"cpu_us": (server.cpu_seconds() - before) / requests * 1e6, "per_second": float(row["rps"])}
                if point == "set":
                    figures["resident"] = server.memory()
                    subprocess.run(["redis-cli", "-s", path, "eval", DELETE_HALF, "0", str(keys)], check=True, stdout=subprocess.DEVNULL, env={"PATH": PATH})
                    time.sleep(0.5 if bench.quick else 4)
                    figures["resident_half"] = server.memory()
                return figures

    def versions(self):
        return {"redis": version_of("redis-server", "--version")}


EXPERIMENT = RedisServer()
