#!/usr/bin/env python3
"""Compares a command with `vmag compare`, checks who ran, the JSON against the schema, and the intervals against scipy.

usage: compare.py TOOL LIBRARY SCHEMA. Without the tool it is skipped; without jsonschema or scipy only that part is.
SPDX-License-Identifier: BSD-2-Clause
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
ROUNDS = 8
# A loop of mallocs with a size that the allocators do not round alike.
PROGRAM = "import sys; sys.exit(len([bytes(600) for i in range(20000)]) - 20000)"


def compare(tool, library, folder):
    file = folder / "compare.json"
    command = [tool, "compare", "--lib", library, "--rounds", str(ROUNDS), f"--json={file}", "--html", folder / "compare.html",
               "--", sys.executable, "-c", PROGRAM]
    environment = os.environ | {"PYTHONMALLOC": "malloc"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text()), done.stderr


def check_who_ran(result, library):
    sides = {side["name"]: side for side in result["allocators"]}
    assert sides["vmag"]["malloc_from"] == os.path.realpath(library), sides["vmag"]
    assert "/libc.so" in sides["glibc"]["malloc_from"], sides["glibc"]
    for name, side in sides.items():
        assert side["library"] in (None, side["malloc_from"]), side
        assert side["runs_seen_mapped"] <= side["runs_looked_at"] <= ROUNDS, side
        assert len(side["figures"]["wall_seconds"]["all"]) == ROUNDS, name
    return list(sides)


def check_schema(result, schema):
    try:
        import jsonschema
    except ImportError:
        return print("jsonschema is not installed: the JSON was not checked against its schema")
    jsonschema.validate(result, json.loads(schema.read_text()))
    return print("the JSON is as its schema says")


def check_intervals(result):
    """scipy's paired percentile bootstrap at the same levels, from the rounds that the JSON holds."""
    try:
        import numpy
        from scipy import stats
    except ImportError:
        return print("scipy is not installed: the intervals were not recomputed (a known vector of it is in the tool's tests)")
    tail = stats.norm.cdf(-((ROUNDS / (ROUNDS - 1)) ** 0.5) * stats.t.ppf(0.975, ROUNDS - 1))

    def ratio(values, base, axis=-1):
        return numpy.exp(stats.trim_mean(numpy.log(values / base), 0.2, axis=axis))

    def interval(pair, tail):
        return stats.bootstrap(pair, ratio, paired=True, vectorized=True, method="percentile", n_resamples=50_000,
                               confidence_level=1 - 2 * tail).confidence_interval

    base = result["allocators"][0]["figures"]
    for side in result["allocators"][1:]:
        for key in ("wall_seconds", "minor_faults"):
            ours = side["figures"][key]["ratio"]
            pair = numpy.array(side["figures"][key]["all"]), numpy.array(base[key]["all"])
            # Both draw at random, and what is resampled of eight rounds may lie in lumps: between two levels, not within some distance.
            narrow, wide = interval(pair, 2 * tail), interval(pair, tail / 2)
            most = 0.01 * (wide.high - wide.low) + 1e-9
            assert abs(ours["mean"] - ratio(*pair)) < 1e-9, (side["name"], key)
            assert wide.low - most < ours["low"] < narrow.low + most, (side["name"], key, ours, narrow, wide)
            assert narrow.high - most < ours["high"] < wide.high + most, (side["name"], key, ours, narrow, wide)
    return print("scipy has the same intervals")


def main():
    tool, library, schema = (pathlib.Path(word) for word in sys.argv[1:])
    if not tool.exists():
        print("the vmag command is not built (tool/build.sh)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        result, text = compare(tool, library, pathlib.Path(folder))
        page = (pathlib.Path(folder) / "compare.html").read_text()
    names = check_who_ran(result, library)
    assert all(f"ran: {name}" in text and f">{name}</text>" in page for name in names), text
    print("compared:", ", ".join(names))
    check_schema(result, schema)
    check_intervals(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
