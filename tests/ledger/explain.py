# `vmag explain` from another process against what is known: the library's own ledger, python3, redis-server, a command.
# `explain.py LIBRARY VMAG SELF`.  VMAG is the built command; without it the test is skipped.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

MEBIBYTE = 1 << 20
SLACK = MEBIBYTE // 4
SKIPPED = 77


def environment(library):
    return {**os.environ, "LD_PRELOAD": library, "VMAG_CONF": "dirty_decay_ms:-1,thp:never"}


def explain(vmag, pid):
    output = subprocess.run([vmag, "explain", "--json", str(pid)], stdout=subprocess.PIPE, check=True).stdout
    told = json.loads(output)
    check_sums(told)
    return told


def check_sums(told):
    assert sum(told["rows"].values()) == told["resident_bytes"], told
    assert sum(told["proportional_rows"].values()) == told["proportional_bytes"], told
    assert told["on_vmag"] and told["library_version"] and told["heap_unreadable"] is None, told


def in_use(told):
    return sum(told["rows"][row] for row in ("live_bytes", "cached_bytes", "rounding_bytes"))


def check_against_self(vmag, program, options=""):
    """The library counts with its locks, the command without them: in a quiet process they must agree."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, "VMAG_CONF": "dirty_decay_ms:-1,thp:never" + options})
    own = json.loads(process.stdout.readline())
    told = explain(vmag, process.pid)
    counted = json.loads(subprocess.run([vmag, "attach", "--json", str(process.pid)], stdout=subprocess.PIPE, check=True).stdout)["counters"]
    process.communicate(b"\n")
    assert process.returncode == 0
    for row, bytes_told in told["rows"].items():
        print(f"{row:18} library {own['rows'][row]:>12} command {bytes_told:>12}")
        # What other threads' fronts hold the library estimates; the command looks into their magazines.
        estimated = row in ("live_bytes", "cached_bytes", "rounding_bytes")
        assert abs(bytes_told - own["rows"][row]) <= (MEBIBYTE if estimated else SLACK // 2), row
    assert abs(in_use(told) - in_use(own)) <= SLACK // 2
    assert told["rows"]["live_bytes"] > 25 * MEBIBYTE and told["rows"]["dirty_bytes"] > 7 * MEBIBYTE
    assert told["rows"]["holes_bytes"] > 5 * MEBIBYTE and told["rows"]["anonymous_bytes"] > 3.9 * MEBIBYTE
    assert told["rows"]["caches_bytes"] > 10000 * 500
    assert told["torn_structures"] == 0
    # Of each 1500 objects 64 are of this class, and a third was freed.
    live = next((size["live"] for size in counted["classes"] if size["size"] == 512), 0)
    print(f"{live} objects of 512 bytes")
    assert 1100 <= live <= 1250, live


PROGRAM = """
import sys
def row(size, count): return [bytes(size) for _ in range(count)]
print("empty", flush=True); sys.stdin.readline()
objects = row(1000, 30000); large = bytearray(b"x") * (16 << 20)
print("full", flush=True); sys.stdin.readline()
del objects[::2], large
print("half", flush=True); sys.stdin.readline()
"""


def check_python(library, vmag):
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**environment(library), "PYTHONMALLOC": "malloc"})
    told = []
    for _ in range(3):
        process.stdout.readline()
        told.append(explain(vmag, process.pid)["rows"])
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert process.wait() == 0
    empty, full, half = told
    held = full["live_bytes"] + full["rounding_bytes"] - empty["live_bytes"] - empty["rounding_bytes"]

    assert 30000 * 1033 + 16 * MEBIBYTE <= held + SLACK and held <= 30000 * 1280 + 20 * MEBIBYTE, held
    unused = sum(half[row] - full[row] for row in ("holes_bytes", "cached_bytes", "dirty_bytes"))
    assert unused > 15000 * 1000 + 14 * MEBIBYTE, unused


THREADS = """
import sys, threading
def work():
    objects = [bytes(size) for _ in range(40) for size in range(100, 900, 50)]
    del objects
    done.append(1)
    end.wait()
end, done = threading.Event(), []
threads = [threading.Thread(target=work) for _ in range(100)]
for thread in threads: thread.start()
while len(done) < len(threads): pass
print("full", flush=True); sys.stdin.readline(); end.set()
"""


LARGE = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
held = [libc.malloc(100000) for _ in range(20000)]
for address in held:
    ctypes.memset(address, 1, 100)
print(flush=True)
sys.stdin.readline()
"""


def check_large(library, vmag):
    """Of large objects only what is resident is rounded up: here their first pages."""
    process = subprocess.Popen([sys.executable, "-c", LARGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**environment(library), "VMAG_CONF": "thp:never"})
    process.stdout.readline()
    rows = explain(vmag, process.pid)["rows"]
    process.communicate(b"\n")
    assert rows["live_bytes"] > 20000 * 4096 - MEBIBYTE and rows["rounding_bytes"] < 2 * MEBIBYTE, rows


def check_threads(library, vmag):
    """Free objects that threads hold are told as `vmag attach` counts them, those beside the magazines, too."""
    process = subprocess.Popen([sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**environment(library), "PYTHONMALLOC": "malloc"})
    process.stdout.readline()
    told = explain(vmag, process.pid)["rows"]
    counted = subprocess.run([vmag, "attach", "--json", str(process.pid)], stdout=subprocess.PIPE, check=True).stdout
    process.communicate(b"\n")
    assert process.returncode == 0
    cached = json.loads(counted)["counters"]["cached"]
    print(f"in magazines of 100 threads: {told['cached_bytes']}, by attach {cached}")
    assert abs(told["cached_bytes"] - cached) <= SLACK // 4


POPULATE = "for i = 1, 100000 do redis.call('set', 'key' .. i, string.rep('x', 200)) end"


def check_redis(library, vmag):
    if not shutil.which("redis-server"):
        print("redis-server is not installed: not tried")
        return
    with tempfile.TemporaryDirectory(prefix="vmag-explain-") as folder:
        socket = os.path.join(folder, "socket")
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder],
                                  stdout=subprocess.DEVNULL, env=environment(library))
        try:
            while not os.path.exists(socket):
                assert server.poll() is None
                time.sleep(0.05)
            before = explain(vmag, server.pid)["rows"]
            redis = ["redis-cli", "-s", socket]
            subprocess.run(redis + ["eval", POPULATE, "0"], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["redis-benchmark", "-s", socket, "-q", "-n", "20000", "-t", "set"], check=True,
                           stdout=subprocess.DEVNULL)
            after = explain(vmag, server.pid)
        finally:
            server.terminate()
            server.wait()
        held = after["rows"]["live_bytes"] + after["rows"]["rounding_bytes"] - before["live_bytes"]
        assert 100000 * 200 < held < 100000 * 400, held
        assert after["program"] == "redis-server"


def check_command(library, vmag):
    program = "x = bytearray(b'x') * (40 << 20)\nimport time\ntime.sleep(2)"
    result = subprocess.run([vmag, "explain", "--json", "--lib", library, "--", sys.executable, "-c", program],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stderr)
    check_sums(told)
    assert told["rows"]["live_bytes"] + told["rows"]["anonymous_bytes"] > 39 * MEBIBYTE, told
    assert told["peak_resident_bytes"] >= told["resident_bytes"] - MEBIBYTE, told


def main(library, vmag, program):
    if not os.access(vmag, os.X_OK):
        print("SKIPPED: the vmag command is not built (make tool)")
        sys.exit(SKIPPED)
    check_against_self(vmag, program)
    check_against_self(vmag, program, ",prof:true,lg_prof_sample:0")  # each object in a slab of samples
    check_python(library, vmag)
    check_large(library, vmag)
    check_threads(library, vmag)
    check_redis(library, vmag)
    check_command(library, vmag)


main(*sys.argv[1:])
