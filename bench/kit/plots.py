"""Plots in the papers' form, SVG and PNG: lines by threads with whiskers, scaled bars, memory over time.

SPDX-License-Identifier: BSD-2-Clause
"""

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "vmag", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True, "figure.constrained_layout.use": True})

import matplotlib.pyplot as pyplot  # noqa: E402

from kit.results import Cells, counted  # noqa: E402

COLOURS = {"vmag": "#0b6e4f", "glibc": "#555555", "jemalloc": "#c0392b", "mimalloc3": "#2f6fb5", "mimalloc2": "#7fb0e0", "snmalloc": "#8a4fbf",
           "rpmalloc": "#111111", "tcmalloc-deb": "#d68910", "tbb-deb": "#16a085", "linked": "#c0392b"}
OTHERS = ("#0b6e4f", "#c0392b", "#2f6fb5", "#8a4fbf", "#d68910", "#555555")


def colour(record, side):
    return COLOURS.get(side) or OTHERS[record["sides"].index(side) % len(OTHERS)]


def label(about):
    return f"{about['label']}, {about['unit']}" if about["unit"] else about["label"]


def lines(record, axes, metric, cpus):
    """Median by the axis, whiskers to the extremes; grey where there are more threads than processors."""
    cells, about = Cells(record), record["metrics"][metric]
    for side in cells.sides:
        rows = [cells.cells[side, point, metric] for point in cells.points if (side, point, metric) in cells.cells]
        if not rows:
            continue
        x, y = [row["point"] for row in rows], [row["median"] / about["scale"] for row in rows]
        reach = [[(row["median"] - row["least"]) / about["scale"] for row in rows], [(row["most"] - row["median"]) / about["scale"] for row in rows]]
        axes.errorbar(x, y, yerr=reach, label=side.removesuffix("-deb"), color=colour(record, side), marker="o", markersize=3, capsize=2,
                      linewidth=2 if side == "vmag" else 1)
    axes.set_xscale("log", base=2)
    axes.set_xticks(cells.points, [f"{point:,}" for point in cells.points], rotation=45 if max(cells.points) > 10000 else 0)
    axes.minorticks_off()
    if record["axis"] in ("threads", "clients") and max(cells.points) > cpus:
        axes.axvspan(cpus * 2 ** 0.05, max(cells.points) * 2 ** 0.3, color="#888888", alpha=0.12, linewidth=0)
        axes.text(0.99, 0.02, f"more {record['axis']} than processors", transform=axes.transAxes, ha="right", fontsize=7, color="#666666")
    if about["better"] == "lower" and any(row["median"] for row in record["summary"]):
        values = [row["median"] for row in record["summary"] if row["metric"] == metric and row["median"] > 0]
        if values and max(values) > 30 * min(values):
            axes.set_yscale("log")
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0)
    axes.set(xlabel=record["axis"], ylabel=label(about))


def bars(record, axes, metric, _cpus):
    """Each point scaled so that its largest is 1, as in 2006, Figure 8."""
    cells = Cells(record)
    width, top = 0.8 / len(cells.sides), 1.25
    for at, side in enumerate(cells.sides):
        for place, point in enumerate(cells.points):
            found = cells.cells.get((side, point, metric))
            most = max((cells.value(other, point, metric) or 0 for other in cells.sides), default=0)
            if not found or not most:
                continue
            reach = [[max(found["median"] - found["least"], 0) / most], [max(found["most"] - found["median"], 0) / most]]
            top = max(top, 1.05 * found["most"] / most)
            axes.bar(place - 0.4 + width * (at + 0.5), found["median"] / most, width, yerr=reach, color=colour(record, side), capsize=1, error_kw={"linewidth": 0.6},
                     label=side.removesuffix("-deb") if place == 0 else None)
    axes.set_xticks(range(len(cells.points)), cells.points, rotation=30 if max(len(str(point)) for point in cells.points) > 8 else 0)
    axes.set(ylabel=f"{label(record['metrics'][metric])} (scaled)", ylim=(0, top))
    axes.grid(axis="x", visible=False)


def series(record, axes, point, _cpus):
    """Resident memory as time passes, in the first round; what is live is dashed."""
    shown_live = False
    for run in record["runs"]:
        if run["round"] != 1 or run["point"] != point or "series" not in run:
            continue
        x = [row["seconds"] for row in run["series"]]
        axes.plot(x, [row["resident_bytes"] / (1 << 20) for row in run["series"]], label=run["side"].removesuffix("-deb"), color=colour(record, run["side"]),
                  linewidth=2 if run["side"] == "vmag" else 1)
        if not shown_live:
            axes.plot(x, [row["live_bytes"] / (1 << 20) for row in run["series"]], label="live", color="black", linestyle="--", linewidth=1)
            shown_live = True
    axes.set(xlabel="seconds", ylabel="MiB resident", title=f"{point} {record['axis']}")
    axes.set_ylim(bottom=0)


def draw(record, cpus):
    """A figure with a panel for each metric that is shown, or each point of a series; None when there is nothing to draw."""
    if not record["summary"] or record["plot"] == "picture":
        return None
    panels = record["points"] if record["plot"] == "series" else counted(record)
    if not panels:
        return None
    figure, places = pyplot.subplots(1, len(panels), figsize=(5.2 * len(panels), 3.8), squeeze=False)
    for axes, panel in zip(places[0], panels):
        {"lines": lines, "bars": bars, "series": series}[record["plot"]](record, axes, panel, cpus)
    handles, labels = places[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0), ncol=min(len(labels), 10), frameon=False)
    figure.suptitle(f"{record['title']} ({record['paper']})")
    return figure


def draw_all(everything, folder):
    """NAME.svg and NAME.png for each experiment."""
    for name, record in everything["experiments"].items():
        figure = draw(record, record["machine"]["cpus"])
        if figure:
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
            figure.savefig(folder / f"{name}.png", dpi=110, bbox_inches="tight")
            pyplot.close(figure)
