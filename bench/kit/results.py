"""Results of experiments: one JSON file, checked against bench/kit/experiments.schema.json, written anew after each round.

SPDX-License-Identifier: BSD-2-Clause
"""

import json
import math
import os
import pathlib
import statistics
import time

from kit import OURS, say, sha256
from kit.figures import interval_of_median

try:
    import jsonschema
except ImportError:  # then results are not checked
    jsonschema = None

FORMAT = "vmag-experiments/2"
SCHEMA = pathlib.Path(__file__).with_name("experiments.schema.json")


def load(path):
    """None where there are none. A file that is not what we write is moved aside, lest the next save overwrites what may be hours of measuring."""
    path = pathlib.Path(path)
    try:
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("experiments"), dict):
            raise ValueError(f"not {FORMAT}")
        if jsonschema:
            check(found)
        return found
    except FileNotFoundError:
        return None
    except (ValueError, *([jsonschema.ValidationError] if jsonschema else [])) as why:
        aside = path.with_name(f"{path.stem}.{time.strftime('%Y%m%d-%H%M%S')}{path.suffix}")
        os.replace(path, aside)
        say(f"redo: {path} cannot be read ({str(why).splitlines()[0]}); it is {aside.name} now")
        return None


def save(results, path):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(results, indent=1) + "\n")
    os.replace(new, path)


def check(results):
    """Raises jsonschema's error when the results are not as the schema says."""
    jsonschema.validate(results, json.loads(SCHEMA.read_text()))


def same_machine(one, other):
    """Not by its memory: a virtual machine's may change by some pages from one start to the next."""
    return all(one[key] == other[key] for key in one.keys() - {"memory_bytes"})


def same_files(one, other):
    """Whether what both name is the same."""
    return all(one[name]["sha256"] == other[name]["sha256"] for name in one.keys() & other.keys())


def same_inputs(sums, folder):
    return all((folder / name).exists() and sha256(folder / name) == known for name, known in sums.items())


def has_all(record, now):
    """Whether each side and point of today is among those measured; of what was interrupted there are to be no others."""
    if record["status"] == "begun":
        return record["sides"] == now["sides"] and record["points"] == now["points"]
    return set(record["sides"]) >= set(now["sides"]) and set(record["points"]) >= set(now["points"])


def is_current(record, now, inputs):
    """Whether what was measured is what would be measured now (`now`: the record of it, not begun yet; `inputs`: the folder of input files)."""
    return (record["quick"] == now["quick"] and has_all(record, now)
            and same_machine(record["machine"], now["machine"])
            and same_files(record["allocators"], now["allocators"])
            and same_inputs(record["inputs"], inputs))


def whole_rounds(record):
    """Of each point the rounds in which every side was measured there that has not failed: the best of many is better than the best of few, so
    nothing else is compared."""
    sides = {side for side in record["sides"] if side not in record["failures"]}
    there = {}
    for run in record["runs"]:
        there.setdefault((run["point"], run["round"]), set()).add(run["side"])
    return {point: {number for (place, number), found in there.items() if place == point and found >= sides} for point in record["points"]}


def drop_unfinished_round(record):
    """Servers run through all points of a round and are older at the last one: the rest of a round does not fit to new ones."""
    whole = set.intersection(*whole_rounds(record).values())
    record["runs"] = [run for run in record["runs"] if run["round"] in whole]


def summarize(record, width):
    """For each side, point and metric: how many rounds, their median, its interval, the extremes, and whether the interval is narrow."""
    values, whole = {}, whole_rounds(record)
    for run in record["runs"]:
        if run["round"] not in whole[run["point"]] or run["side"] in record["failures"]:
            continue
        for metric in record["metrics"]:
            if run["figures"].get(metric) is not None:
                values.setdefault((run["side"], run["point"], metric), []).append(run["figures"][metric])
    return [summary(*key, found, width) for key, found in values.items()]


def summary(side, point, metric, found, width):
    row = {"side": side, "point": point, "metric": metric, "rounds": len(found), "median": statistics.median(found)}
    row["low"], row["high"] = interval_of_median(found) or (None, None)
    return row | {"least": min(found), "most": max(found), "narrow": row["low"] is not None and reach(row) <= width * abs(row["median"])}


def reach(row):
    """How far the interval goes from the median, to the side where it goes farther."""
    return max(row["high"] - row["median"], row["median"] - row["low"])


def counted(record):
    """The figures of an experiment's tables: not those of which nothing was counted, as cycles on a machine without counters."""
    return [metric for metric in record["shown"] if any(row["metric"] == metric and row["median"] for row in record["summary"])]


class Cells:
    """The summary of one experiment, by side, point and metric."""

    def __init__(self, experiment):
        self.experiment = experiment
        self.cells = {(row["side"], row["point"], row["metric"]): row for row in experiment["summary"]}
        self.sides, self.points = experiment["sides"], experiment["points"]

    def value(self, side, point, metric, which="median"):
        row = self.cells.get((side, point, metric))
        return row and row[which]

    def best(self, side, point, metric):
        """The best of the rounds: what a noisy machine disturbed least."""
        return self.value(side, point, metric, "least" if self.is_lower_better(metric) else "most")

    def worst(self, side, point, metric):
        return self.value(side, point, metric, "most" if self.is_lower_better(metric) else "least")

    def is_lower_better(self, metric):
        return self.experiment["metrics"][metric]["better"] == "lower"

    def behind(self, point, metric, value, side="vmag"):
        """vmag, or another of ours, against the best peer of the point: its name, and the ratio; above 1: behind. `value`: self.value, self.best or self.worst.

        Infinite where the peer has got by with nothing and vmag has not, 0 the other way round; what is below nothing counts as nothing."""
        if not self.experiment["metrics"][metric]["compared"]:
            return None
        ours = value(side, point, metric)
        lower = self.is_lower_better(metric)
        peers = {peer: found for peer in self.sides if peer not in OURS and (found := value(peer, point, metric)) is not None}
        if ours is None or not peers:
            return None
        best = (min if lower else max)(peers, key=peers.get)
        return best, ratio(ours, peers[best]) if lower else ratio(peers[best], ours)


def ratio(above, below):
    above, below = max(above, 0), max(below, 0)
    return above / below if below else math.inf if above else 1.0
