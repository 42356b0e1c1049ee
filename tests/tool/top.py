# `vmag top`: its tables for scripts, and its live view in a pseudo-terminal.
# `top.py VMAG LIBRARY HOLDER`
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time

from holder import Holder, need_tool
from terminal import Terminal

MIB = 1 << 20


def run(vmag, *words):
    done = subprocess.run([vmag, "top", *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def during(seconds, what):
    thread = threading.Thread(target=lambda: (time.sleep(seconds), what()))
    thread.start()
    return thread


def row(found, name):
    return next(row for row in found["rows"] if name in row["name"])


def while_it_grows(vmag, holder, what, number, view, name):
    """What is told of an interval in which something grew; on a busy machine the first look may come too late, so then a longer one."""
    for interval in (3, 12, 48):
        grows = during(interval / 3, lambda: holder.tell(what, number))
        found = json.loads(run(vmag, "--json", f"--interval={interval}", f"--view={view}", holder.pid))
        grows.join()
        if row(found, name)["growth_bytes"] > 0:
            break
    assert found["seconds"] >= interval, found["seconds"]
    return found


def check_once(vmag, holder):
    found = while_it_grows(vmag, holder, "grow", 32, "sites", "site_grow")
    assert found["format"] == "vmag-top-1" and found["profile_active"]
    first = found["rows"][0]
    for each in found["rows"]:  # what came, and what came in a second, are of one interval
        assert abs(each["growth_bytes"] - each["bytes_a_second"] * found["seconds"]) <= 1e-6 * abs(each["growth_bytes"]), (found["seconds"], each)
    assert "site_grow" in first["name"] and any("site_grow" in line for line in first["detail"]), first
    assert abs(first["growth_bytes"] - 32 * MIB) < 6 * first["growth_error"] + MIB, first
    hold = row(found, "site_hold")
    assert hold["growth_bytes"] == 0 and abs(hold["live_bytes"] - 16 * MIB) < 6 * hold["live_error"], hold

    found = while_it_grows(vmag, holder, "grow", 8, "classes", "4.0 KiB")
    first = found["rows"][0]
    assert first["name"] == "4.0 KiB" and abs(first["growth_bytes"] - 8 * MIB) < MIB, first
    assert found["counters"]["allocated"] - found["allocated_before"] > 7 * MIB

    found = json.loads(run(vmag, "--json", "--interval=0.1", "--view=threads", holder.pid))
    assert row(found, "thread ")["live_bytes"] > 40 * MIB, found["rows"]
    found = json.loads(run(vmag, "--json", "--interval=0.1", "--view=arenas", "--sort=live", holder.pid))
    assert found["rows"][0]["live_bytes"] > 50 * MIB, found["rows"]
    holder.tell("cache", 1)
    cache = row(while_it_grows(vmag, holder, "cache", 4, "caches", "holder"), "holder")
    assert abs(cache["growth_bytes"] - 4 * MIB) < MIB // 4 and abs(cache["live_objects"] * 512 - cache["live_bytes"]) < 1, cache
    held = re.search(r"^caches +(\d\.\d) MiB  objects of object caches", subprocess.run([vmag, "attach", holder.pid], capture_output=True, text=True).stdout, re.M)
    assert held and 5 <= float(held[1]) < 6, held
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([vmag, "report", "-o", f"{folder}/r.html", holder.pid], check=True)
        assert "site_hold" in open(f"{folder}/r.html").read()
    for most, status in (("1M", 1), ("1G", 0)):
        assert subprocess.run([vmag, "check", f"--most-live={most}", holder.pid], stdout=subprocess.DEVNULL).returncode == status
    text = run(vmag, "--once", "--interval=0.1", "--sort=live", holder.pid)
    assert "unchanged" in text and "site_hold" in text, text
    assert "by call sites" in run(vmag, "--interval=0.1", holder.pid)


def check_narrow(vmag, holder):
    terminal = Terminal(vmag, "top", "--interval=0.2", holder.pid, columns=40)
    terminal.wait_for(["filled (", "growth"])
    terminal.press("h")
    terminal.wait_for(["explains.", "estimates"])  # the ends of a long line
    terminal.press("h/site_hold")
    terminal.wait_for("/site_hold_")
    terminal.press("\rq")
    assert terminal.wait_for_end() == 0


def check_dumb(vmag, holder):
    """A terminal that cannot be drawn on gets one table, as a file does."""
    terminal = Terminal(vmag, "top", "--interval=0.1", holder.pid, kind="dumb")
    assert terminal.wait_for_end() == 0 and "by call sites" in terminal.text(), terminal.text()


def check_colours(vmag, holder):
    """Where none are wanted nothing comes in their place that would end what the line has, as that it is the selected one."""
    for words, has_colours in ((("env", "-u", "NO_COLOR"), True), (("env", "NO_COLOR=1"), False)):
        terminal = Terminal(*words, vmag, "top", "--interval=0.2", holder.pid)
        terminal.wait_for(["growth ▼", "site_grow", "█"])
        terminal.press("q")
        assert terminal.wait_for_end() == 0
        assert any(b";" in style for style in terminal.styles) == has_colours, terminal.styles


def check_live(vmag, holder):
    terminal = Terminal(vmag, "top", "--interval=0.2", holder.pid)
    terminal.wait_for(["tool_holder", "call sites", "site_grow", "growth ▼"])
    holder.tell("grow", 15)  # from 10 to 20, by five of its standard errors
    terminal.wait_for("+1")
    terminal.press("\r")
    terminal.wait_for(["alive,", "main  "])
    terminal.press("\r/site_hold")
    terminal.wait_for("/site_hold_")
    terminal.press("\r")
    text = terminal.wait_for("/site_hold")
    assert "site_grow" not in text.split("growth", 1)[1], text
    terminal.press("\x1b")
    terminal.wait_for("site_grow")  # lest the keys that follow be taken for a sequence of this one
    terminal.press("3l")
    terminal.wait_for(["live ▼", "4.0 KiB", "64 B"])
    terminal.press("\t")
    terminal.wait_for("arena 0")
    terminal.press("5\r")
    terminal.wait_for(["holder", "objects of 512 B"])
    terminal.press("\r")
    terminal.press("2")
    terminal.wait_for("thread 1")
    terminal.press("h")
    terminal.wait_for("count growth from now on")
    terminal.press("h")
    terminal.press("p")
    terminal.wait_for("paused")
    terminal.press("p3gz")
    terminal.wait_for(["growth ▼", "growth is counted from now on"])
    terminal.press("/nothing has this name\r")
    terminal.wait_for("Esc forgets them")
    terminal.press("\x1b")
    terminal.wait_for("64 B")
    terminal.press("q")
    assert terminal.wait_for_end() == 0


def check_refusal(vmag, holder):
    """What is of one table does nothing in the view."""
    terminal = Terminal(vmag, "top", "--top=3", holder.pid)
    assert terminal.wait_for_end() == 125 and "cannot show so many rows" in terminal.text(), terminal.text()


def check_signals(vmag, holder):
    """Who ends it finds the terminal as it was."""
    master, slave = os.openpty()
    usual = termios.tcgetattr(slave)
    os.close(master)
    os.close(slave)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        terminal = Terminal(vmag, "top", "--interval=10", holder.pid)
        terminal.wait_for("q leave")
        assert termios.tcgetattr(terminal.descriptor) != usual and not terminal.has_cursor
        os.kill(terminal.pid, number)
        while terminal.take(0.1):
            pass
        assert termios.tcgetattr(terminal.descriptor) == usual and terminal.has_cursor, number
        assert terminal.wait_for_end() == -number, number


def check_without_profile(vmag, library, program):
    with Holder(library, program, "prof:false") as holder:
        holder.tell("hold", 1)
        assert "the heap profile is off" in run(vmag, "--once", "--interval=0.1", "--view=sites", holder.pid)
        # Told at once, not after the wait.
        for words in (["leaks", "--seconds=1000"], ["diff", "--seconds=1000"], ["report", "-o", "/nowhere/r.html"], ["check", "--most-live=1M"]):
            done = subprocess.run([vmag, *words, holder.pid], capture_output=True, text=True, timeout=600)
            assert done.returncode == 125 and "its profiler is off" in done.stderr, (words, done)
        terminal = Terminal(vmag, "top", "--interval=0.2", "--view=sites", holder.pid)
        terminal.wait_for("P switches it on")
        terminal.press("P")
        end = time.monotonic() + 300
        while time.monotonic() < end and "site_grow" not in terminal.text():
            holder.tell("grow", 4)
            terminal.take(0.3)
        assert "site_grow" in terminal.text(), terminal.text()
        holder.process.kill()
        terminal.wait_for("ended")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


def switch(terminal):
    """Until the process was asked: what it allocates before, it does not see the question by."""
    terminal.press("z")
    terminal.wait_for("growth is counted from now on")  # in the place of what was said of the last time
    terminal.press("P")
    terminal.wait_for("was asked to switch its profile")


def check_switched(vmag, library, program):
    """What came before the profile was on, or after it was off, is not in it: that is said, and there is no verdict."""

    def is_told(words):
        for command in (["heap"], ["leaks", "--looks=1"], ["leaks", "--unreachable"], ["top", "--once", "--interval=0.1", "--view=sites"]):
            text = subprocess.run([vmag, *command, holder.pid], capture_output=True, text=True, check=True).stdout
            assert (re.search("warning: " + words, text) is not None) == (words != ""), (command, text)
        diff = subprocess.run([vmag, "diff", "--seconds=1", holder.pid], capture_output=True, text=True, check=True)
        gate = subprocess.run([vmag, "check", "--most-live=1G", holder.pid], capture_output=True, text=True)
        assert re.search(words, diff.stderr) and re.search(words, gate.stderr) and gate.returncode == (125 if words else 0), (diff, gate)

    with Holder(library, program, "prof:true,prof_active:false,lg_prof_sample:16") as holder:
        holder.tell("hold", 32)
        terminal = Terminal(vmag, "top", "--interval=0.2", "--view=sites", holder.pid)
        terminal.wait_for("profile off")
        switch(terminal)
        holder.tell("grow", 1)
        terminal.wait_for("profile each 64.0 KiB")
        is_told(r"about 3[0-3](\.\d)? MiB of the 33")  # less what is known of the last one, by samples: within six of its standard errors
        holder.tell("grow", 512)
        is_told("")
        switch(terminal)
        holder.tell("hold", 1)
        terminal.wait_for("profile off")
        is_told("the profile is off")
        switch(terminal)
        holder.tell("hold", 1)
        terminal.wait_for("profile each 64.0 KiB")
        terminal.press("q")
        assert terminal.wait_for_end() == 0


def check_late(vmag, library, program):
    """The same of what is kept of such a process: an exported profile, a bundle, its black box."""
    with tempfile.TemporaryDirectory() as folder:
        with Holder(library, program, f"prof:true,prof_active:false,black_box:{folder}/box") as holder:
            holder.tell("hold", 32)
            subprocess.run([vmag, "attach", "--profile=64k", "--wait=0", holder.pid], capture_output=True)
            for _ in range(3):  # the box has the counters of four times a second, when something happens
                time.sleep(0.3)
                holder.tell("hold", 1)
            kept = [f"{folder}/p.heap", f"{folder}/p.bundle"]
            subprocess.run([vmag, "export", holder.pid, kept[0]], check=True, capture_output=True)
            subprocess.run([vmag, "export", "--bundle", holder.pid, kept[1]], check=True, capture_output=True)
            for file in [holder.pid, *kept, f"{folder}/box.{holder.pid}.box"]:
                gate = subprocess.run([vmag, "check", "--most-live=1G", file], capture_output=True, text=True)
                assert gate.returncode == 125 and "that are allocated are not in it" in gate.stderr, (file, gate)
                assert "warning: about 3" in subprocess.run([vmag, "heap", file], capture_output=True, text=True).stdout, file


def check_errors(vmag):
    for words in (["2147483647"], ["--interval=0", "1"], ["--view=nothing", "1"], ["--sort=x", "1"]):
        done = subprocess.run([vmag, "top", *words], capture_output=True, text=True)
        assert done.returncode == 125 and done.stderr, (words, done)


def main(vmag, library, program):
    need_tool(vmag)
    check_errors(vmag)
    with Holder(library, program) as holder:
        holder.tell("hold", 16)
        holder.tell("grow", 32)
        check_once(vmag, holder)
        check_narrow(vmag, holder)
        check_dumb(vmag, holder)
        check_colours(vmag, holder)
        check_live(vmag, holder)
        check_refusal(vmag, holder)
        check_signals(vmag, holder)
    check_without_profile(vmag, library, program)
    check_switched(vmag, library, program)
    check_late(vmag, library, program)


main(*sys.argv[1:])
