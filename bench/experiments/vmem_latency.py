"""2001, §4.5.1: latency of an arena against its fragmentation (bench/vmem_fragmentation.c).

SPDX-License-Identifier: BSD-2-Clause
"""

import vmem_fragmentation
from kit.experiment import Experiment, Metric, Skipped
from kit.allocators import VMAG


class VmemLatency(Experiment):
    title = "Arenas: latency against fragmentation"
    paper = "2001, §4.5.1"
    about = "Allocating and freeing 65 to 128 integers in an arena with free segments of 1 to 64 integers in the way: vmem's policies, and a list searched from its head."
    axis = "free segments"
    metrics = {"ns": Metric("time of a pair of alloc and free", "ns")}
    shown = ("ns",)

    def points(self, quick):
        return list(vmem_fragmentation.SEGMENTS[::3] if quick else vmem_fragmentation.SEGMENTS)

    def sides(self, bench):
        return [name for name in vmem_fragmentation.ALLOCATORS if name != "judy"]

    def prepare(self, bench):
        if not VMAG.exists():
            raise Skipped("build/lib/libvmag.so is not there: make")
        vmem_fragmentation.build()

    def measure(self, bench, side, point):
        if side == "rmap" and point > (10000 if bench.quick else 100000):
            return {}  # milliseconds a call
        ns = vmem_fragmentation.run(side, "pair", point, library=bench.vmag)
        return {} if ns is None else {"ns": ns}


EXPERIMENT = VmemLatency()
