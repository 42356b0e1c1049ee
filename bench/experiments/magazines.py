"""2001, §3.8: latency and scaling of an object cache with the magazine layer and without it (bench/object_caches.c).

SPDX-License-Identifier: BSD-2-Clause
"""

import object_caches
from kit.experiment import Experiment, Metric, Skipped
from kit.allocators import VMAG


class Magazines(Experiment):
    title = "Object caches with and without magazines"
    paper = "2001, §3.8"
    about = ("A tight loop of alloc and free of 64-byte objects: of a cache of vmag's through its magazine layer, by its slab layer alone, and by malloc; "
             "and of objects that are costly to make, from a cache and by malloc and initialisation. Pairs of all threads in the same 20 ms, the best of twelve.")
    metrics = {"ns": Metric("processor time of a pair of alloc and free", "ns"), "per_second": Metric("pairs a second, all threads", "millions", "higher", 1e6)}
    shown = ("ns", "per_second")

    def points(self, quick):
        return [1, 2] if quick else sorted({1, 2, 4, 8, min(object_caches.processors(), object_caches.THREADS_MOST)})

    def sides(self, bench):
        return list(object_caches.KINDS)

    def prepare(self, bench):
        if not VMAG.exists():
            raise Skipped("build/lib/libvmag.so is not there: make")
        object_caches.build()

    def measure(self, bench, side, point):
        per_second, ns = object_caches.run_pairs(side, point, bench.vmag)
        return {"ns": ns, "per_second": per_second}


EXPERIMENT = Magazines()
