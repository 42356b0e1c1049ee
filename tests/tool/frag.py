# `vmag frag` on a program whose survivors are known: each 50th object of site_hold, in slabs of 64 byte buffers.
# `frag.py VMAG LIBRARY HOLDER`
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import subprocess
import sys
import tempfile

from holder import Holder, need_tool

MIB = 1 << 20
KEEP = 50


def run(vmag, *words):
    done = subprocess.run([vmag, "frag", *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def of_size(found, size):
    return next(row for row in found["classes"] if row["size"] == size)


def check(vmag, holder):
    holder.tell("hold", 32)
    holder.tell("grow", 16)
    full = json.loads(run(vmag, "--json", holder.pid))
    held = of_size(full, 64)
    assert held["nearly_empty"] <= 1 and held["live_bytes"] > 31 * MIB, held
    assert held["by_fullness"][9] > 0.9 * held["slabs"], held

    holder.tell("thin", KEEP)
    found = json.loads(run(vmag, "--json", holder.pid))
    held = of_size(found, 64)
    print({name: held[name] for name in ("slabs", "nearly_empty", "resident_bytes", "live_bytes", "pinned_bytes")})
    # A sampled object has a page of its own, so a few of the survivors are not in slabs.
    assert abs(held["live_bytes"] - 32 * MIB / KEEP) < 0.1 * 32 * MIB / KEEP, held
    assert held["nearly_empty"] > 0.95 * held["slabs"] and held["nearly_empty"] <= found["nearly_empty"]
    assert held["pinned_bytes"] == held["resident_bytes"] - held["live_bytes"] or held["nearly_empty"] < held["slabs"]
    assert held["pinned_bytes"] > 15 * MIB, held
    assert of_size(found, 4096)["nearly_empty"] <= 1  # the last one, which is being filled
    worst = found["sites"][0]
    assert [frame["function"] for frame in worst["frames"]] == worst["functions"] and worst["frames"][0]["line"], worst
    assert "site_hold" in worst["functions"] and worst["sizes"] == [64], worst
    assert worst["pinned_bytes"] > 0.9 * held["pinned_bytes"], (worst, held)
    # Of the large objects at most the slab that is being filled is nearly empty.
    assert all(site["pinned_bytes"] <= of_size(found, 4096)["pinned_bytes"] for site in found["sites"] if "site_grow" in site["functions"])
    assert of_size(found, 4096)["pinned_bytes"] <= 64 << 10
    text = run(vmag, "--full", holder.pid)
    assert "less than 25 % full" in text and "site_hold" in text and "main  " in text, text
    assert json.loads(run(vmag, "--json", "--below=1", holder.pid))["nearly_empty"] < found["nearly_empty"]


def check_live_map(vmag, holder, folder):
    """Of the same process: the survivors' slabs are pale, the large objects' full."""
    def picture(*words):
        return subprocess.run([vmag, "map", "--seconds", "1", *words, holder.pid], capture_output=True, text=True, timeout=600)
    found = json.loads(picture("--json").stdout)
    cells = [cell for row in found["occupancy"] for cell in row]
    print({"rows": found["rows"], "full": cells.count(255), "pale": sum(0 < cell < 20 for cell in cells)})
    assert len(cells) == found["rows"] * found["columns"] and len(found["age"]) == found["rows"]
    # 16 MiB in objects of 4096 bytes and 32 MiB of slabs with two objects in a hundred.
    assert cells.count(255) > 0.15 * len(cells) and sum(0 < cell < 20 for cell in cells) > 0.3 * len(cells)
    path = os.path.join(folder, "live.png")
    assert picture("-o", path).returncode == 0 and open(path, "rb").read(8) == b"\x89PNG\r\n\x1a\n"
    aged = picture("--color", "age", "-o", path)
    assert aged.returncode == 0 and "count from the first look" in aged.stderr, aged


def check_trace(vmag, library, program, folder):
    path = os.path.join(folder, "t.trace")
    told = f"hold 16\ngrow 8\nthin {KEEP}\n"
    subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={path}", "--trace-stacks", "--", program],
                   input=told, text=True, check=True, stdout=subprocess.DEVNULL)
    found = json.loads(run(vmag, "--json", path))
    objects = 16 * MIB // 64 / KEEP
    print({name: found[name] for name in ("pages", "nearly_empty", "live_bytes", "kept_bytes")})
    # 64 objects a page of which one or two are left: no page is empty, and hardly anything else is on them.
    assert abs(found["nearly_empty"] - 16 * MIB // 4096) < 50, found["nearly_empty"]
    assert found["kept_bytes"] > 0.95 * 16 * MIB, found["kept_bytes"]
    worst = found["owners"][0]
    assert "site_hold" in worst["functions"] and abs(worst["objects"] - objects) < 10, worst
    assert worst["kept_bytes"] > 0.95 * found["kept_bytes"]
    size = next(size for size in found["sizes"] if size["size"] == 64)
    assert abs(size["pinning_objects"] - objects) < 10, size
    text = run(vmag, "--full", path)
    assert "site_hold" in text and "pages are less than 25 % full" in text, text
    assert json.loads(run(vmag, "--json", "--at=0", path))["nearly_empty"] < 10


def main(vmag, library, program):
    need_tool(vmag)
    with tempfile.TemporaryDirectory() as folder:
        check_trace(vmag, library, program, folder)
    with Holder(library, program, "prof:true,lg_prof_sample:12") as holder:
        check(vmag, holder)
        with tempfile.TemporaryDirectory() as folder:
            check_live_map(vmag, holder, folder)
    with Holder(library, program, "prof:false") as holder:
        holder.tell("hold", 1)
        assert "nothing was sampled" in run(vmag, holder.pid)
    for words in ([], ["2147483647"], ["--below=0", "1"], [__file__], ["/nowhere"]):
        assert subprocess.run([vmag, "frag", *words], stderr=subprocess.DEVNULL).returncode == 125, words


main(*sys.argv[1:])
