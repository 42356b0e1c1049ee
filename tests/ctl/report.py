# malloc_stats_print: letters, JSON with jemalloc's keys, sums that agree, malloc_message, stats_print at exit. `report.py PROGRAM`.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import subprocess
import sys

MUTEX = {"num_ops", "num_wait", "num_spin_acq", "num_owner_switch", "total_wait_time", "max_wait_time", "max_num_thds"}
ARENA = {"nthreads", "uptime_ns", "dss", "dirty_decay_ms", "muzzy_decay_ms", "pactive", "pdirty", "pmuzzy", "dirty_npurge", "dirty_nmadvise",
         "dirty_purged", "muzzy_npurge", "muzzy_nmadvise", "muzzy_purged", "small", "large", "mapped", "retained", "base", "internal",
         "metadata_thp", "tcache_bytes", "tcache_stashed_bytes", "resident", "abandoned_vm", "extent_avail"}
STATS = {"allocated", "active", "metadata", "metadata_thp", "resident", "mapped", "retained", "zero_reallocs", "background_thread"}
BIN = {"nmalloc", "ndalloc", "curregs", "nrequests", "nfills", "nflushes", "nreslabs", "curslabs", "nonfull_slabs"}


def run(program, *arguments, **environment):
    done = subprocess.run([program, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    return done.stdout, done.stderr


def check_json(program):
    whole = json.loads(run(program, "J")[0])["jemalloc"]
    assert set(whole) == {"version", "config", "opt", "prof", "arenas", "stats", "stats.arenas"}, set(whole)
    assert set(whole["prof"]) == {"thread_active_init", "active", "gdump", "interval", "lg_sample"}, whole["prof"]
    assert whole["opt"]["hpa_dirty_mult"] == "0.25" # jemalloc's reports have it as a text
    assert len(whole["config"]) == 13 and whole["config"]["fill"] is True and len(whole["opt"]) >= 56
    assert whole["opt"]["narenas"] > 0 and whole["opt"]["thp"] == "default" and whole["opt"]["abort"] is False
    arenas, stats = whole["arenas"], whole["stats"]
    assert len(arenas["bin"]) == arenas["nbins"] == 36 and len(arenas["lextent"]) == arenas["nlextents"] == 196
    assert arenas["quantum"] == 16 and arenas["tcache_max"] == 65536 and arenas["nhbins"] == 45
    assert set(stats) == STATS | {"mutexes"} and set(stats["mutexes"]["ctl"]) == MUTEX
    assert stats["allocated"] <= stats["active"] <= stats["resident"]
    each = {name: arena for name, arena in whole["stats.arenas"].items() if name.isdigit()}
    merged = whole["stats.arenas"]["merged"]
    assert len(each) >= 2 and "destroyed" not in whole["stats.arenas"]
    for arena in [merged, *each.values()]:
        assert ARENA <= set(arena) and set(arena["bins"][0]) == BIN | {"mutex"} and len(arena["lextents"]) == 196
    for key in ("pactive", "pdirty", "mapped", "base", "resident", "tcache_bytes"):
        assert merged[key] == sum(arena[key] for arena in each.values()), key
    for kind in ("small", "large"):
        for key in ("allocated", "nmalloc", "ndalloc", "nfills"):
            assert merged[kind][key] == sum(arena[kind][key] for arena in each.values()), (kind, key)
    assert stats["allocated"] == merged["small"]["allocated"] + merged["large"]["allocated"]
    for arena in [merged, *each.values()]: # what the tables list is the program's or in magazines
        listed = sum(row["curregs"] * of["size"] for row, of in zip(arena["bins"], arenas["bin"]))
        listed += sum(row["curlextents"] * of["size"] for row, of in zip(arena["lextents"], arenas["lextent"]))
        assert listed == arena["small"]["allocated"] + arena["large"]["allocated"] + arena["tcache_bytes"], listed
    assert merged["tcache_bytes"] > 0
    small = json.loads(run(program, "Jgblx")[0])["jemalloc"]
    assert set(small) == {"stats", "stats.arenas"} and set(small["stats"]) == STATS
    assert "bins" not in small["stats.arenas"]["0"] and "mutexes" not in small["stats.arenas"]["0"]
    assert set(json.loads(run(program, "Ja")[0])["jemalloc"]["stats.arenas"]) == {"merged"}
    assert "merged" not in json.loads(run(program, "Jm")[0])["jemalloc"]["stats.arenas"]
    prefix = json.loads(run(program, "J", MALLOC_CONF='prof_prefix:\u00e9"\t\udcff\udcc3')[0])["jemalloc"]["opt"]["prof_prefix"] # two bytes that are no UTF-8
    assert prefix == '\u00e9"\t??', prefix


def check_lines(program):
    text = run(program, "")[0]
    assert text.startswith("___ Begin jemalloc statistics ___\n") and text.endswith("--- End jemalloc statistics ---\n"), text[:100]
    assert "\nAllocated: " in text and "opt.narenas: 0 (default)" in text and "arenas[0] statistics:" in text and "Merged" in text
    assert "nrequests" in text and "object caches:" in text and "vmem arenas:" in text
    short = run(program, "gabl")[0]
    assert "opt." not in short and "arenas[" not in short and "bins:" not in short and "large:   ind" not in short
    assert run(program, "gabl", "message")[0].startswith("___ Begin")
    assert "--- End jemalloc statistics ---" in run(program, "J", MALLOC_CONF="stats_print:true,stats_print_opts:a")[1]
    assert "--- End jemalloc statistics ---" in run(program, "J", MALLOC_OPTIONS="P")[1]


check_json(sys.argv[1])
check_lines(sys.argv[1])
