"""The machine that measures: what it is, how busy it is, what it has free.

SPDX-License-Identifier: BSD-2-Clause
"""

import datetime
import mmap
import os
import pathlib
import platform

HUGE_PAGE = 2 << 20
LEVELLED = 512 << 20


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


def level_huge_pages():
    """Takes huge pages and gives them back, so that what runs next finds the machine as whatever ran before it did.

    In a virtual machine that tells its host which memory is free, a huge page that nobody had for some seconds takes ten to thirty times as long as
    one that was just given back (docs/decisions/0062): without this an allocator's time would be that of its place in the order of runs. A process of its own
    does it: else this one's peak would be that of its children."""
    child = os.fork()
    if child == 0:
        try:
            take_huge_pages(max(min(LEVELLED, memory_available() // 4 // HUGE_PAGE * HUGE_PAGE), HUGE_PAGE))
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def take_huge_pages(size):
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # a system without
            return
        for start in range(0, len(memory), HUGE_PAGE):
            memory[start] = 0


def host():
    """What stays as it is while the machine is up."""
    huge = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cpu": cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "huge_pages": huge.read_text().strip() if huge.exists() else "unknown",
    }


def date():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def machine():
    return {"date": date()} | host() | {"load_at_start": os.getloadavg()[0]}
