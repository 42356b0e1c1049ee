# What bench/ says about numbers: intervals, who is behind whom, what is narrow.
# SPDX-License-Identifier: BSD-2-Clause
import math
import os
import pathlib
import random
import sys
import tempfile
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

import fronts  # noqa: E402
import run as run_py  # noqa: E402
from kit import document, machine, process, results  # noqa: E402
from kit.figures import geometric_mean, interval_of_median  # noqa: E402

METRICS = {"ns": {"label": "time", "unit": "ns", "better": "lower", "scale": 1.0, "compared": True}, "rate": {"label": "rate", "unit": "", "better": "higher", "scale": 1.0, "compared": True}}


def run(side, round_number, ns):
    return {"side": side, "point": "a", "round": round_number, "figures": {"ns": ns, "rate": 1000 / ns}}


assert abs(geometric_mean([1, 100]) - 10) < 1e-9
# 95 %: five values cannot say it, and of more the interval has the true median as often as it says.
assert interval_of_median([7.0]) is None and interval_of_median([5, 20, 10, 40, 7]) is None
assert interval_of_median([3, 1, 2, 6, 5, 4]) == (1, 6) and interval_of_median(range(1, 10)) == (2, 8)
source = random.Random(1)
for count in (6, 9, 20):
    intervals = [interval_of_median([source.expovariate(1) for _ in range(count)]) for _ in range(2000)]
    assert sum(low <= math.log(2) <= high for low, high in intervals) / len(intervals) > 0.94, count

runs = [run("vmag", i, 10 + i / 100) for i in range(1, 8)] + [run("glibc", i, 20 + 10 * (i % 2)) for i in range(1, 8)]
runs += [run("other", 1, 8.0), *(run("other", i, 16.0) for i in range(2, 8))]
record = {"metrics": METRICS, "sides": ["vmag", "glibc", "other"], "points": ["a"], "shown": ["ns", "rate"], "axis": "kind", "runs": runs, "failures": {}, "missing": []}
record["summary"] = summary = results.summarize(record, 0.02)
rows = {(row["side"], row["metric"]): row for row in summary}
assert rows["vmag", "ns"]["narrow"] and not rows["glibc", "ns"]["narrow"]
assert rows["glibc", "ns"]["median"] == 30 and rows["glibc", "ns"]["least"] == 20

# Narrow is by where the interval goes farthest, not by half of its length.
assert not results.summary("vmag", "a", "ns", [10, 10, 10, 10, 10, 10.3], 0.02)["narrow"]
assert results.summary("vmag", "a", "ns", [10, 10, 10, 10, 10, 10.2], 0.02)["narrow"]
assert not results.summary("vmag", "a", "ns", [10, 10, 10], 0.02)["narrow"]

# A round that was cut counts for nobody; a side that has failed takes no part and cuts no round.
cut = record | {"runs": [*runs, run("vmag", 8, 1.0), run("broken", 1, 0.1)], "sides": [*record["sides"], "broken"], "failures": {"broken": "crashed"}}
assert results.summarize(cut, 0.02) == summary
assert results.whole_rounds(cut) == {"a": set(range(1, 8))}

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
both = document.tables(record, ["ns", "ns"])
assert both == [table[2], table[3], f"| {table[0]} |", *table[4:], f"| {table[0]} |", *table[4:], ""], both

# A twin is nobody's peer, and has a column of its own beside the bars; so has what does next to nothing.
runs += [run("twin", i, 4 + i / 100) for i in range(1, 8)] + [run("least", i, 2 + i / 100) for i in range(1, 8)]
record["sides"] += ["twin", "least"]
shown = {"cpu_seconds": "ns", "peak_bytes": "ns"}
rows = [dict(row, metric=metric) for row in results.summarize(record, 0.02) if row["metric"] == "ns" for metric in shown]
record = record | {"summary": rows, "metrics": {metric: METRICS["ns"] for metric in shown}, "shown": list(shown)}
assert results.Cells(record).behind("a", "cpu_seconds", results.Cells(record).best)[0] == "other"
bars = document.bars({"experiments": {"programs": record}})
assert "1.25 (a) | 0 of 1 | 0.50 (a) | 1 of 1 | 0.25 (a) | 1 of 1 |" in bars[2], bars
assert bars[0].endswith("| the same of its twin | held | the same of next to nothing | held |"), bars
del record["sides"][-2:]
assert "twin" not in "".join(document.bars({"experiments": {"programs": record}}))

# A peer that gets by with nothing is the best there is, and a ratio to nothing spoils no mean.
def resident(**sides):
    metrics = {"resident": METRICS["ns"]}
    runs = [{"side": side, "point": point, "round": 1, "figures": {"resident": value}} for side, values in sides.items() for point, value in enumerate(values)]
    none = {"metrics": metrics, "sides": list(sides), "points": [0, 1], "shown": ["resident"], "axis": "kind", "runs": runs, "failures": {}}
    return none | {"summary": results.summarize(none, 0.02)}


record = resident(vmag=(5, 2), none=(0, 1), glibc=(4, 4))
cells = results.Cells(record)
assert cells.behind(0, "resident", cells.best) == ("none", math.inf) and cells.behind(1, "resident", cells.best) == ("none", 2)
assert document.standing({"experiments": {"x": record}})[2] == "| x: time | 2.00 | inf (0, none) |"
both = results.Cells(resident(vmag=(0, 0), none=(0, 1)))
assert both.behind(0, "resident", both.best) == ("none", 1) and both.behind(1, "resident", both.best) == ("none", 0)

# run.py: a side that failed once in a pattern has no time there, in no table and mean; that its settling failed says nothing of its time.
def entry(ns, **failed):
    return {"runs": [{"ns_per_operation": ns}], "settled": None, "failed": failed}


told = {"a": {"vmag": entry(10.0), "glibc": entry(12.0), "peer": entry(1.0, timed="crashed")}, "b": {"vmag": entry(10.0), "glibc": entry(3.0, settled="crashed"), "peer": entry(5.0)}}
table = run_py.Table("", dict.fromkeys(("vmag", "glibc", "peer")), lambda entry: run_py.least(entry, "ns_per_operation"))
assert table.row("a", told["a"]).split() == ["a", "10.00", "12.00", "FAILED", "glibc", "0.83"]
assert table.row("b", told["b"]).split() == ["b", "10.00", "3.00", "5.00", "glibc", "3.33"]
means, count, without = run_py.common_mean(told, ("vmag", "glibc", "peer"), ("a", "b"), table.number)
assert count == 2 and abs(means["glibc"] - 6) < 1e-9 and "peer" not in means and "peer" in without
assert run_py.failures(told) == ["a with peer (timed): crashed", "b with glibc (settled): crashed"]

# Its runs may settle for as long as they are asked to, and nobody's options reach them.
with mock.patch.object(run_py.subprocess, "Popen"), mock.patch.dict(os.environ, {"VMAG_CONF": "front:cpu"}):
    assert run_py.Run("x", {"library": None}, {"pattern": "keep64", "threads": 1}, 1, 300).limit_seconds > 400
    assert "VMAG_CONF" not in process.environment(None)

# fronts.py: what was not counted is not 1, and takes nobody's place.
assert fronts.counts_of("<not supported>,,cycles:u,0,100.00,,\n123,,instructions:u,0,100.00,,\n") == {"instructions": 123}
assert fronts.ratio(None, None) is None and fronts.ratio(4, 2) == 0.5 and fronts.written(None, "5.2f") == "    –"

# Memory groups: the least room of those that have a limit, of both kinds.
with tempfile.TemporaryDirectory() as name:
    tree = pathlib.Path(name)
    for path, text in {"a/b/memory.max": "max", "a/b/memory.current": "5", "a/memory.max": "1000", "a/memory.current": "400", "a/memory.stat": "anon 1\ninactive_file 100\n",
                       "memory/c/memory.limit_in_bytes": "70", "memory/c/memory.usage_in_bytes": "80"}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text + "\n")
    (tree / "groups").write_text("4:cpu:/x\n3:memory,hugetlb:/c\n0::/a/b\n")
    assert list(machine.group_rooms(tree, tree / "groups")) == [0, 700]
