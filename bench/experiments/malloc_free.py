"""2001, Figure 6.2: scaling of malloc and free, measured as in §3.8.

SPDX-License-Identifier: BSD-2-Clause
"""

from experiments.malloc_test import MallocTest


class MallocFree(MallocTest):
    title = "malloc and free: throughput by threads"
    paper = "2001, Figure 6.2"
    about = "A tight loop of malloc and free of 64 bytes, in one thread and in several at a time, as in §3.8."
    size = 64
    counts = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    quick_counts = (1, 2, 10)


EXPERIMENT = MallocFree()
