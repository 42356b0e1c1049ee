"""Results as text: where vmag stands, and the tables of docs/experiments.md between its markers.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit import TOP
from kit.figures import geometric_mean
from kit.results import Cells

PAGE = TOP / "docs/experiments.md"
BEGIN, END = "<!-- figures: written by bench/redo.py --document -->", "<!-- end of figures -->"
SINGLE = ("programs", "cpu_seconds", "peak_bytes")  # the bars of 2006, Figure 8


def number(value, scale=1.0):
    if value is None:
        return "–"
    value /= scale
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def standing(everything):
    """A line for each figure in which vmag is behind the best peer at some point, worst first; and the bars of single-threaded programs."""
    lines = []
    for name, record in everything["experiments"].items():
        cells = Cells(record)
        for metric in record["shown"]:
            rows = [(point, found) for point in record["points"] if (found := cells.behind(point, metric, cells.best))]
            if rows:
                worst_point, (peer, ratio) = max(rows, key=lambda row: row[1][1])
                mean = geometric_mean([max(found[1], 1e-9) for _, found in rows])
                lines.append((ratio, f"{name}: {record['metrics'][metric]['label']}: {mean:.2f} of the best peer in the mean, at worst {ratio:.2f} ({worst_point}, {peer})"))
    lines.sort(reverse=True)
    return [text for _, text in lines]


def versions_line(record):
    return "; ".join(f"{name}: {version}" for name, version in record["versions"].items())


def state_of(record):
    rounds = max((run["round"] for run in record["runs"]), default=0)
    said = {"narrow": "all intervals of the first figure are narrow", "not narrow": "not all intervals are narrow", "measured": "not repeated until narrow",
            "skipped": f"skipped: {record['why']}", "failed": f"failed: {record['why']}", "begun": "not finished"}[record["status"]]
    return f"{rounds} round{'s' if rounds != 1 else ''}, {said}; load {record['load_before']:.1f} before, {record['load_after']:.1f} after; {record['date'][:16]} UTC" + \
        ("; quick" if record["quick"] else "")


def table(record, metric):
    """Rows are points, columns are sides; the median of the rounds, ± half of its interval where there is one; vmag against the best peer by the best rounds and medians."""
    cells, about = Cells(record), record["metrics"][metric]
    sides = [side for side in cells.sides if any(cells.value(side, point, metric) is not None for point in cells.points)]
    ours = "vmag" in sides
    unit = f", {about['unit']}" if about["unit"] else ""
    lines = [f"**{about['label'][:1].upper() + about['label'][1:]}{unit}** ({about['better']} is better)", "",
             f"| {record['axis']} | " + " | ".join(side.removesuffix("-deb") for side in sides) + (" | vmag behind, best rounds | medians |" if ours else " |"),
             "|---" * (len(sides) + 1 + 2 * ours) + "|"]
    for point in cells.points:
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
    for metric in record["shown"]:
        if any(row["metric"] == metric for row in record["summary"]):
            lines += table(record, metric) + [""]
    return lines


def figures(everything):
    where = everything["machine"]
    versions = ", ".join(f"{name} {allocator['version']}".removesuffix(" this tree") for name, allocator in everything["allocators"].items())
    lines = [f"{where['cpu']}, {where['cpus']} processors, {where['memory_bytes'] >> 30} GiB, Linux {where['kernel']}, {where['libc']}, huge pages {where['huge_pages']}. "
             f"Allocators: {versions}.", "", "### Where vmag stands", "",
             "By the best rounds: above 1, the best peer of the point is ahead.", ""]
    lines += [f"- {text}" for text in standing(everything)] + [""]
    for name, record in everything["experiments"].items():
        lines += section(name, record)
    return lines


def write(everything):
    text = PAGE.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(figures(everything)).rstrip() + "\n\n" + END + after)
