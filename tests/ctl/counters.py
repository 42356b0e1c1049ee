# What exact counters of a thread cost, alone and while the event trace is on: instructions of one way to allocate and free, counted by callgrind.
# `counters.py PROGRAM LIBRARY`.
# SPDX-License-Identifier: BSD-2-Clause
import glob
import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
PAIRS = 20000
MORE = {"pair": 19, "medium": 19, "held": 19, "calloc": 20, "realloc": 38, "new": 19, "sized": 21, "mallocx": 24}  # at most, with counters on
TRACED_MORE = {"held": 40, "calloc": 40}  # the same of a trace: counters leave it its fast path


def per_pair(program, library, *words, conf=""):
    """Instructions of each way's pair with its loop, some ten: what callgrind found in its function and below, by the number of pairs."""
    with tempfile.TemporaryDirectory() as folder:
        counts = os.path.join(folder, "counts")
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", "--compress-strings=no", "--compress-pos=no",
                        program, str(PAIRS), "all", *words],
                       env={**os.environ, "LD_PRELOAD": library, "VMAG_CONF": conf.replace("FOLDER", folder)}, stderr=subprocess.DEVNULL, check=True, timeout=600)
        found = dict.fromkeys(MORE, 0)
        with open(counts, encoding="utf-8", errors="replace") as file:
            way = None
            for line in file:
                if line.startswith("fn="):
                    way = next((way for way in MORE if line.rstrip() == f"fn=use_{way}"), None)
                elif way and line[0].isdigit():  # what it took itself, or a call from it took
                    found[way] += int(line.split()[1])
    return {way: count / PAIRS for way, count in found.items()}


def settled(program, library, *words):
    """Of each way what two tries agree on, else the least of all: what a moment adds, such as a tick of the decay, it adds to one run and not to another."""
    tries = [per_pair(program, library, *words) for _ in range(2)]
    if tries[0] != tries[1]:
        tries.append(per_pair(program, library, *words))
    values = {way: [found[way] for found in tries] for way in MORE}
    return {way: next((value for value in of if of.count(value) > 1), min(of)) for way, of in values.items()}


def main(program, library):
    if shutil.which("valgrind") is None:
        print("valgrind is missing")
        sys.exit(SKIPPED)
    faults = []
    for name, limits, plain, counted in (
            ("", MORE, settled(program, library), settled(program, library, "counted")),
            (", traced", TRACED_MORE, *(per_pair(program, library, *words, conf="trace:FOLDER/t") for words in ((), ("counted",))))):
        for way, more in limits.items():
            print(f"{way}{name}: {plain[way]:.1f} instructions with the loop, {counted[way]:.1f} counted")
            if plain[way] == 0:
                faults.append(f"{way}{name}: nothing was counted")
            if round(counted[way] - plain[way]) > more:
                faults.append(f"{way}{name}: {counted[way] - plain[way]:.1f} more are too many, {more} allowed")
        for jemalloc in glob.glob("/usr/lib/*/libjemalloc.so.2") if limits is MORE else []:
            theirs = per_pair(program, jemalloc, "counted")["pair"]
            print(f"jemalloc: {theirs:.1f}")
            if counted["pair"] > theirs:
                faults.append("more than jemalloc's")
    print("\n".join(faults))
    sys.exit(bool(faults))


main(*sys.argv[1:])
