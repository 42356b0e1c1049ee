"""Results as text: where vmag stands, and the tables of docs/experiments.md between its markers.

SPDX-License-Identifier: BSD-2-Clause
"""

import math
import re

from kit import LEAST, OURS, TOP, TWIN
from kit.figures import geometric_mean
from kit.results import Cells, counted, reach, whole_rounds

PAGE = TOP / "docs/experiments.md"
NAMES = {TWIN: "its twin", LEAST: "next to nothing"}
BEGIN, END = "<!-- figures: written by bench/redo.py --document -->", "<!-- end of figures -->"
THROUGHPUT = {"malloc_test": "per_second", "malloc_free": "per_second", "database": "per_second", "web_server": "per_cpu_second", "lists": "seconds",
              "many_threads": "per_second", "producer_consumer": "ns"}  # of the experiments with threads
# Figures that say what another one beside them says, or nothing that a few rounds could tell: the page has their tables, the document none.
IN_PAGE_ALONE = {"malloc_free": ("cpu_ns",), "malloc_test": ("cpu_ns",), "database": ("cpu_us", "p99_ms"), "web_server": ("per_second",), "lists": ("cpu_seconds",),
                 "many_threads": ("cpu_ns",), "producer_consumer": ("cpu_ns",), "after_peak": ("live",), "start_up": ("wall_ms",), "large_reallocs": ("ns",),
                 "redis_server": ("per_second",)}


def number(value, scale=1.0):
    if value is None:
        return "–"
    value /= scale
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def mean_of(ratios):
    """Of those to a figure that is not nothing; None when there is none."""
    finite = [ratio for ratio in ratios if 0 < ratio < math.inf]
    return geometric_mean(finite) if finite else None


def ratios(everything, name, metric, which, side="vmag"):
    """vmag, or another of ours, against the best peer at each point of an experiment that has been measured; `which` of Cells: best, value, worst."""
    record = everything["experiments"].get(name)
    if not record:
        return {}
    cells = Cells(record)
    found = {point: cells.behind(point, metric, getattr(cells, which), side) for point in record["points"]}
    return {point: ratio for point, behind in found.items() if behind for _, ratio in [behind]}


def of_side(everything, name, metric, which, side):
    """The figure itself, where the bar is not a peer."""
    record = everything["experiments"].get(name)
    if not record:
        return {}
    cells = Cells(record)
    return {point: value for point in cells.points if (value := getattr(cells, which)(side, point, metric)) is not None}


def values_of_bars(everything, side):
    """Of each bar: its text, its limit, and what that side, one of ours, has at each point."""
    time, memory = (ratios(everything, "programs", metric, "best", side) for metric in ("cpu_seconds", "peak_bytes"))
    absent = everything["experiments"].get("programs", {}).get("missing", [])
    without = f" (without {', '.join(absent)})" if absent else ""
    threads = {which: {f"{name}, {point}": ratio for name, metric in THROUGHPUT.items() for point, ratio in ratios(everything, name, metric, which, side).items()}
               for which in ("best", "worst")}
    return [
        (f"each single-threaded program: time / best peer{without}", 1.00, time),
        ("each: peak memory / most frugal peer", 1.05, memory),
        ("geometric mean of them, time", 0.97, {"mean": mean} if (mean := mean_of(time.values())) else {}),
        ("geometric mean, memory", 1.00, {"mean": mean} if (mean := mean_of(memory.values())) else {}),
        ("threads: best peer's throughput / vmag's, best rounds", 1.00, threads["best"]),
        ("threads: best peer's throughput / vmag's, worst rounds", 1.00, threads["worst"]),
        ("fragmentation: resident bytes a live byte / best peer's", 1.00, ratios(everything, "fragmentation", "resident_per_live", "best", side)),
        ("its drift an hour", 0.00, of_side(everything, "fragmentation", "drift_per_hour", "value", side)),
        ("after the peak: resident / (1.10 × live + 4 MiB)", 1.00, of_side(everything, "after_peak", "over_the_bar", "best", side)),
    ]


def cell_of_bar(values, limit):
    """The worst of the values, and how many hold."""
    if not values:
        return "– | –"
    worst = max(values, key=values.get)
    return f"{values[worst]:.2f} ({worst}) | {sum(value <= limit for value in values.values())} of {len(values)}"


def bars(everything):
    """What vmag wants to reach, and what it does; beside it what its twin does, which shows what of that is the machine's, and what an allocator does that does next to nothing."""
    sides = [side for side in OURS if any(side in record["sides"] for record in everything["experiments"].values())]
    rows = []
    for same in zip(*(values_of_bars(everything, side) for side in sides)):
        text, limit, values = same[0]
        if values:
            rows.append(f"| {text} | {limit:.2f} | " + " | ".join(cell_of_bar(values, limit) for _, _, values in same) + " |")
    others = "".join(f" the same of {NAMES[side]} | held |" for side in sides if side != "vmag")
    return [f"| bar | limit | worst | held |{others}", "|---|---|" + "---|---|" * len(sides), *rows] if rows else []


def standing(everything):
    """A row for each figure: vmag against the best peer, in the mean of the points and at the worst of them; furthest behind first."""
    lines = []
    for name, record in everything["experiments"].items():
        cells = Cells(record)
        for metric in counted(record):
            rows = [(point, found) for point in record["points"] if (found := cells.behind(point, metric, cells.best))]
            if rows:
                worst_point, (peer, ratio) = max(rows, key=lambda row: row[1][1])
                mean = mean_of(found[1] for _, found in rows)
                lines.append((ratio, f"| {name}: {record['metrics'][metric]['label']} | {f'{mean:.2f}' if mean else '–'} | {ratio:.2f} ({worst_point}, {peer}) |"))
    lines.sort(reverse=True)
    return ["| figure | mean | worst |", "|---|---|---|", *(text for _, text in lines)]


def versions_line(record):
    return "; ".join(f"{name}: {version}" for name, version in record["versions"].items())


def version_numbers(record):
    """Of what the programs say about themselves no more than the number."""
    numbers = {name: re.search(r"\d+(\.\d+)+\w*", version) for name, version in record["versions"].items()}
    return ", ".join(f"{name} {found[0] if found else record['versions'][name]}" for name, found in numbers.items())


def state_of(record):
    counts = {len(rounds) for rounds in whole_rounds(record).values()} or {0}
    rounds = " to ".join(str(count) for count in sorted({min(counts), max(counts)}))
    said = {"narrow": "narrow", "not narrow": "not narrow", "measured": "not repeated until narrow",
            "skipped": f"skipped: {record['why']}", "failed": f"failed: {record['why']}", "begun": "not finished"}[record["status"]]
    lacks = f"; not there: {', '.join(record['missing'])}" if record["missing"] else ""
    lacks += "".join(f"; without {side}, which failed ({why})" for side, why in record["failures"].items() if record["status"] != "failed")
    return f"{rounds} round{'s' if rounds != '1' else ''}, {said}{lacks}; load {record['load_before']:.1f}, then {record['load_after']:.1f}; {record['date'][:16]} UTC" + \
        ("; quick" if record["quick"] else "")


def table(record, metric):
    """Rows are points, columns are sides; the median of the rounds, ± how many per cent of it its interval reaches where there is one; vmag against the best peer by the best rounds."""
    cells, about = Cells(record), record["metrics"][metric]
    sides = [side for side in cells.sides if any(cells.value(side, point, metric) is not None for point in cells.points)]
    ours = "vmag" in sides
    unit = f", {about['unit']}" if about["unit"] else ""
    spread = ", ± %" if any(plus_or_minus(cells.cells.get((side, point, metric))) for side in sides for point in cells.points) else ""
    lines = [f"**{about['label'][:1].upper() + about['label'][1:]}{unit}** ({about['better']} is better{spread})", "",
             f"| {record['axis']} | " + " | ".join(side.removesuffix("-deb") for side in sides) + (" | by the best peer |" if ours else " |"),
             "|---" * (len(sides) + 1 + ours) + "|"]
    for point in cells.points:
        if not any((side, point, metric) in cells.cells for side in sides):
            continue
        row = [str(point)]
        for side in sides:
            found = cells.cells.get((side, point, metric))
            row.append(number(found and found["median"], about["scale"]) + plus_or_minus(found))
        if ours:
            found = cells.behind(point, metric, cells.best)
            row.append(f"{found[1]:.2f} ({found[0].removesuffix('-deb')})" if found else "–")
        lines.append("| " + " | ".join(row) + " |")
    return lines


def plus_or_minus(found):
    if not found or found["low"] is None or not found["median"]:
        return ""
    return f" ±{reach(found) / abs(found['median']) * 100:.0f}"


def tables(record, metrics):
    """Figures with the same columns are one table: a row says what the rows below it are."""
    lines, head = [], None
    for metric in metrics:
        what, _, found, line, *rows = table(record, metric)
        lines += ([] if found == head else [*[""] * bool(head), found, line]) + [f"| {what} |", *rows]
        head = found
    return lines + [""] * bool(head)


def section(name, record):
    lines = [f"### {record['title']} ({record['paper']})", "", record["about"], "", f"`bench/redo.py --only {name}` — {state_of(record)}.", ""]
    if record["versions"]:
        lines += [version_numbers(record) + ".", ""]
    for picture in record["pictures"].values():
        lines += [f"The picture: `build/bench/experiments/{picture}`, and in the page.", ""]
    return lines + tables(record, [metric for metric in counted(record) if metric not in IN_PAGE_ALONE.get(name, ())])


def machine_line(where):
    return f"{where['cpu']}, {where['cpus']} processors, {where['memory_bytes'] >> 30} GiB, Linux {where['kernel']}, {where['libc']}, huge pages {where['huge_pages']}"


def conditions(everything):
    """The machine and the allocators; where experiments had different ones, which had what."""
    machines, versions, files = {}, {}, {}
    for name, record in everything["experiments"].items():
        if record["runs"]:
            machines.setdefault(machine_line(record["machine"]), []).append(name)
            for side, allocator in record["allocators"].items():
                versions.setdefault(side, {})[allocator["version"]] = True
                files.setdefault(side, {}).setdefault((allocator["sha256"] or "")[:12], []).append(name)
    lines = [f"{line}{': ' + ', '.join(names) if len(machines) > 1 else ''}." for line, names in machines.items()]
    if versions:
        lines.append("Allocators: " + ", ".join(f"{side} {' and '.join(found)}".removesuffix(" this tree") for side, found in versions.items()) + ".")
    return lines + [f"Not all had the same {side}: " + "; ".join(f"{', '.join(names)}: {file}" for file, names in found.items()) + "."
                    for side, found in files.items() if len(found) > 1 and side != TWIN]


def figures(everything):
    lines = [" ".join(conditions(everything)), "", "### The bars", "", *bars(everything), "", "### Where vmag stands", "",
             "By the best rounds, against the best peer: above 1, it is ahead. In the mean of the points, and at the worst of them.", ""]
    lines += [*standing(everything), ""]
    for name, record in everything["experiments"].items():
        lines += section(name, record)
    return lines


def write(everything):
    text = PAGE.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(figures(everything)).rstrip() + "\n\n" + END + after)
