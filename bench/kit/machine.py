"""The machine that measures: what it is, how busy it is, what it has free.

SPDX-License-Identifier: BSD-2-Clause
"""

import datetime
import functools
import math
import mmap
import os
import pathlib
import platform
import re

from kit import say

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
    """Of the machine, or of a group of processes that may have less (a container's, say)."""
    return min(int(proc_value("/proc/meminfo", "MemAvailable", "2097152 kB").split()[0]) * 1024, *group_rooms(), math.inf)


def group_rooms(tree=pathlib.Path("/sys/fs/cgroup"), groups="/proc/self/cgroup"):
    """What the limit of each memory group that this process is in leaves it, in groups of the kernel's first and second kind and those around them.
    Pages of files that nobody uses go when they are in the way."""
    for line in read(groups).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, limit, usage = (tree / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else (tree, "memory.max", "memory.current")
        here = top / path.lstrip("/")
        for group in (here, *(around for around in here.parents if around.is_relative_to(top))):
            most, used = read(group / limit).strip(), read(group / usage).strip()
            if most.isdigit() and used.isdigit():
                unused = re.search(r"^inactive_file (\d+)$", read(group / "memory.stat"), re.M)
                yield max(int(most) - int(used) + (int(unused[1]) if unused else 0), 0)


def read(path):
    """"" where there is no such file."""
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


def level_huge_pages():
    """Takes huge pages and gives them back, so that what runs next finds the machine as whatever ran before it did.

    In a virtual machine that tells its host which memory is free, a huge page that nobody had for some seconds takes ten to thirty times as long as
    one that was just given back (docs/decisions/0062): without this an allocator's time would be that of its place in the order of runs. A process of its own
    does it: else this one's peak would be that of its children."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            take_huge_pages(max(min(LEVELLED, memory_available() // 4 // HUGE_PAGE * HUGE_PAGE), HUGE_PAGE))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status != 0:
        tell_unlevelled(os.waitstatus_to_exitcode(status))


@functools.cache
def tell_unlevelled(status):
    """Once: a run that follows may find huge pages dearer than the one before it did."""
    say(f"huge pages could not be taken and given back before a run (status {status}): times depend on the order of runs")


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
