"""The experiments of bench/redo.py, a file each, in the order of the papers.

SPDX-License-Identifier: BSD-2-Clause
"""

import importlib

NAMES = (
    "magazines", "vmem_latency", "malloc_free",  # 2001
    "malloc_test", "database", "programs", "memory_map",  # 2006
    "web_server", "fragmentation",  # 2011
    "lists",  # 2012
    "many_threads", "producer_consumer", "after_peak", "huge_pages", "start_up", "large_reallocs", "sized_delete", "compiler",
    "redis_server", "python_program",  # today
)


def load(name):
    experiment = importlib.import_module(f"experiments.{name}").EXPERIMENT
    experiment.name = name
    return experiment
