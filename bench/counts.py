#!/usr/bin/env python3
"""Counts atomic operations, locks, exchanges of magazines and moved cache lines per million operations.

Builds vmag with counters (cmake -DVMAG_COUNT=ON, src/os/count.h) in build/count, runs patterns of the bench program on it
and prints a table; all counts go beside it as JSON. Counts are exact but for the background thread's share, so a
busy machine does not disturb them; contentions and waits depend on how threads meet.

SPDX-License-Identifier: BSD-2-Clause
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

from kit import OUT, TOP

BENCH = OUT / "bench"
MILLION = 1_000_000
KINDS = ("malloc", "free", "free_foreign", "other")

# What is counted, and the bars: read-modify-writes per operation of patterns that stay within the front, and per magazine of
# objects that go home to another arena.
HOT = ("pair16", "pair64", "pair1000", "pair20k", "lifo100", "fifo100", "rnd100", "pair64x2")
FOREIGN = ("prodcons", "xmalloc2", "xmalloc8", "swap8")  # swap8's objects are of many arenas; what is not used again goes home sorted
OTHERS = ("rnd1k", "rnd100k", "repl1k", "repl100k", "repl1kx2", "many8", "server2")
HOT_MOST = 1e-5  # per operation: none, but for the growth of a magazine that the warm-up did not see
FOREIGN_MOST = 2  # per magazine
ROUNDS = 90  # of a magazine that goes home: the mean over sizes from 16 to 512 bytes, the first ones being smaller
TIDY = 256  # per thread at the beginning and in each second: an outbound magazine a class is made, and twice a second they go

EXAMPLES = """examples:
  bench/counts.py                      all patterns, about a minute
  bench/counts.py --check              the bars only: exit status 1 if one is broken
  bench/counts.py --patterns prodcons,many8 --scale 2
"""


def build(folder):
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    generator = [] if (folder / "CMakeCache.txt").exists() else ["-G", "Ninja"] if shutil.which("ninja") else []
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    subprocess.run(["cmake", "-S", TOP, "-B", folder, "-DVMAG_COUNT=ON", "-DVMAG_TESTS=OFF", *generator, *launcher], **quiet)
    subprocess.run(["cmake", "--build", folder, "-j2", "--target", "vmag"], **quiet)
    subprocess.run([TOP / "bench/build.sh"], **quiet)
    return folder / "lib/libvmag.so"


def rank_names():
    text = (TOP / "src/os/mutex.h").read_text()
    return [name.lower() for name in re.findall(r"^\tRANK_(\w+),", text, re.M)]


def run(library, pattern, scale, options="", threads=None, before=()):
    environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(library), "VMAG_CONF": options}
    command = [*before, BENCH, pattern, "--scale", str(scale)] + (["--threads", str(threads)] if threads else [])
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"counts: {pattern} failed: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    ranks = rank_names()
    for kind in KINDS if "counts" in result else ():
        cells = result["counts"][kind]
        for name in ("locks", "waits"):
            cells[name] = {ranks[i]: count for i, count in enumerate(cells[name]) if count > 0}
    return result


def total(result, cell, kinds=KINDS):
    """Of all kinds of operations; of locks and waits over all ranks."""
    values = [result["counts"][kind][cell] for kind in kinds]
    return sum(sum(value.values()) if isinstance(value, dict) else value for value in values)


def sent_home(result):
    """Read-modify-writes of a free of what another thread allocated, without what the beginning and time bring about. Each operation is one such free:
    of another arena's object, or of the arena that all threads share (0044), whose magazines go to its depot."""
    by_time = TIDY * result["threads"] * (1 + result["wall_ns"] / 1e9)
    return (total(result, "atomics", ("free", "free_foreign")) - by_time) / result["operations"]


def broken_bars(results):
    for pattern, result in results.items():
        atomics = total(result, "atomics", ("malloc", "free", "free_foreign"))
        if pattern in HOT and atomics > HOT_MOST * result["operations"]:
            yield f"{pattern}: {atomics} read-modify-writes in {result['operations']} operations"
        if pattern in FOREIGN and sent_home(result) > FOREIGN_MOST / ROUNDS:
            yield f"{pattern}: {sent_home(result):.4f} read-modify-writes for each object that another thread allocated, {FOREIGN_MOST} in {ROUNDS} are allowed"


COLUMNS = [
    ("operations", lambda r, per: f"{r['operations'] / MILLION:.2f} M"),
    ("RMW", lambda r, per: f"{total(r, 'atomics') * per:.0f}"),
    ("malloc", lambda r, per: f"{r['counts']['malloc']['atomics'] * per:.0f}"),
    ("free", lambda r, per: f"{r['counts']['free']['atomics'] * per:.0f}"),
    ("foreign", lambda r, per: f"{r['counts']['free_foreign']['atomics'] * per:.0f}"),
    ("exchanges", lambda r, per: f"{total(r, 'exchanges') * per:.0f}"),
    ("locks", lambda r, per: f"{total(r, 'locks') * per:.0f}"),
    ("depot", lambda r, per: f"{sum(r['counts'][k]['locks'].get('depot', 0) for k in KINDS) * per:.0f}"),
    ("bin", lambda r, per: f"{sum(r['counts'][k]['locks'].get('bin', 0) for k in KINDS) * per:.0f}"),
    ("lines", lambda r, per: f"{total(r, 'lines') * per:.0f}"),
    ("contended", lambda r, per: f"{total(r, 'contentions') * per:.1f}"),
    ("a second", lambda r, per: f"{total(r, 'contentions') / (r['wall_ns'] / 1e9):.0f}"),
]


def show(results):
    print("per million operations (malloc and free); contended: depots, and how many of that a second")
    print(f"{'pattern':<12}" + "".join(f"{name:>11}" for name, _ in COLUMNS))
    for pattern, result in results.items():
        per = MILLION / result["operations"]
        print(f"{pattern:<12}" + "".join(f"{cell(result, per):>11}" for _, cell in COLUMNS))


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", help="names, by commas")
    parser.add_argument("--scale", type=float, default=1.0, help="amount of work")
    parser.add_argument("--options", default="", help="VMAG_CONF of the runs")
    parser.add_argument("--check", action="store_true", help="only the patterns with bars; fail if one is broken")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build/count", help="folder of the counting build")
    parser.add_argument("--json", type=pathlib.Path, help="else counts.json in that folder")
    arguments = parser.parse_args()
    library = build(arguments.build)
    names = arguments.patterns.split(",") if arguments.patterns else HOT + FOREIGN + (() if arguments.check else OTHERS)
    results = {name: run(library, name, arguments.scale, arguments.options) for name in names}
    show(results)
    (arguments.json or arguments.build / "counts.json").write_text(json.dumps(results, indent=1))
    broken = list(broken_bars(results))
    for line in broken:
        print("BROKEN:", line)
    return int(arguments.check and bool(broken))


if __name__ == "__main__":
    sys.exit(main())
