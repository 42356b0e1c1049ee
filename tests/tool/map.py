# `vmag map` of a process that runs: what is there, how old it is, and who allocated it, as far as samples tell.
# `map.py VMAG LIBRARY HOLDER`
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

from holder import Holder, need_tool

MIB = 1 << 20


def run(vmag, *words, status=0):
    done = subprocess.run([vmag, "map", *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == status, (words, done)
    return done


def cells_by_site(found, column):
    """Bytes in use by the site that holds most of each row."""
    sums = {}
    for occupancy, site in zip(found["occupancy"], found["site"]):
        name = found["sites"][site[column] - 1] if 0 < site[column] <= len(found["sites"]) else None
        sums[name] = sums.get(name, 0) + occupancy[column] / 255 * found["row_bytes"]
    return sums


def while_it_grows(vmag, holder, seconds):
    holder.tell("hold", 8)
    holder.tell("grow", 8)
    later = threading.Thread(target=lambda: (time.sleep(seconds / 2), holder.tell("grow", 16)))
    later.start()
    found = json.loads(run(vmag, "--json", f"--seconds={seconds}", holder.pid).stdout)
    later.join()
    return found


def in_use(found, column):
    return sum(row[column] for row in found["occupancy"]) / 255 * found["row_bytes"]


def saw_the_growth(found):
    """On a busy machine the first look may come too late, or the last one too early."""
    return in_use(found, found["columns"] - 1) - in_use(found, 0) > 14 * MIB


def check_sites_and_ages(found):
    assert found["sites_are_sampled"] and found["format"] == "vmag-map-1" and found["seconds"] > 0 and found["pid"] > 0
    before, after = cells_by_site(found, 0), cells_by_site(found, found["columns"] - 1)
    print(f"before {before}, after {after}")
    of = lambda sums, name: sum(size for site, size in sums.items() if site and f" {name} " in site)
    assert abs(of(before, "site_hold") - 8 * MIB) < 2 * MIB and abs(of(before, "site_grow") - 8 * MIB) < 2 * MIB, before
    assert abs(of(after, "site_hold") - 8 * MIB) < 2 * MIB and abs(of(after, "site_grow") - 24 * MIB) < 3 * MIB, after
    # What came in the middle is younger at the end than what was there before: at most as old as half of the time, and a bit.
    last = found["columns"] - 1
    rows = [row for row in range(found["rows"]) if found["occupancy"][row][last] > 127]
    old = [found["age"][row][last] for row in rows if found["occupancy"][row][0] > 127]
    young = [found["age"][row][last] for row in rows if found["occupancy"][row][0] == 0]
    assert old and young and sorted(young)[len(young) // 2] < sorted(old)[len(old) // 2], (old, young)
    # By the logarithm of nanoseconds. Of three seconds; on a busy machine a look takes more than one of them.
    assert 2 ** (max(old) / 5) > 1e9, max(old)


def check_pictures(vmag, holder, folder):
    pictures = set()
    for color in ("occupancy", "age", "class", "site"):
        path = os.path.join(folder, color + ".png")
        done = run(vmag, "--seconds=1", "--color", color, "-o", path, holder.pid)
        with open(path, "rb") as file:
            pictures.add(file.read())
        assert ("by samples" in done.stderr and "site_grow" in done.stderr) == (color == "site"), done.stderr
    assert len(pictures) == 4 and all(picture.startswith(b"\x89PNG") for picture in pictures)


def check_end(vmag, library, program, seconds=1):
    """A process that ends while it is looked at: what was seen is drawn."""
    with Holder(library, program) as holder:
        holder.tell("hold", 4)
        end = threading.Timer(seconds, holder.process.kill)
        end.start()
        done = subprocess.run([vmag, "map", "--json", f"--seconds={6 * seconds}", holder.pid], capture_output=True, text=True, timeout=600)
        if seconds < 16 and done.returncode != 0:  # it may have ended before the first look
            return check_end(vmag, library, program, 4 * seconds)
        found = json.loads(done.stdout)
        assert f"process {holder.pid} has ended after" in done.stderr, done.stderr
        assert found["rows"] > 0 and any(cell > 0 for row in found["occupancy"] for cell in row)


def check_refusals(vmag, library, program):
    with Holder(library, program, "prof:false") as holder:
        holder.tell("hold", 1)
        start = time.monotonic()
        done = run(vmag, "--color=site", "--seconds=300", "-o", "/dev/null", holder.pid, status=125)
        assert "nothing of what it holds was sampled" in done.stderr and time.monotonic() - start < 150, done.stderr
        assert "switch its heap profile on" in done.stderr, done.stderr
        found = json.loads(run(vmag, "--json", "--seconds=1", holder.pid).stdout)
        assert found["sites"] == [] and found["site"] == [] and len(found["age"]) == found["rows"]
    with Holder(library, program, "prof:true,lg_prof_sample:40") as holder:
        holder.tell("hold", 1)
        done = run(vmag, "--color=site", "--seconds=1", "-o", "/dev/null", holder.pid, status=125)
        assert "its heap profile is on, but" in done.stderr and "sample finer" in done.stderr, done.stderr


def main(vmag, library, program):
    need_tool(vmag)
    for seconds in (3, 12, 48):
        with tempfile.TemporaryDirectory() as folder, Holder(library, program, "prof:true,lg_prof_sample:14") as holder:
            found = while_it_grows(vmag, holder, seconds)
            if seconds < 48 and not saw_the_growth(found):
                continue
            check_sites_and_ages(found)
            check_pictures(vmag, holder, folder)
            break
    check_end(vmag, library, program)
    check_refusals(vmag, library, program)


main(*sys.argv[1:])
