"""Numbers: means, intervals, and how they are written.

SPDX-License-Identifier: BSD-2-Clause
"""

import math
import statistics

CONFIDENCE = 0.95


def geometric_mean(numbers):
    return math.exp(statistics.fmean(math.log(number) for number in numbers))


def interval_of_median(values):
    """The narrowest pair of values, as far from the least as from the most, that has the median between them with 95 % confidence, whatever their
    distribution; None of fewer than six, for which not even the least and the most do.

    Beyond the most or the least but k lies the median when at most k of the values fell on one side of it: a coin thrown that often."""
    count, cut, outside = len(values), 0, 0.0
    while (outside := outside + 2 * math.comb(count, cut) / 2 ** count) <= 1 - CONFIDENCE:
        cut += 1
    ordered = sorted(values)
    return (ordered[cut - 1], ordered[-cut]) if cut else None


def figure(value):
    if value is None:
        return "-"
    if value >= 100000:
        return f"{value / 1e6:.2f}M" if value >= 1e6 else f"{value / 1e3:.0f}k"
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"
