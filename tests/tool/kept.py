# What is held somewhere is not told as lost, and what the program has of an arena is not told as the library's own.
# `kept.py VMAG LIBRARY KEPT`.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import subprocess
import sys

from holder import need_tool

MIB = 1 << 20
COUNT = 100


def told(vmag, *words):
    done = subprocess.run([vmag, *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (words, done.stderr)
    return json.loads(done.stdout)


def main(vmag, library, program):
    need_tool(vmag)
    every, every_by_cpu = "prof:true,lg_prof_sample:0", "prof:true,lg_prof_sample:0,front:cpu"
    for conf, more in ((every, []), (every_by_cpu, []), (every, ["replaces"])):
        environment = {**os.environ, "LD_PRELOAD": library, "VMAG_CONF": conf}
        kept = subprocess.Popen([program, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        with kept:
            assert kept.stdout.readline() == "ok\n"
            sites = told(vmag, "leaks", "--json", "--unreachable", str(kept.pid))["sites"]
            count = {name: sum(site["objects"] for site in sites if name in site["functions"]) for name in ("site_kept", "site_replaced", "site_lost")}
            assert count["site_kept"] + count["site_replaced"] == 0 and COUNT - 5 <= count["site_lost"] <= COUNT, (conf, more, count)
            rows = told(vmag, "explain", "--json", str(kept.pid))["rows"]
            assert rows["base_bytes"] < 8 * MIB and rows["anonymous_bytes"] >= 16 * MIB, rows
            kept.stdin.close()


main(*sys.argv[1:])
