# Event traces: every event is there, threads and forks included; limits hold; what is left after SIGKILL can be read.
# `trace.py VMAG LIBRARY SITES EVERYTHING TRACED PLUGIN`.
# SPDX-License-Identifier: BSD-2-Clause
import glob
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CHUNK = 65536


def environment(library, conf):
    return dict(os.environ, LD_PRELOAD=library, VMAG_CONF=conf)


def summary_of(vmag, path):
    done = subprocess.run([vmag, "trace", "--json", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"vmag trace {path}: status {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)


def class_of(summary, size):
    return next(row for row in summary["classes"] if row["bytes"] == size)


def check_counts(vmag, library, sites, folder):
    path = os.path.join(folder, "large.trace")
    subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={path}", "--", sites, "large"], check=True,
                   stdout=subprocess.DEVNULL)
    summary = summary_of(vmag, path)
    assert class_of(summary, 1 << 20)["allocations"] == class_of(summary, 1 << 20)["live_at_end"] == 100
    assert class_of(summary, 5120)["allocations"] == 4000, class_of(summary, 5120)
    assert summary["events"] < 4300 and summary["damaged_chunks"] == 0 and summary["unknown_frees"] == 0, summary
    rows = subprocess.run([vmag, "trace", "--events", path], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(rows) == summary["events"] + 1 and rows[0] == "nanoseconds,thread,event,address,size,number,where"
    times = [int(row.split(",")[0]) for row in rows[1:]]
    assert times == sorted(times)
    subprocess.run([vmag, "map", path, "-o", os.path.join(folder, "map.png")], check=True)
    assert open(os.path.join(folder, "map.png"), "rb").read(4) == b"\x89PNG"

    path = os.path.join(folder, "churn.trace")
    subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={path}", "--", sites, "churn"], check=True,
                   stdout=subprocess.DEVNULL)
    row, summary = class_of(summary_of(vmag, path), 64), summary_of(vmag, path)
    assert row["allocations"] >= 1100000 and row["frees"] >= 1000000 and row["live_at_end"] in range(100000, 100100), row
    each = summary["file_bytes"] / summary["events"]
    print(f"{summary['events']} events, {each:.1f} bytes each")
    assert each < 12

    path = os.path.join(folder, "threads.trace")
    subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={path}", "--", sites, "threads"], check=True,
                   stdout=subprocess.DEVNULL)
    summary = summary_of(vmag, path)
    assert class_of(summary, 64)["allocations"] in range(160000, 160100), class_of(summary, 64)
    assert summary["threads"] == 5, summary["threads"]


# What the C library allocates for the library's own thread is neither sampled nor traced, and neither is its free.
def check_own_thread(vmag, library, traced, folder):
    trace, profile = os.path.join(folder, "thread.trace"), os.path.join(folder, "thread.heap")
    for words in ([f"--trace={trace}", "--trace-stacks"], [f"--profile={profile}", "--sample-bytes=1"]):
        subprocess.run([vmag, "run", "--quiet", "--lib", library, *words, "--", traced, "thread"], check=True)
    summary = summary_of(vmag, trace)
    assert summary["unknown_frees"] == 0, summary
    for path in (trace, profile):
        told = subprocess.run([vmag, "heap", "--json", path], capture_output=True, text=True, check=True).stdout
        live = [site for site in json.loads(told)["sites"] if site["objects"] > 0]
        own = [site for site in live if any(frame["function"] in ("site_freed", "set") for frame in site["frames"])]
        assert not own, (path, own)


# Caches that are gone, and as many as there may be: all are told by name, and their objects are the heap's; those of a cache of places are not.
def check_names(vmag, library, traced, folder):
    path = os.path.join(folder, "names.trace")
    subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={path}", "--trace-stacks", "--", traced, "names"], check=True)
    summary = summary_of(vmag, path)
    caches = {cache["name"]: cache for cache in summary["caches"]}
    assert caches["gone_first"]["allocations"] == caches["gone_first"]["frees"] == 3000, caches["gone_first"]
    assert 0 <= summary["peak_live_bytes"] - 3000 * 4096 < 4096, summary["peak_live_bytes"]
    assert 0 <= summary["allocated_bytes"] - 3000 * 4096 - 25000 * 256 < 4096, summary["allocated_bytes"]
    assert [arena["peak_live"] for arena in summary["arenas"] if arena["name"] == "gone_arena"] == [9000], summary["arenas"]
    workers = [caches[f"connection_state_of_worker_{number}"]["live"] for number in range(2500)]
    assert workers == [10] * 2500 and 0 <= summary["live_bytes_at_end"] - 25000 * 256 < 4096, summary["live_bytes_at_end"]
    print(len(caches), "caches by name")


# More mappings than there is room for in one chunk.
def check_libraries(vmag, library, traced, plugin, folder):
    place = os.path.join(folder, "x" * 200)
    os.mkdir(place)
    files = [shutil.copy(plugin, os.path.join(place, f"{number}.so")) for number in range(300)]
    for extra in ([], ["--trace-ring"]):
        path = os.path.join(folder, f"libraries{len(extra)}.trace")
        subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={path}", "--trace-stacks", *extra, "--", traced, "libraries", *files],
                       check=True)
        done = subprocess.run([vmag, "heap", "--json", path], capture_output=True, text=True, check=True)
        named = sum(site["objects"] for site in json.loads(done.stdout)["sites"] if site["frames"] and site["frames"][0]["function"] == "allocate")
        text = subprocess.run([vmag, "heap", path], capture_output=True, text=True, check=True)
        is_cut = "that the recording had no room to name" in text.stdout + text.stderr
        print(f"{named} of {len(files)} libraries by name, {extra}, cut: {is_cut}")
        assert (named == len(files) and not is_cut) if not extra else (0 < named < len(files) and is_cut), done.stderr


# A realloc that moves an object is an allocation and a free; one that does not names an object that is there.
def check_moves(vmag, library, sites, folder):
    path = os.path.join(folder, "resized.trace")
    subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={path}", "--", sites, "resized"], check=True,
                   stdout=subprocess.DEVNULL)
    summary, live, moves = summary_of(vmag, path), {}, 0
    rows = subprocess.run([vmag, "trace", "--events", path], capture_output=True, text=True, check=True).stdout.splitlines()
    for _, _, event, address, size, *_ in (row.split(",") for row in rows[1:]):
        if event == "resize":
            assert address in live, address
        if event == "free":
            moves += int(live.pop(address)) > 1 << 20
        else:
            live[address] = size
    assert moves > 0
    assert summary["allocations"] - summary["frees"] - summary["resizes"] == summary["live_objects_at_end"] == len(live), summary


# Forks, threads' ends and dlopen while a trace overwrites itself.
def check_ring(vmag, library, sites, everything, folder):
    prefix = os.path.join(folder, "ring")
    conf = f"trace:{prefix},trace_bytes:{16 * CHUNK},trace_ring:true,trace_stacks:true,prof:true,lg_prof_sample:14"
    for seconds in (3, 30, 300):  # a busy machine needs more to fill the ring
        subprocess.run([everything, str(seconds)], check=True, env=environment(library, conf), stderr=subprocess.DEVNULL)
        files = glob.glob(prefix + ".*.trace")
        assert files  # children that end by _exit before they filled a chunk leave none
        assert all(os.path.getsize(path) <= 16 * CHUNK for path in files)
        largest = max(files, key=os.path.getsize)
        summary = summary_of(vmag, largest)
        if summary["oldest_events_missing"]:
            break
    print(f"{len(files)} files; the largest holds {summary['events']} events of {summary['seconds']:.2f} s")
    assert summary["oldest_events_missing"] and summary["damaged_chunks"] == 0, summary
    check_no_verdict(vmag, largest)
    path = os.path.join(folder, "stacks")
    subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={path}", "--trace-ring", "--trace-bytes=512k", "--trace-stacks",
                    "--callers=frames", "--", sites, "stacks"], check=True, stdout=subprocess.DEVNULL)
    summary = summary_of(vmag, path)
    assert 1000 < summary["unknown_stacks"] <= summary["allocations"], summary
    told = subprocess.run([vmag, "trace", path], capture_output=True, text=True, check=True)
    assert f"no room for the stacks of {summary['unknown_stacks']:,} of " in told.stdout + told.stderr, told


def check_limit(vmag, library, sites, folder):
    prefix = os.path.join(folder, "limit")
    subprocess.run([sites, "churn"], check=True, env=environment(library, f"trace:{prefix},trace_bytes:{3 * CHUNK}"),
                   stdout=subprocess.DEVNULL)
    path = glob.glob(prefix + ".*.trace")[0]
    assert 2 * CHUNK < os.path.getsize(path) <= 3 * CHUNK
    summary = summary_of(vmag, path)
    assert not summary["oldest_events_missing"] and summary["newest_events_missing"] and summary["events"] > 20000
    check_no_verdict(vmag, path)
    assert "newest events are not there" in subprocess.run([vmag, "trace", path], capture_output=True, text=True, check=True).stdout
    for ring, least in (("false", 2), ("true", 4)):
        small = os.path.join(folder, "small" + ring)
        subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={small}", f"--trace-bytes={least * CHUNK}", *["--trace-ring"] * (least == 4),
                        "--trace-stacks", "--", sites, "churn"], check=True, stdout=subprocess.DEVNULL)
        assert os.path.getsize(small) <= least * CHUNK, (ring, os.path.getsize(small))
    tight = os.path.join(folder, "tight")  # room for one chunk of events and what the file says of itself
    subprocess.run([sites, "churn"], check=True, env=environment(library, f"trace:{tight},trace_bytes:{2 * CHUNK},trace_stacks:true"),
                   stdout=subprocess.DEVNULL)
    check_no_verdict(vmag, glob.glob(tight + ".*.trace")[0])
    whole = os.path.join(folder, "whole")
    subprocess.run([sites, "churn"], check=True, env=environment(library, f"trace:{whole}"), stdout=subprocess.DEVNULL)
    path = glob.glob(whole + ".*.trace")[0]
    assert not summary_of(vmag, path)["newest_events_missing"] and not summary_of(vmag, path)["missing_at_ends"]
    subprocess.run([vmag, "check", "--most-peak", "1G", path], check=True, stdout=subprocess.DEVNULL)
    with open(path, "rb") as file, open(whole + ".cut", "wb") as cut:
        cut.write(file.read(3 * CHUNK))
    check_no_verdict(vmag, whole + ".cut")
    assert "the file was cut: 3 of " in summary_of(vmag, whole + ".cut")["missing_at_ends"][0]
    for words in (["map", "-o", whole + ".png", whole + ".cut"], ["frag", whole + ".cut"],
                  ["export", whole + ".cut", whole + ".perfetto.json"]):
        done = subprocess.run([vmag, *words], capture_output=True, text=True, check=True)
        assert "warning: " in done.stdout + done.stderr and "the file was cut: 3 of " in done.stdout + done.stderr, (words, done)
    report = subprocess.run([vmag, "report", "--json", whole + ".cut", "-o", whole + ".html"], capture_output=True, text=True, check=True)
    told = json.loads(report.stdout)
    assert "the file was cut" in told["missing"] and told["bytes"] == os.path.getsize(whole + ".html"), told


# What is known in part may have been beyond any limit.
def check_no_verdict(vmag, path):
    gate = subprocess.run([vmag, "check", "--most-peak", "1G", path], capture_output=True, text=True)
    assert gate.returncode == 125 and "does not tell all that was alive" in gate.stderr, gate


LOOP = 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); a="$i$a"; a=${a%"${a#????????}"}; done'


# A file may be no longer, as the process is told: its trace ends, and it does not. One line says so, but not in what is the program's.
def check_file_size(vmag, library, sites, folder):
    def errors(prefix, command, most):
        return subprocess.run(command, check=True, env=environment(library, f"trace:{prefix}"), stdout=subprocess.DEVNULL, cwd=folder,
                              stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))).stderr

    prefix = os.path.join(folder, "size")
    told = errors(prefix, [sites, "churn"], 5 * CHUNK // 2)
    assert told.startswith(f"vmag: trace: cannot write {prefix}.") and told.count("\n") == 1, told
    path = glob.glob(prefix + ".*.trace")[0]
    assert os.path.getsize(path) == 5 * CHUNK // 2
    summary = summary_of(vmag, path)
    assert summary["events"] > 10000 and summary["damaged_chunks"] <= 1 and summary["newest_events_missing"]
    for own in False, True:
        told = errors(os.path.join(folder, "nowhere", "trace"), ["sh", "-c", "exec 2>own; " * own + LOOP], CHUNK)
        assert told.startswith("vmag: trace: cannot make ") != own and told.count("\n") == (not own), told
    assert os.path.getsize(os.path.join(folder, "own")) == 0


def check_killed(vmag, library, everything, folder):
    prefix = os.path.join(folder, "killed")
    process = subprocess.Popen([everything, "60"], env=environment(library, f"trace:{prefix}"), stderr=subprocess.DEVNULL)
    while sum(map(os.path.getsize, glob.glob(f"{prefix}.{process.pid}.*.trace"))) < 4 * CHUNK:
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    summary = summary_of(vmag, glob.glob(f"{prefix}.{process.pid}.*.trace")[0])
    print(f"killed: {summary['events']} events, {summary['damaged_chunks']} damaged chunks")
    assert summary["events"] > 10000 and summary["damaged_chunks"] <= 1 and "it has no end" in summary["missing_at_ends"][-1]
    check_no_verdict(vmag, glob.glob(f"{prefix}.{process.pid}.*.trace")[0])


# A daemon closes what it does not know, and goes to the root. Its trace goes on, where the file's name leads to it still; else no word says that the file is whole.
def check_closed(vmag, library, folder):
    for name, lost in ("closed", False), ("moved", True):
        prefix = os.path.join(folder, name)
        program = "import glob, os\nkept = [str(i) * 9 for i in range(20000)]\n" \
                  f"if {lost}: [os.rename(name, name + '.moved') for name in glob.glob('{name}.*.trace')]\n" \
                  "os.chdir('/')\nos.closerange(3, 256)\nkept += [str(i) * 9 for i in range(200000)]\n"
        subprocess.run([sys.executable, "-c", program], check=True, cwd=folder, stderr=subprocess.PIPE if lost else None,
                       env=dict(environment(library, f"trace:{name}"), PYTHONMALLOC="malloc"))
        path = glob.glob(prefix + ".*.trace*")[0]
        summary = summary_of(vmag, path)
        print(f"{name}: {summary['events']} events, {summary['missing_at_ends']}")
        assert (summary["events"] > 220000 and not summary["missing_at_ends"]) != lost, summary["events"]
        if lost:
            check_no_verdict(vmag, path)


# A daemon that runs on keeps the file that it writes to, which is not bundled under its hands.
def check_daemon(vmag, library, sites, folder):
    path, number = os.path.join(folder, "daemon.trace"), os.path.join(folder, "number")
    script = f'({LOOP}; exec sleep 600) >/dev/null 2>&1 & echo $! >"$0"; while ! test -s "$1"/.vmag-trace-*/of.$!.0.trace; do sleep 0.1; done; exec "$2" large'
    subprocess.run([vmag, "run", "--quiet", "--bundle", "--lib", library, f"--trace={path}", "--", "sh", "-c", script, number, folder, sites],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    daemon = int(open(number, encoding="ascii").read())
    try:
        kept = glob.glob(os.path.join(folder, f".vmag-trace-*/of.{daemon}.0.trace"))
        assert len(kept) == 1 and not os.path.exists(os.path.join(folder, f"daemon.{daemon}.trace")), os.listdir(folder)
        assert summary_of(vmag, path)["events"] > 4000 and summary_of(vmag, kept[0])["events"] > 1000
    finally:
        os.kill(daemon, signal.SIGKILL)


# Switched on and off by the program itself: caches, arenas and stacks.
def check_controls(vmag, library, traced, folder):
    prefix = os.path.join(folder, "own")
    with subprocess.Popen([traced, prefix], env=environment(library, "prof_unwinder:frames")) as process:
        assert process.wait() == 0
    own = [f"{prefix}.{process.pid}.{n}.trace" for n in range(4)]
    childs = sorted(set(glob.glob(prefix + ".*.trace")) - set(own))
    first, second = own[:2]
    assert len(childs) == 1, childs
    summary = summary_of(vmag, first)
    assert class_of(summary, 224)["allocations"] == 3000 and class_of(summary, 224)["live_at_end"] == 1000, summary["classes"]
    began, ended = summary["missing_at_ends"]
    assert "begun in a running process" in began and "it was ended while the process ran on" in ended, summary["missing_at_ends"]
    check_no_verdict(vmag, first)
    cache = next(row for row in summary["caches"] if row["name"] == "frobs")
    assert cache["allocations"] in range(3001, 3301) and cache["live"] in range(900, 1001) and cache["peak_live"] > 2900, cache
    # The sums are of what is alive: with the objects of caches.
    assert summary["allocations"] == class_of(summary, 224)["allocations"] + cache["allocations"] and summary["allocated_bytes"] > 6000 * 96, summary
    assert summary["allocations"] - summary["frees"] - summary["resizes"] + summary["unknown_frees"] == summary["live_objects_at_end"], summary
    arena = next(row for row in summary["arenas"] if row["name"] == "ids")
    assert (arena["allocations"], arena["frees"], arena["live"]) == (3000, 2000, 3000), arena
    text = subprocess.run([vmag, "trace", "--top=1", first], capture_output=True, text=True, check=True).stdout
    assert "  frobs\n" in text and "  ids\n" in text and "most alive" in text, text
    assert summary["has_stacks"] and summary["damaged_chunks"] == 0
    for path in [first, *own[2:], *childs]: # each tells the stacks, also those that one before has told
        heap = json.loads(subprocess.run([vmag, "heap", "--json", path], capture_output=True, text=True, check=True).stdout)
        by_site = {frame["function"]: site for site in heap["sites"] for frame in site["frames"]}
        assert by_site["site_malloc"]["objects"] == 1000, (path, heap["sites"])
        assert path != first or by_site["site_cache"]["bytes"] == 96 * 1000, heap["sites"]
    lines = os.path.join(folder, "t.perfetto.json")
    subprocess.run([vmag, "export", first, lines], check=True)
    assert any(event["name"] == "live bytes" for event in json.load(open(lines, encoding="utf-8"))["traceEvents"])
    proto = os.path.join(folder, "t.pb.gz")
    subprocess.run([vmag, "export", first, proto], check=True)
    assert open(proto, "rb").read(2) == b"\x1f\x8b"
    summary = summary_of(vmag, second)
    assert class_of(summary, 224)["allocations"] == 3000 and not summary["has_stacks"] and not summary["caches"], summary
    each = summary["file_bytes"] / summary["events"]
    print(f"own traces: {summary['events']} events in the second, {each:.1f} bytes each with the facts")


# The first part of a program that ends its trace and begins another.
def check_parts(vmag, library, folder):
    path = os.path.join(folder, "parts.trace")
    program = ("import ctypes; set = lambda on: ctypes.CDLL(None).mallctl(b'trace.active', None, None, ctypes.byref(ctypes.c_bool(on)), ctypes.c_size_t(1));"
               "assert set(False) == 0 and set(True) == 0")
    told = subprocess.run([vmag, "run", "--lib", library, f"--trace={path}", "--", sys.executable, "-c", program],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True).stderr
    assert "or its trace was ended" in told, told
    (first,) = glob.glob(os.path.join(folder, "parts.*.0.trace"))
    assert summary_of(vmag, first)["missing_at_ends"] == ["the newest events are not there: it was ended while the process ran on"]
    check_no_verdict(vmag, first)


# Thousands of stacks that share their outer frames: all are told whole, in few bytes.
def check_stacks(vmag, library, folder):
    path, out = os.path.join(folder, "stacks.trace"), os.path.join(folder, "stacks.collapsed")
    program = "import json\ndef deep(n): return [str(n) * 50] + deep(n - 1) if n else []\n" \
              "for i in range(40): json.loads(json.dumps({str(k): [k, {'a': deep(k % 30)}] for k in range(60)}))"
    subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={path}", "--trace-stacks", "--", sys.executable, "-c", program],
                   check=True, env={**os.environ, "PYTHONMALLOC": "malloc"})
    summary = summary_of(vmag, path)
    each = summary["file_bytes"] / summary["events"]
    subprocess.run([vmag, "export", path, out], check=True)
    with open(out, encoding="utf-8") as file:
        stacks = [line.rsplit(" ", 1)[0].split(";") for line in file]
    cut = [stack for stack in stacks if stack[0] != "_start" and len(stack) < 128]
    print(f"{summary['events']} events of {len(stacks)} stacks, {each:.1f} bytes each")
    assert len(stacks) > 50 and not cut, cut[:3]
    assert each < 12


# A trace of a part of a program's time.
def check_time_limit(vmag, library, everything, folder):
    for seconds in (1, 8, 64):  # on a busy machine the program's start takes a good part of a second, and who notices the end comes late
        prefix = os.path.join(folder, f"limited{seconds}")
        subprocess.run([everything, str(3 * seconds)], check=True, env=environment(library, f"trace:{prefix},trace_seconds:{seconds}"),
                       stderr=subprocess.DEVNULL)
        largest = max(glob.glob(prefix + ".*.trace"), key=os.path.getsize)
        part = summary_of(vmag, largest)["seconds"] / seconds
        check_no_verdict(vmag, largest)
        print(f"limited to {seconds} s: {part:.2f} of it")
        if 0.8 < part < 1.3:
            return
    raise AssertionError(part)


def main(vmag, library, sites, everything, traced, plugin):
    if not os.path.exists(vmag):
        print(f"SKIPPED: {vmag} is not built (make tool)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        check_counts(vmag, library, sites, folder)
        check_moves(vmag, library, sites, folder)
        check_limit(vmag, library, sites, folder)
        check_file_size(vmag, library, sites, folder)
        check_ring(vmag, library, sites, everything, folder)
        check_killed(vmag, library, everything, folder)
        check_closed(vmag, library, folder)
        check_daemon(vmag, library, sites, folder)
        check_controls(vmag, library, traced, folder)
        check_own_thread(vmag, library, traced, folder)
        check_names(vmag, library, traced, folder)
        check_libraries(vmag, library, traced, plugin, folder)
        check_parts(vmag, library, folder)
        check_stacks(vmag, library, folder)
        check_time_limit(vmag, library, everything, folder)


main(*sys.argv[1:])
