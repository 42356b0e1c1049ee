"""The machine that measures: what it is, how busy it is, what it has free.

SPDX-License-Identifier: BSD-2-Clause
"""

import datetime
import os
import pathlib
import platform


def proc_value(path, label, otherwise="unknown"):
    try:
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(label):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return otherwise


def cpu():
    """The model's name; as it hides which processor it is in many virtual machines, its family and model, too."""
    name, family, model = (proc_value("/proc/cpuinfo", label, "") for label in ("model name", "cpu family", "model\t"))
    return f"{name or 'unknown'} family {family} model {model}" if family else name or "unknown"


def memory_available():
    return int(proc_value("/proc/meminfo", "MemAvailable", "2097152 kB").split()[0]) * 1024


def machine():
    huge = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "huge_pages": huge.read_text().strip() if huge.exists() else "unknown",
        "load_at_start": os.getloadavg()[0],
    }
