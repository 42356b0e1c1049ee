"""Processes on an allocator: environment, processors, and what a run cost.

SPDX-License-Identifier: BSD-2-Clause
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import sys
import threading
import time

PR_SET_PDEATHSIG = 1
RUN_LIMIT_SECONDS = 120


def environment(library):
    """A small environment, the same for all, so that no allocator is tuned by accident, vmag neither."""
    kept = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    if library:
        kept["LD_PRELOAD"] = library
    return kept


def cpus_for(threads):
    """One processor for one thread, two for two, all for more."""
    cpus = sorted(os.sched_getaffinity(0))
    return set(cpus) if threads > 2 else set(cpus[-threads:])


C_LIBRARY = ctypes.CDLL(None)


def die_with_parent():
    """In a child, before its exec: it is told to end when the thread that started it does, however that ends."""
    C_LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end_children():
    for path in pathlib.Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            for pid in path.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGTERM)


def end_children_from_now_on():
    """Until this process ends: a thread may just be starting one."""
    def go_on():
        while True:
            end_children()
            time.sleep(0.05)

    threading.Thread(target=go_on, daemon=True).start()


def end_by_signals():
    """A polite end, by which temporary folders and servers go, too; a hangup that is ignored (nohup) stays so."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def prepare_child(cpus, limit_seconds=RUN_LIMIT_SECONDS):
    die_with_parent()
    os.sched_setaffinity(0, cpus)
    signal.alarm(limit_seconds)
