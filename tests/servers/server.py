# What the tests of servers share: starting one on the library, preloaded or as libjemalloc.so.2, and proof of which allocator ran.
# SPDX-License-Identifier: BSD-2-Clause
import contextlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
SECONDS = 300
MEBIBYTE = 1 << 20


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)


def need(*programs):
    for program in programs:
        if not find(program):
            skip(f"{program} is not installed (scripts/setup.sh test)")


def find(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")


def free_ports(count):
    """
    All at once, so that they differ; below those that the system gives to clients: dig may share a port that it is given. They are free again
    until the server has them, so tests that run at once take them from other parts of the range.
    """
    ports = []
    with contextlib.ExitStack() as stack:
        while len(ports) < count:
            port, probe = 20000 + os.getpid() % 100 * 100 + random.randrange(100), stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def wait_until(true, what, process=None):
    end = time.monotonic() + SECONDS
    while not true():
        assert process is None or process.poll() is None, f"the server ended: status {process.returncode}"
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.05)


def answers(port):
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Allocator:
    """The library as a server gets it: "preload", "alias" (found as libjemalloc.so.2), or "system" (not at all)."""

    def __init__(self, library, way, folder):
        self.library, self.way = os.path.realpath(library), way
        self.report = os.path.join(folder, "report")
        self.libraries = os.path.join(folder, "lib")
        os.mkdir(self.libraries)
        os.symlink(self.library, os.path.join(self.libraries, "libjemalloc.so.2"))

    def environment(self, **more):
        clean = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "VMAG_CONF", "MALLOC_CONF")}
        if self.way == "preload":
            clean.update(LD_PRELOAD=self.library)
        elif self.way == "alias":
            clean.update(LD_LIBRARY_PATH=self.libraries)
        return {**clean, "VMAG_REPORT": self.report, "LC_ALL": "C", **more}

    def check_maps(self, pid):
        """The library is in the process, and when it stands for jemalloc, jemalloc is not."""
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            files = {line.split()[-1] for line in maps if "/" in line}
        ours, jemalloc = self.library in files, any("libjemalloc" in file for file in files)
        assert ours == (self.way != "system"), f"process {pid}: libvmag is {'' if ours else 'not '}in it"
        assert self.way != "alias" or not jemalloc, f"process {pid}: libjemalloc is in it, too"

    def check_report(self, pid, least_allocated):
        """The process told at its end that its objects were the library's."""
        if self.way == "system":
            return
        with open(self.report, encoding="ascii") as report:
            lines = [json.loads(line) for line in report]
        ends = [line for line in lines if line["event"] == "exit" and line["pid"] == pid]
        assert ends, f"process {pid} left no word at its end; there are {[(line['event'], line['pid']) for line in lines]}"
        assert ends[-1]["mapped_bytes"] > 0 and ends[-1]["allocated_bytes"] >= least_allocated, ends[-1]


@contextlib.contextmanager
def started(words, log, **options):
    """A process that is ended, and killed if need be, when the test is over."""
    with open(log, "wb") as output:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, **options)
    try:
        yield process
    except BaseException:
        with open(log, "rb") as output:
            sys.stderr.write(output.read()[-4000:].decode(errors="replace"))
        raise
    finally:
        process.terminate()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def check_quiet(log):
    """No report of misuse, and nothing about options, from us."""
    with open(log, encoding="utf-8", errors="replace") as output:
        ours = [line for line in output if re.match(r"(vmag|<jemalloc>): ", line)]
    assert not ours, ours


def run(words, **options):
    result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS * 4, **options)
    assert result.returncode == 0, f"{words[0]}: status {result.returncode}: {result.stdout[-3000:]}"
    return result.stdout


def main(test):
    """`NAME.py LIBRARY WAY`, in a folder of its own that other users may enter."""
    library, way = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="vmag-server-") as folder:
        os.chmod(folder, 0o755)
        test(Allocator(library, way, folder), folder)
    print(f"{os.path.basename(sys.argv[0])} {way}: passed")
