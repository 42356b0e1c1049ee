"""A server on an allocator: started, asked what it spent and holds, ended.

SPDX-License-Identifier: BSD-2-Clause
"""

import contextlib
import os
import pathlib
import subprocess
import time

from kit.process import die_with_parent

WAIT_SECONDS = 60
SCHEDULER_CLOCK = 2


class Server:
    """`ready`: called until true, with the process's life in view. The process must have `library` in it (None: no allocator of another file)."""

    def __init__(self, command, variables, ready, library, log, cwd=None):
        self.log = pathlib.Path(log)
        with open(log, "wb") as output:
            self.process = subprocess.Popen([str(word) for word in command], env=variables, stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=subprocess.STDOUT, cwd=cwd, preexec_fn=die_with_parent)
        self.pid = self.process.pid
        try:
            self.wait(ready)
            self.prove(library)
        except BaseException:
            self.end()
            raise

    def wait(self, ready):
        end = time.monotonic() + WAIT_SECONDS
        while not ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{os.path.basename(str(self.process.args[0]))} did not start: {self.log.read_text(errors='replace')[-300:]}")
            time.sleep(0.02)

    def prove(self, library):
        maps = pathlib.Path(f"/proc/{self.pid}/maps").read_text()
        if library and os.path.realpath(library) not in maps:
            raise RuntimeError(f"{library} is not in process {self.pid}")

    def cpu_seconds(self):
        """Of all its threads, also those that ended: the kernel's clock of the process (clock_getcpuclockid), which /proc rounds to ticks."""
        return time.clock_gettime(~self.pid << 3 | SCHEDULER_CLOCK)

    def memory(self):
        """Private resident bytes."""
        text = pathlib.Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Private_"))

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.end()
