"""2006, Figure 7: a database under load, 1 to 128 clients.

SPDX-License-Identifier: BSD-2-Clause
"""

import getpass
import os
import re
import shutil
import subprocess
import tempfile

from kit.experiment import PATH, RESIDENT, Experiment, Metric, find, version_of
from kit.servers import Server

ROWS = 20000


class Database(Experiment):
    title = "A database under load: queries by clients"
    paper = "2006, Figure 7"
    about = ("MariaDB and sysbench (selects by key, ranges, sorts and sums: oltp_read_only) over a socket on the same machine; a server for each allocator keeps running while the clients become more.")
    axis = "clients"
    metrics = {"per_second": Metric("queries a second", "thousands", "higher", 1e3), "cpu_us": Metric("processor time of the server a query", "µs"),
               "p99_ms": Metric("99th percentile of a transaction", "ms"), "resident": RESIDENT}
    shown = ("per_second", "cpu_us", "p99_ms", "resident")
    needs = ("mariadbd", "mariadb-install-db", "sysbench")

    def points(self, quick):
        return [1, 16] if quick else [1, 2, 4, 8, 16, 32, 64, 96, 128]

    def sides(self, bench):
        return [name for name in bench.allocators if not (bench.quick and name not in ("vmag", "glibc", "jemalloc"))]

    def prepare(self, bench):
        """The data once; each server runs on a copy of it."""
        self.running = {}
        self.data = bench.inputs / "database"
        if not (self.data / "made").exists():
            shutil.rmtree(self.data, ignore_errors=True)
            subprocess.run([find("mariadb-install-db"), "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={self.data}", "--skip-test-db",
                            "--auth-root-authentication-method=normal"], check=True, env={"PATH": PATH}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            maker = Database.Running(bench, "glibc", self.data, copy=False)
            subprocess.run(["mariadb", "--no-defaults", "-S", maker.socket, "-e", "create database sbtest"], check=True, env={"PATH": PATH})
            maker.sysbench("prepare")
            maker.end()
            (self.data / "made").touch()

    class Running:
        """A server with data of its own, on a socket in a folder of its own."""

        def __init__(self, bench, side, data, copy=True):
            self.folder = tempfile.TemporaryDirectory(prefix="vmag-db-")
            self.socket = os.path.join(self.folder.name, "socket")
            if copy:
                data = shutil.copytree(data, os.path.join(self.folder.name, "data"))
            command = [find("mariadbd"), "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}", f"--socket={self.socket}", "--skip-networking",
                       f"--pid-file={self.folder.name}/pid", "--innodb-buffer-pool-size=64M", "--skip-grant-tables", "--max-connections=200"]
            self.server = Server(command, bench.environment(side), lambda: os.path.exists(self.socket), bench.library(side), os.path.join(self.folder.name, "log"))

        def sysbench(self, what, *more):
            return subprocess.run(["sysbench", "oltp_read_only", "--db-driver=mysql", f"--mysql-socket={self.socket}", f"--mysql-user={getpass.getuser()}", "--tables=1",
                                   f"--table-size={ROWS}", "--rand-seed=7", "--percentile=99", *more, what], check=True, stdout=subprocess.PIPE, text=True,
                                  env={"PATH": PATH}).stdout

        def end(self):
            self.server.end()
            self.folder.cleanup()

    def measure(self, bench, side, point):
        if side not in self.running:
            self.running[side] = Database.Running(bench, side, self.data)
        running = self.running[side]
        running.sysbench("run", f"--threads={point}", f"--events={point * 2}", "--time=0")  # connections made, caches filled
        before = running.server.cpu_seconds()
        told = running.sysbench("run", f"--threads={point}", f"--events={max(150 if bench.quick else 800, point * 4)}", "--time=0")
        spent = running.server.cpu_seconds() - before
        queries = int(re.search(r"queries:\s+(\d+)", told)[1])
        return {"per_second": float(re.search(r"queries:.*\(([\d.]+) per sec", told)[1]), "cpu_us": spent / queries * 1e6,
                "p99_ms": float(re.search(r"99th percentile:\s+([\d.]+)", told)[1]), "resident": running.server.memory()}

    def end_round(self):
        while self.running:
            self.running.popitem()[1].end()

    def versions(self):
        return {"mariadbd": version_of("mariadbd", "--version"), "sysbench": version_of("sysbench", "--version")}


EXPERIMENT = Database()
