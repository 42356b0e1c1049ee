# What bench/ says about numbers: intervals, who is behind whom, what is narrow.
# SPDX-License-Identifier: BSD-2-Clause
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

from kit import document, results  # noqa: E402
from kit.figures import geometric_mean, interval_of_median  # noqa: E402

METRICS = {"ns": {"label": "time", "unit": "ns", "better": "lower", "scale": 1.0, "compared": True}, "rate": {"label": "rate", "unit": "", "better": "higher", "scale": 1.0, "compared": True}}


def run(side, round_number, ns):
    return {"side": side, "point": "a", "round": round_number, "figures": {"ns": ns, "rate": 1000 / ns}}


assert abs(geometric_mean([1, 100]) - 10) < 1e-9
assert interval_of_median([7.0]) == (7.0, 7.0)
low, high = interval_of_median([10, 10.1, 9.9, 10, 10.05, 9.95, 10])
assert 9.9 <= low <= 10 <= high <= 10.1
wide = interval_of_median([5, 20, 10, 40, 7])
assert wide[0] < 10 < wide[1]

runs = [run("vmag", i, 10 + i / 100) for i in range(1, 6)] + [run("glibc", i, 20 + 10 * (i % 2)) for i in range(1, 6)]
runs += [run("other", 1, 8.0), run("other", 2, 16.0), run("other", 3, 16.0)]
summary = results.summarize(runs, METRICS, 0.02)
rows = {(row["side"], row["metric"]): row for row in summary}
assert rows["vmag", "ns"]["narrow"] and not rows["glibc", "ns"]["narrow"]
assert rows["glibc", "ns"]["median"] == 30 and rows["glibc", "ns"]["least"] == 20

record = {"summary": summary, "metrics": METRICS, "sides": ["vmag", "glibc", "other"], "points": ["a"], "shown": ["ns", "rate"], "axis": "kind", "runs": runs}
cells = results.Cells(record)
peer, ratio = cells.behind("a", "ns", cells.best)
assert peer == "other" and 1.25 < ratio < 1.27, (peer, ratio)
peer, ratio = cells.behind("a", "ns", cells.value)
assert peer == "other" and 0.62 < ratio < 0.63, (peer, ratio)
peer, ratio = cells.behind("a", "rate", cells.best)
assert peer == "other" and 1.25 < ratio < 1.27, (peer, ratio)

standing = document.standing({"experiments": {"x": record}})
assert len(standing) == 4 and all("| 1.25 (" in line or "| 1.26 (" in line for line in standing[2:]), standing
table = document.table(record, "ns")
assert len({line.count("|") for line in table[2:]}) == 1 and "±" in table[-1], table

# A twin is nobody's peer, and has a column of its own beside the bars.
runs += [run("twin", i, 4 + i / 100) for i in range(1, 6)]
shown = {"cpu_seconds": "ns", "peak_bytes": "ns"}
rows = [dict(row, metric=metric) for row in results.summarize(runs, METRICS, 0.02) if row["metric"] == "ns" for metric in shown]
record = record | {"summary": rows, "metrics": {metric: METRICS["ns"] for metric in shown}, "shown": list(shown), "sides": [*record["sides"], "twin"]}
assert results.Cells(record).behind("a", "cpu_seconds", results.Cells(record).best)[0] == "other"
bars = document.bars({"experiments": {"programs": record}})
assert "1.25 (a) | 0 of 1 | 0.50 (a) | 1 of 1 |" in bars[2], bars
del record["sides"][-1]
assert "twin" not in "".join(document.bars({"experiments": {"programs": record}}))
