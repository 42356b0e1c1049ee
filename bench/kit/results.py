"""Results of experiments: one JSON file, checked against bench/kit/experiments.schema.json, written anew after each round.

SPDX-License-Identifier: BSD-2-Clause
"""

import json
import os
import pathlib
import statistics

from kit import TWIN
from kit.figures import interval_of_median

FORMAT = "vmag-experiments/1"
SCHEMA = pathlib.Path(__file__).with_name("experiments.schema.json")


def load(path):
    try:
        found = json.loads(pathlib.Path(path).read_text())
    except (OSError, json.JSONDecodeError):
        return None
    return found if found.get("format") == FORMAT else None


def save(results, path):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(results, indent=1) + "\n")
    os.replace(new, path)


def check(results):
    """Raises jsonschema's error when the results are not as the schema says."""
    import jsonschema
    jsonschema.validate(results, json.loads(SCHEMA.read_text()))


def summarize(runs, metrics, width):
    """For each side, point and metric: how many rounds, their median, its interval, the extremes, and whether the interval is narrow."""
    values = {}
    for run in runs:
        for metric in metrics:
            if run["figures"].get(metric) is not None:
                values.setdefault((run["side"], run["point"], metric), []).append(run["figures"][metric])
    return [summary(*key, found, width) for key, found in values.items()]


def summary(side, point, metric, found, width):
    median = statistics.median(found)
    low, high = interval_of_median(found)
    narrow = len(found) > 2 and (high - low) / 2 <= width * abs(median)
    return {"side": side, "point": point, "metric": metric, "rounds": len(found), "median": median, "low": low, "high": high,
            "least": min(found), "most": max(found), "narrow": narrow}


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
        """vmag, or its twin, against the best peer of the point: its name, and the ratio; above 1: behind. `value`: self.value, self.best or self.worst."""
        if not self.experiment["metrics"][metric]["compared"]:
            return None
        ours = value(side, point, metric)
        lower = self.is_lower_better(metric)
        peers = {peer: found for peer in self.sides if peer not in ("vmag", TWIN) and (found := value(peer, point, metric))}
        if not ours or not peers:
            return None
        best = (min if lower else max)(peers, key=peers.get)
        return best, ours / peers[best] if lower else peers[best] / ours
