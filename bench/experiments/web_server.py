"""2011: a web server under load, throughput by processor time consumed.

SPDX-License-Identifier: BSD-2-Clause
"""

import os
import re
import socket
import subprocess
import tempfile

from kit import TWIN
from kit.experiment import PATH, PROGRAMS, RESIDENT, Experiment, Metric, find, version_of
from kit.servers import Server

SIX = ("vmag", "glibc", "jemalloc", "mimalloc3", "snmalloc", "tcmalloc-deb")


class WebServer(Experiment):
    title = "A web server under load"
    paper = "2011, web server throughput"
    about = ("A Ruby application on puma with five threads (templates, JSON, searches), loaded by wrk over loopback; throughput is measured as the article did, by the processor time "
             "that the server consumes. Six allocators.")
    axis = "connections"
    plot = "bars"
    metrics = {"per_cpu_second": Metric("requests a second of the server's processor time", "", "higher"), "per_second": Metric("requests a second", "", "higher"),
               "resident": RESIDENT}
    shown = ("per_cpu_second", "per_second", "resident")
    needs = ("puma", "wrk")

    def points(self, quick):
        return ["10 connections"]

    def sides(self, bench):
        return [name for name in (*SIX, TWIN) if name in bench.allocators]

    def measure(self, bench, side, point):
        connections = int(point.split()[0])
        seconds = 1 if bench.quick else 8
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            command = ["ruby", find("puma"), "--dir", folder, "--no-config", "-e", "production", "-t", "5:5", "-b", f"tcp://127.0.0.1:{port}", PROGRAMS / "application.ru"]
            with Server(command, bench.environment(side), lambda: answers(port), bench.library(side), os.path.join(folder, "log")) as server:
                load(port, connections, max(seconds // 4, 1))
                before = server.cpu_seconds()
                requests, elapsed = load(port, connections, seconds)
                spent = server.cpu_seconds() - before
                return {"per_cpu_second": requests / spent, "per_second": requests / elapsed, "resident": server.memory()}

    def versions(self):
        return {"ruby": version_of("ruby", "--version"), "puma": version_of("puma", "--version"), "wrk": version_of("wrk", "--version")}


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def load(port, connections, seconds):
    """How many requests were answered, and in how many seconds."""
    told = subprocess.run(["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "-s", PROGRAMS / "requests.lua", f"http://127.0.0.1:{port}/"],
                          env={"PATH": PATH}, stdout=subprocess.PIPE, text=True, check=True).stdout
    if "Non-2xx" in told:
        raise RuntimeError("the application answered with errors")
    requests, elapsed = re.search(r"(\d+) requests in ([\d.]+)s", told).groups()
    return int(requests), float(elapsed)


EXPERIMENT = WebServer()
