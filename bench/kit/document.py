"""Results as text: where vmag stands, and the tables of docs/experiments.md between its markers.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit import TOP, TWIN
from kit.figures import geometric_mean
from kit.results import Cells, counted

PAGE = TOP / "docs/experiments.md"
BEGIN, END = "<!-- figures: written by bench/redo.py --document -->", "<!-- end of figures -->"
THROUGHPUT = {"malloc_test": "per_second", "malloc_free": "per_second", "database": "per_second", "web_server": "per_cpu_second", "lists": "seconds",
              "many_threads": "per_second", "producer_consumer": "ns"}  # of the experiments with threads


def number(value, scale=1.0):
    if value is None:
        return "–"
    value /= scale
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ratios(everything, name, metric, which, side="vmag"):
    """vmag, or its twin, against the best peer at each point of an experiment that has been measured; `which` of Cells: best, value, worst."""
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
    """Of each bar: its text, its limit, and what that side, vmag or its twin, has at each point."""
    time, memory = (ratios(everything, "programs", metric, "best", side) for metric in ("cpu_seconds", "peak_bytes"))
    threads = {which: {f"{name}, {point}": ratio for name, metric in THROUGHPUT.items() for point, ratio in ratios(everything, name, metric, which, side).items()}
               for which in ("best", "worst")}
    return [
        ("each single-threaded program: time / best peer", 1.00, time),
        ("each: peak memory / most frugal peer", 1.05, memory),
        ("geometric mean of them, time", 0.97, {"mean": geometric_mean(time.values())} if time else {}),
        ("geometric mean, memory", 1.00, {"mean": geometric_mean(memory.values())} if memory else {}),
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
    """What vmag wants to reach, and what it does; what its twin does beside it shows what of that is the machine's."""
    sides = [side for side in ("vmag", TWIN) if any(side in record["sides"] for record in everything["experiments"].values())]
    rows = []
    for same in zip(*(values_of_bars(everything, side) for side in sides)):
        text, limit, values = same[0]
        if values:
            rows.append(f"| {text} | {limit:.2f} | " + " | ".join(cell_of_bar(values, limit) for _, _, values in same) + " |")
    twin = " the same of its twin | held |" if TWIN in sides else ""
    return [f"| bar | limit | worst | held |{twin}", "|---|---|---|---|" + "---|---|" * bool(twin), *rows] if rows else []


def standing(everything):
    """A row for each figure: vmag against the best peer, in the mean of the points and at the worst of them; furthest behind first."""
    lines = []
    for name, record in everything["experiments"].items():
        cells = Cells(record)
        for metric in record["shown"]:
            rows = [(point, found) for point in record["points"] if (found := cells.behind(point, metric, cells.best))]
            if rows:
                worst_point, (peer, ratio) = max(rows, key=lambda row: row[1][1])
                mean = geometric_mean([max(found[1], 1e-9) for _, found in rows])
                lines.append((ratio, f"| {name}: {record['metrics'][metric]['label']} | {mean:.2f} | {ratio:.2f} ({worst_point}, {peer}) |"))
    lines.sort(reverse=True)
    return ["| figure | mean | worst |", "|---|---|---|", *(text for _, text in lines)]


def versions_line(record):
    return "; ".join(f"{name}: {version}" for name, version in record["versions"].items())


def state_of(record):
    rounds = max((run["round"] for run in record["runs"]), default=0)
    said = {"narrow": "all intervals of the first figure are narrow", "not narrow": "not all intervals are narrow", "measured": "not repeated until narrow",
            "skipped": f"skipped: {record['why']}", "failed": f"failed: {record['why']}", "begun": "not finished"}[record["status"]]
    return f"{rounds} round{'s' if rounds != 1 else ''}, {said}; load {record['load_before']:.1f} before, {record['load_after']:.1f} after; {record['date'][:16]} UTC" + \
        ("; quick" if record["quick"] else "")


def table(record, metric):
    """Rows are points, columns are sides; the median of the rounds, ± half of its interval where there is one; vmag against the best peer by the best rounds and by medians."""
    cells, about = Cells(record), record["metrics"][metric]
    sides = [side for side in cells.sides if any(cells.value(side, point, metric) is not None for point in cells.points)]
    ours = "vmag" in sides
    unit = f", {about['unit']}" if about["unit"] else ""
    lines = [f"**{about['label'][:1].upper() + about['label'][1:]}{unit}** ({about['better']} is better)", "",
             f"| {record['axis']} | " + " | ".join(side.removesuffix("-deb") for side in sides) + (" | vmag against the best peer: best rounds | medians |" if ours else " |"),
             "|---" * (len(sides) + 1 + 2 * ours) + "|"]
    for point in cells.points:
        if not any((side, point, metric) in cells.cells for side in sides):
            continue
        row = [str(point)]
        for side in sides:
            found = cells.cells.get((side, point, metric))
            row.append(number(found and found["median"], about["scale"]) + half_width(found))
        for value in (cells.best, cells.value) if ours else ():
            found = cells.behind(point, metric, value)
            row.append(f"{found[1]:.2f} ({found[0].removesuffix('-deb')})" if found else "–")
        lines.append("| " + " | ".join(row) + " |")
    return lines


def half_width(found):
    if not found or found["rounds"] < 3 or not found["median"]:
        return ""
    return f" ±{(found['high'] - found['low']) / 2 / abs(found['median']) * 100:.0f} %"


def section(name, record):
    lines = [f"### {record['title']} ({record['paper']})", "", record["about"], "", f"`bench/redo.py --only {name}` — {state_of(record)}.", ""]
    if record["versions"]:
        lines += [versions_line(record) + ".", ""]
    for picture in record["pictures"].values():
        lines += [f"The picture: `build/bench/experiments/{picture}`, and in the page.", ""]
    for metric in counted(record):
        lines += table(record, metric) + [""]
    return lines


def figures(everything):
    where = everything["machine"]
    versions = ", ".join(f"{name} {allocator['version']}".removesuffix(" this tree") for name, allocator in everything["allocators"].items())
    lines = [f"{where['cpu']}, {where['cpus']} processors, {where['memory_bytes'] >> 30} GiB, Linux {where['kernel']}, {where['libc']}, huge pages {where['huge_pages']}. "
             f"Allocators: {versions}.", "", "### The bars", "", *bars(everything), "", "### Where vmag stands", "",
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
