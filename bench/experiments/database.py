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
    about = ("MariaDB and sysbench (selects by key, ranges, sorts and sums: oltp_read_only) over a socket on the same machine; a fresh server for each figure. "
             "The median and the worst of the rounds count.")
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
        """The data once; each round runs on a copy of it."""
        self.server = self.side = None
        self.data = bench.inputs / "database"
        if not (self.data / "made").exists():
            shutil.rmtree(self.data, ignore_errors=True)
            subprocess.run([find("mariadb-install-db"), "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={self.data}", "--skip-test-db",
                            "--auth-root-authentication-method=normal"], check=True, env={"PATH": PATH}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.start(bench, "glibc", self.data)
            subprocess.run(["mariadb", "--no-defaults", "-S", self.socket, "-e", "create database sbtest"], check=True, env={"PATH": PATH})
            self.sysbench("prepare")
            self.stop()
            (self.data / "made").touch()

    def start(self, bench, side, data=None):
        self.folder = tempfile.TemporaryDirectory(prefix="vmag-db-")
        self.socket = os.path.join(self.folder.name, "socket")
        if data is None:
            data = os.path.join(self.folder.name, "data")
            shutil.copytree(self.data, data)
        command = [find("mariadbd"), "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}", f"--socket={self.socket}", "--skip-networking",
                   f"--pid-file={self.folder.name}/pid", "--innodb-buffer-pool-size=64M", "--skip-grant-tables", "--max-connections=200"]
        self.server = Server(command, bench.environment(side), lambda: os.path.exists(self.socket), bench.library(side), os.path.join(self.folder.name, "log"))
        self.side = side

    def stop(self):
        if self.server:
            self.server.end()
            self.folder.cleanup()
        self.server = self.side = None

    def sysbench(self, what, *more):
        return subprocess.run(["sysbench", "oltp_read_only", "--db-driver=mysql", f"--mysql-socket={self.socket}", f"--mysql-user={getpass.getuser()}", "--tables=1",
                               f"--table-size={ROWS}", "--rand-seed=7", "--percentile=99", *more, what], check=True, stdout=subprocess.PIPE, text=True, env={"PATH": PATH}).stdout

    def measure(self, bench, side, point):
        self.start(bench, side)
        try:
            self.sysbench("run", f"--threads={point}", f"--events={point * 2}", "--time=0")  # connections made, caches filled
            before = self.server.cpu_seconds()
            events = 150 if bench.quick else 1500
            told = self.sysbench("run", f"--threads={point}", f"--events={max(events, point * 4)}", "--time=0")
            spent = self.server.cpu_seconds() - before
            queries = int(re.search(r"queries:\s+(\d+)", told)[1])
            return {"per_second": float(re.search(r"queries:.*\(([\d.]+) per sec", told)[1]), "cpu_us": spent / queries * 1e6,
                    "p99_ms": float(re.search(r"99th percentile:\s+([\d.]+)", told)[1]), "resident": self.server.memory()}
        finally:
            self.stop()

    def versions(self):
        return {"mariadbd": version_of("mariadbd", "--version"), "sysbench": version_of("sysbench", "--version")}


EXPERIMENT = Database()
