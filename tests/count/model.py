#!/usr/bin/env python3
"""The scaling model (bench/scaling.py) where the answer is known: mean value analysis against closed forms.

usage: model.py BENCH_FOLDER
SPDX-License-Identifier: BSD-2-Clause
"""

import math
import sys

sys.path.insert(0, sys.argv[1])
import scaling  # noqa: E402


def near(value, expected, most=1e-9):
    assert abs(value - expected) <= most * abs(expected), (value, expected)


def machine_repair(processors, think, service):
    """Rate of the machine repair model, from its birth-death chain."""
    weights = [math.perm(processors, waiting) * (service / think) ** waiting for waiting in range(processors + 1)]
    return (1 - weights[0] / sum(weights)) / service


def one_lock():
    for processors in (1, 2, 7, 64):
        lock = scaling.Station("lock", 1, 1.0, 3.0)
        near(scaling.mean_values([lock], 20.0, processors), machine_repair(processors, 20.0, 3.0))


def contended_as_the_arriving_one_sees_it():
    lock = scaling.Station("lock", 1, 1.0, 3.0)
    scaling.mean_values([lock], 20.0, 2)
    near(lock.used, 3.0 / 23.0)  # what one processor alone uses of it


def locks_of_ones_own_never_wait():
    lock = scaling.Station("lock", math.inf, 0.5, 4.0)
    near(scaling.mean_values([lock], 10.0, 256), 256 / 12.0)


def many_locks_wait_less_than_one():
    rates = [scaling.mean_values([scaling.Station("lock", count, 1.0, 5.0)], 20.0, 64) for count in (1, 4, 1000)]
    assert rates[0] < rates[1] < rates[2] < 64 / 25.0
    near(rates[0], 1 / 5.0, 1e-6)  # saturated


for check in (one_lock, contended_as_the_arriving_one_sees_it, locks_of_ones_own_never_wait, many_locks_wait_less_than_one):
    check()
    print("ok:", check.__name__)
