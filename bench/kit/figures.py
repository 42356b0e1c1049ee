"""Numbers: means, intervals, and how they are written.

SPDX-License-Identifier: BSD-2-Clause
"""

import math
import random
import statistics

RESAMPLES = 2000
CONFIDENCE = 0.95


def geometric_mean(numbers):
    return math.exp(statistics.fmean(math.log(number) for number in numbers))


def interval_of_median(values):
    """The interval that holds the median with 95 % confidence: percentiles of the medians of 2000 resamples (bootstrap)."""
    if len(values) < 2:
        return values[0], values[0]
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(RESAMPLES))
    cut = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return medians[cut], medians[-1 - cut]


def figure(value):
    if value is None:
        return "-"
    if value >= 100000:
        return f"{value / 1e6:.2f}M" if value >= 1e6 else f"{value / 1e3:.0f}k"
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"
