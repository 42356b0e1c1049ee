"""Processes on an allocator: environment, processors, and what a run cost.

SPDX-License-Identifier: BSD-2-Clause
"""

import os
import signal

RUN_LIMIT_SECONDS = 120


def environment(library):
    """A small environment, the same for all, so that no allocator is tuned by accident; vmag's own options pass."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("VMAG")}
    kept |= {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    if library:
        kept["LD_PRELOAD"] = library
    return kept


def cpus_for(threads):
    """One processor for one thread, two for two, all for more."""
    cpus = sorted(os.sched_getaffinity(0))
    return set(cpus) if threads > 2 else set(cpus[-threads:])


def prepare_child(cpus, limit_seconds=RUN_LIMIT_SECONDS):
    os.sched_setaffinity(0, cpus)
    signal.alarm(limit_seconds)
