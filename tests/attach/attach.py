# `vmag attach`, `heap` and black boxes: what an observer sees of a process that does what it is told.
# `attach.py VMAG LIBRARY TARGET CASE`.  Without the command the test is skipped.
# SPDX-License-Identifier: BSD-2-Clause
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
NOBODY = 65534
SMALL = 1000
SMALL_CLASS = 1024
MEDIUM_CLASS = 14336
EVERY_ONE = "prof:true,lg_prof_sample:0"
PATIENCE = 300
PATIENTLY = "--wait", PATIENCE // 2  # for who comes by, but on a busy machine not within the five seconds that are usual


class Target:
    def __init__(self, setting, conf="", program=None, user=None, **more):
        self.setting = setting
        environment = {**os.environ, "VMAG_CONF": conf, **more}
        environment["LD_PRELOAD"] = setting.library
        self.process = subprocess.Popen([program or setting.target], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment, text=True, user=user)
        self.pid = self.process.pid
        self.do("hello")

    def do(self, *words):
        """What it says before its "ok"."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        said = []
        while (line := self.process.stdout.readline().strip()) != "ok":
            assert line, "the target ended"
            said.append(line)
        return said

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Setting:
    def __init__(self, vmag, library, target, folder):
        self.vmag, self.library, self.target, self.folder = vmag, library, target, folder

    def run(self, *words, user=None):
        return subprocess.run([self.vmag, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, user=user,
                              group=user, extra_groups=[] if user else None)

    def json(self, *words):
        result = self.run(*words)
        assert result.returncode == 0, (words, result.stderr)
        return json.loads(result.stdout)

    def counters(self, source):
        return self.json("attach", "--json", source)["counters"]

    def live(self, source, size):
        sizes = {row["size"]: row["live"] for row in self.counters(source)["classes"]}
        return sizes.get(size, 0)

    def live_small(self, source):
        return self.live(source, SMALL_CLASS)

    def site(self, source, name):
        """Objects and bytes that the profile gives to a function."""
        sites = self.json("heap", "--json", source)["sites"]
        of_name = [site for site in sites if any(frame["function"] == name for frame in site["frames"])]
        return sum(site["objects"] for site in of_name), sum(site["bytes"] for site in of_name)

    def refused(self, *words, user=None):
        """What the command says when it cannot."""
        result = self.run(*words, user=user)
        assert result.returncode == 125, (words, result.returncode, result.stdout, result.stderr)
        assert re.fullmatch("vmag: error: .+: .+; what to do: .+\n", result.stderr), result.stderr
        return result.stderr

    def is_begun(self, box):
        """Whether a box's process has written its head, which it does last."""
        return os.path.exists(box) and open(box, "rb").read(8) == b"vmag_box"

    def box(self, pid):
        return os.path.join(self.folder, f"t.{pid}.box")

    def boxed(self, more=EVERY_ONE):
        return f"{more},black_box:{self.folder}/t"


def check_counters(setting):
    """Counters move by what the program does, to the object; also while it is stopped or deadlocked, and on fronts of processors."""
    for front in ("front:thread", "front:cpu"):
        check_counters_of(setting, front)


def check_counters_of(setting, conf):
    with Target(setting, conf) as target:
        before = setting.counters(target.pid)
        small_before = setting.live_small(target.pid)
        target.do("small", 10000)
        target.do("large", 20)
        after = setting.counters(target.pid)
        assert setting.live_small(target.pid) - small_before == 10000
        grown = after["allocated"] - before["allocated"]
        assert 10000 * SMALL_CLASS + (20 << 20) <= grown <= 10000 * SMALL_CLASS + (20 << 20) + (1 << 16), grown
        assert after["allocated"] <= after["active"] and after["threads"] == 1
        target.process.send_signal(signal.SIGSTOP)
        assert setting.counters(target.pid)["allocated"] == after["allocated"]
        target.process.send_signal(signal.SIGCONT)
        target.do("free")
        assert setting.live_small(target.pid) == small_before
        target.do("deadlock")
        assert setting.live_small(target.pid) == small_before


def check_sampled_counters(setting):
    """Counters are of what the program holds, whether it was sampled, and is a page run, or not."""
    with Target(setting, "prof:true,lg_prof_sample:16") as target:
        before, live_before = setting.counters(target.pid)["allocated"], setting.live(target.pid, MEDIUM_CLASS)
        target.do("medium", 2000)
        live = setting.live(target.pid, MEDIUM_CLASS) - live_before
        assert live == 2000, live
        grown = setting.counters(target.pid)["allocated"] - before
        assert 0 <= grown - 2000 * MEDIUM_CLASS < 1 << 16, grown
        target.do("free")
        assert setting.live(target.pid, MEDIUM_CLASS) == live_before


def check_profile(setting):
    """Profiled from its start, of each allocation: the live profile is whole, read from a stopped process."""
    with Target(setting, EVERY_ONE) as target:
        target.do("small", 5000)
        target.do("large", 7)
        target.process.send_signal(signal.SIGSTOP)
        assert setting.site(target.pid, "site_small") == (5000, 5000 * SMALL_CLASS)
        assert setting.site(target.pid, "site_large") == (7, 7 << 20)
        target.process.send_signal(signal.SIGCONT)
        first = os.path.join(setting.folder, "first.csv")
        assert setting.run("heap", "--format", "csv", "-o", first, target.pid).returncode == 0
        target.do("free")
        assert setting.site(target.pid, "site_small") == (0, 0)
    check_profile_of_guarded(setting)


def check_profile_of_guarded(setting):
    """Under UMEM_DEBUG what the program has freed is not alive, though its memory is held back; and it is no sample any more when that goes."""
    with Target(setting, EVERY_ONE, UMEM_DEBUG="guards,held=64m") as target:
        for _ in range(4):
            target.do("small", 200)
            target.do("medium", 200)
            target.do("large", 3)
            held = [setting.site(target.pid, name)[0] for name in ("site_small", "site_medium", "site_large")]
            assert held == [200, 200, 3], held
            target.do("free")
            held = [setting.site(target.pid, name)[0] for name in ("site_small", "site_medium", "site_large")]
            assert held == [0, 0, 0], held


def check_unreachable(setting):
    """What nothing points to is found, though freed memory and lost objects still do; what is held is not."""
    for conf in (EVERY_ONE, EVERY_ONE + ",front:cpu", EVERY_ONE + ",heap_source:sbrk", "prof:true,lg_prof_sample:12"):
        with Target(setting, conf) as target:
            target.do("small", 500)
            target.do("lose", 500)
            target.do("large", 3)
            target.do("chain", 500)
            sites = setting.json("leaks", "--json", "--unreachable", target.pid)
            assert sites["kind"] == "unreachable", sites
            assert setting.json("leaks", "--json", "--looks", "1", target.pid)["kind"] == "alive now"
            lost = sum(site["objects"] for site in sites["sites"] if "site_lost" in site["functions"])
            held = sum(site["objects"] for site in sites["sites"] if "site_lost" not in site["functions"])
            exact = conf.startswith(EVERY_ONE)
            assert (990 if exact else 600) <= lost <= (1000 if exact else 1400) and held <= 2, (conf, lost, sites)
        check_unreachable_of_caches(setting, conf)
    assert "does not hold the memory" in setting.refused("leaks", "--unreachable", sys.argv[0])


def check_unreachable_of_caches(setting, conf):
    """Sampled objects of caches, too: that a magazine's old slot has the address of one holds it not."""
    with Target(setting, conf) as target:
        for _ in range(10):
            target.do("lose_cached", 10)
            target.do("keep_cached", 10)
        sites = setting.json("leaks", "--json", "--unreachable", target.pid)["sites"]
        lost, kept = (sum(site["objects"] for site in sites if name in site["functions"]) for name in ("site_lost_of_cache", "site_kept_of_cache"))
        exact = conf.startswith(EVERY_ONE)
        assert kept == 0 and (198 if exact else 50) <= lost <= (200 if exact else 500), (conf, lost, kept, sites)


def check_switch(setting):
    """The profile is switched from outside; a process that does not come by is told of."""
    with Target(setting) as target:
        assert setting.site(target.pid, "site_small") == (0, 0)
        assert "nothing was sampled" in setting.run("heap", target.pid).stdout
        said = setting.refused("attach", "--profile", "4k", "--wait", "0", target.pid)
        assert "has not seen the request" in said
        target.do("large", 1)
        told = setting.json("attach", "--json", target.pid)
        assert told["profile_active"] and told["sample_bytes"] == 4096, told
        target.do("small", 20000)
        objects, _ = setting.site(target.pid, "site_small")
        assert 18000 < objects < 22000, objects
        target.do("threads", 1)  # comes by all the time
        assert setting.run("attach", "--profile", "off", *PATIENTLY, target.pid).returncode == 0
        assert not setting.json("attach", "--json", target.pid)["profile_active"]
        assert setting.site(target.pid, "site_small")[0] == objects
        assert setting.run("attach", "--profile", "1M", *PATIENTLY, target.pid).stdout.strip().endswith("1.0 MiB on average")
        options = setting.json("options", "--json", "--pid", target.pid, "prof", "prof_active", "lg_prof_sample")["options"]
        assert [row["value"] for row in options] == ["true", "true", "20"] and options[0]["source"] == "a control", options
        prefix = os.path.join(setting.folder, "s")
        for words, key, value in ((["--profile", "64k"], "profile", {"active": True, "sample_bytes": 65536}), (["--profile", "off"], "profile", {"active": False}),
                                  (["--trace", prefix], "trace", {"active": True, "files": f"{prefix}.{target.pid}.*.trace"}),
                                  (["--trace", "off"], "trace", {"active": False})):
            told = setting.json("attach", "--json", *words, *PATIENTLY, target.pid)
            assert told["format"] == "vmag-switched-1" and told["pid"] == target.pid and told[key] == value, told


def check_trace(setting):
    """The event trace is switched from outside, and holds what happened between."""
    with Target(setting) as target:
        target.do("small", 100)
        prefix = os.path.join(setting.folder, "t")
        setting.refused("attach", "--trace", prefix, "--wait", "0", target.pid)
        target.do("large", 1)
        target.do("small", 5000)
        setting.refused("attach", "--trace", "off", "--wait", "0", target.pid)
        target.do("large", 1)
        target.do("small", 3000)
        told = setting.run("trace", "--events", f"{prefix}.{target.pid}.0.trace").stdout
        assert 5000 <= told.count(f",{SMALL_CLASS},") <= 5100, told[:1000]
    if os.geteuid() == 0:
        os.chmod(setting.folder, 0o711)
        with Target(setting, user=65534) as target:
            for mode, warned in ((0o755, True), (0o777, False)):
                closed = os.path.join(setting.folder, oct(mode))
                os.mkdir(closed)
                os.chmod(closed, mode)
                target.process.stdin.write("threads 1\n" if warned else "hello\n")  # which come by
                target.process.stdin.flush()
                told = setting.run("attach", "--trace", os.path.join(closed, "t"), *PATIENTLY, target.pid)
                assert told.returncode == 0 and ("by its mode the process may not write there" in told.stderr) == warned, told


def check_busy(setting):
    """Read again and again while four threads allocate, free and are sampled."""
    with Target(setting, "prof:true,lg_prof_sample:9") as target:
        target.do("small", 2000)
        objects, _ = setting.site(target.pid, "site_small")
        target.do("threads", 4)
        wait_for(lambda: setting.counters(target.pid)["threads"] == 5)  # one that has not begun to allocate is not counted
        for _ in range(10):
            assert setting.site(target.pid, "site_small")[0] == objects
            counters = setting.counters(target.pid)
            assert 2000 * SMALL_CLASS <= counters["allocated"] < 100 << 20 and counters["threads"] == 5, counters


def check_black_box(setting):
    """After kill -9 the box says what the process said of itself just before; one that ends by itself leaves none."""
    with Target(setting, setting.boxed()) as target:
        target.do("small", 5000)
        target.do("close")
        target.do("large", 7)
        alive = setting.json("heap", "--json", target.pid)
        target.kill()
    dead = setting.json("heap", "--json", setting.box(target.pid))
    assert {**dead, "time": 0} == {**alive, "time": 0}
    assert setting.site(setting.box(target.pid), "site_small") == (5000, 5000 * SMALL_CLASS)
    told = setting.json("attach", "--json", setting.box(target.pid))
    assert told["pid"] == target.pid and told["peak_resident"] > 5000 * SMALL_CLASS, told
    assert os.stat(setting.box(target.pid)).st_mode & 0o777 == 0o600
    with Target(setting, setting.boxed()) as target:
        assert os.path.exists(setting.box(target.pid))
        target.process.stdin.close()
        target.process.wait()
        assert not os.path.exists(setting.box(target.pid))


class MemoryGroup:
    """A cgroup with little memory, of version 2 or 1. Skips the test where none can be made."""

    def __init__(self, name, most):
        old = os.path.isdir("/sys/fs/cgroup/memory")
        self.path = os.path.join("/sys/fs/cgroup/memory" if old else "/sys/fs/cgroup", name)
        try:
            os.mkdir(self.path)
            self.write("memory.limit_in_bytes" if old else "memory.max", most)
        except OSError as error:
            self.end()
            print("SKIPPED: no cgroup with a limit of memory can be made here:", error)
            sys.exit(SKIPPED)
        try:
            self.write("memory.swappiness" if old else "memory.swap.max", 0)
        except OSError:
            pass  # there is no swap

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def end(self):
        if os.path.isdir(self.path):
            os.rmdir(self.path)


def check_out_of_memory(setting):
    """The kernel kills a process that wants more than its cgroup may have: its box tells what filled it."""
    group = MemoryGroup(f"vmag-{os.getpid()}", 64 << 20)
    try:
        with Target(setting, setting.boxed()) as target:
            group.write("cgroup.procs", target.pid)
            target.do("small", 1000)
            target.process.stdin.write("fill 1000\n")
            target.process.stdin.flush()
            assert target.process.wait(PATIENCE) == -signal.SIGKILL, target.process.returncode
        told = setting.json("attach", "--json", setting.box(target.pid))
        objects, size = setting.site(setting.box(target.pid), "site_filled")
        print(f"killed with {objects} objects of 1 MiB, {told['peak_resident']} bytes resident at its peak")
        assert 30 <= objects <= 66 and size == objects * 2**20, (objects, size)
        assert setting.site(setting.box(target.pid), "site_small") == (1000, 1000 * SMALL_CLASS)
    finally:
        group.end()


def check_box_counters(setting):
    """Counters in the box follow, without the profile and in a process that only has large objects."""
    with Target(setting, setting.boxed("prof:false")) as target:
        target.do("large", 10)
        time.sleep(0.3)
        target.do("large", 10)
        time.sleep(0.3)
        target.do("large", 1)
        boxed = setting.counters(setting.box(target.pid))["allocated"]
        assert boxed >= 19 << 20, boxed
        target.do("small", 20000)
        time.sleep(0.3)
        target.do("small", 2000)
        assert setting.live_small(setting.box(target.pid)) >= 19800  # of other threads the library counts half a magazine
    # Whoever comes by too soon leaves it to the background thread, which is there since something was freed.
    with Target(setting, setting.boxed("prof:false,dirty_decay_ms:1000")) as target:
        target.do("fill", 20)
        target.do("free")
        time.sleep(3)
        for count in (2, 3):
            target.do("large", count)
        wait_for(lambda: setting.counters(setting.box(target.pid))["allocated"] >= 4.9 * 2**20)
        told = setting.json("attach", "--json", setting.box(target.pid))
        assert told["time"] - told["begun"] >= 3, told
        assert "seconds after the box was made" in setting.run("attach", setting.box(target.pid)).stdout
    # A beginning in which all is allocated within some milliseconds, and not within one.
    with Target(setting, setting.boxed("prof:false")) as target:
        target.do("large", 200)
        time.sleep(0.01)
        target.do("large", 200)
        boxed = setting.counters(setting.box(target.pid))["allocated"]
        assert boxed > 0, boxed


def wait_for(condition):
    end = time.time() + PATIENCE
    while not condition():
        assert time.time() < end
        time.sleep(0.05)


@contextlib.contextmanager
def child_of(target, *how):
    """A child that waits to be killed, and is, whatever comes: it has this test's output open."""
    child = int(target.do(*how)[0])
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)


def check_fork(setting):
    """A child has a box of its own; what it does is not written into its parent's, fork's handlers or not."""
    with Target(setting, setting.boxed()) as target:
        target.do("small", 3000)
        with child_of(target, "fork", 2000) as child:
            wait_for(lambda: setting.is_begun(setting.box(child)) and setting.site(setting.box(child), "site_small")[0] == 5000)
            assert setting.site(child, "site_small")[0] == 5000
            assert setting.site(setting.box(target.pid), "site_small")[0] == 3000
        with child_of(target, "clone") as child:  # without fork's handlers
            wait_for(lambda: setting.site(child, "site_small")[0] == 0)
        assert setting.site(setting.box(target.pid), "site_small")[0] == 3000


def check_reports(setting):
    """libumem's reports of a process that runs."""
    with Target(setting) as target:
        assert "has not seen the request" in setting.refused("umastat", "--wait", "0", target.pid)
        target.do("small", 1000)
        target.do("threads", 2)
        told = setting.json("umastat", "--json", *PATIENTLY, target.pid)
        row = next(row for row in told["caches"] if row["name"] == f"umem_alloc_{SMALL_CLASS}")
        assert told["pid"] == target.pid and 900 < row["in_use"] < 1200, row
        assert "was not started with what this is from" in setting.refused("findleaks", *PATIENTLY, target.pid)
        assert "umem_alloc_" in setting.run("umastat", *PATIENTLY, target.pid).stdout
    os.environ["UMEM_DEBUG"] = "audit"
    with Target(setting) as target:
        target.do("small", 100)
        target.do("threads", 1)
        users = setting.run("umausers", *PATIENTLY, target.pid)
        assert users.returncode == 0 and "site_small" in users.stdout, users
        assert setting.run("findleaks", *PATIENTLY, target.pid).returncode == 0
        assert "no memory is there" in setting.run("whatis", "0x10", *PATIENTLY, target.pid).stdout
        assert setting.json("umem-status", "--json", *PATIENTLY, target.pid)["debugging"] == 1
        assert setting.json("umem-verify", "--json", *PATIENTLY, target.pid)["damaged"] == 0
    del os.environ["UMEM_DEBUG"]


def check_refused(setting):
    """Every reason not to attach is told."""
    with Target(setting) as target:
        if os.geteuid() == 0:
            said = setting.refused("attach", target.pid, user=NOBODY)
            assert "another user" in said, said
        assert "does not run on vmag" in setting.refused("attach", os.getpid())
        assert "there is no process" in setting.refused("attach", 2**22 + 1)
        assert "that is a file" in setting.refused("attach", "--profile", "off", sys.argv[0])
        assert "does not begin like one" in setting.refused("attach", sys.argv[0])
        target.do("spoil", 8, 99)
        for command in ("attach", "heap"):
            said = setting.refused(command, target.pid)
            assert "version 99, this command knows 1 to 2" in said, said
        assert "version 99" in setting.json("explain", "--json", target.pid)["heap_unreadable"]
        target.do("spoil", 8, 1)  # read as ever
        assert setting.json("explain", "--json", target.pid)["heap_unreadable"] is None
    with Target(setting) as target:
        target.do("spoil", 12, 148)
        assert "older than this command" in setting.refused("attach", target.pid)
        assert setting.json("explain", "--json", target.pid)["on_vmag"]
    with Target(setting, f"black_box:{setting.folder}/none/t") as target:  # told on stderr, and that is all
        assert setting.live_small(target.pid) == 0
    with Target(setting, "publish:false") as target:
        assert "publish:false" in setting.refused("attach", target.pid)


def check_spoilt(setting):
    """Whatever a root says, the command neither crashes nor hangs."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    choose = random.Random(seed)
    for _ in range(20):
        with Target(setting, EVERY_ONE) as target:
            target.do("small", 100)
            for _ in range(choose.randrange(1, 4)):
                target.do("spoil", 16 + 4 * choose.randrange(130), choose.choice([0, 1, 7, 4096, 2**31, 2**32 - 1,
                                                                                     choose.randrange(2**32)]))
            for words in (["attach", "--json"], ["heap", "--json"], ["explain", "--json"]):
                result = setting.run(*words, target.pid)
                assert result.returncode in (0, 125), (words, result.returncode, result.stderr)


def check_secure(setting):
    """A setuid program has no root and makes no box, whatever it is linked with and told."""
    if os.geteuid() != 0:
        print("SKIPPED: only root can make a setuid copy of the program")
        sys.exit(SKIPPED)
    os.chmod(setting.folder, 0o755)
    copy = shutil.copy(setting.target + "_linked", setting.folder)
    os.chown(copy, NOBODY, NOBODY)
    os.chmod(copy, 0o4755)
    environment = {**os.environ, "VMAG_CONF": setting.boxed()}
    process = subprocess.Popen([copy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        process.stdin.write("small 1000\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ok\n"
        if f"{NOBODY}" not in open(f"/proc/{process.pid}/status").read():
            print("SKIPPED: the temporary folder does not honour setuid")
            sys.exit(SKIPPED)
        assert "raised privileges" in setting.refused("attach", process.pid)
        assert not os.path.exists(setting.box(process.pid))
    finally:
        process.kill()
        process.wait()


def main(vmag, library, target, case):
    if not os.access(vmag, os.X_OK):
        print("SKIPPED: the vmag command is not built (make tool)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="vmag-attach-") as folder:
        globals()["check_" + case](Setting(vmag, library, target, folder))


main(*sys.argv[1:])
