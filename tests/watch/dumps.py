# Profiles that a program leaves behind: each is whole, says the same by its records and by its samples, and jeprof reads
# the same total.  `dumps.py LIBRARY everything|final PROGRAM [ARGUMENT…]`; `final` runs the program and looks at its one dump.
# SPDX-License-Identifier: BSD-2-Clause
import glob
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile


def records_of(text):
    """Live objects, live bytes of each stack; from the records."""
    body = text[text.index("\n@"):text.index("MAPPED_LIBRARIES")] if "\n@" in text else ""
    return [tuple(int(number) for number in found) for found in re.findall(r"^  t\*: (\d+): (\d+) \[", body, re.MULTILINE)]


def samples_of(text):
    """The same from the samples, weighted here."""
    sums = {}
    for line in text.split("VMAG_PROFILE:\n")[1].splitlines()[1:]:
        stack, _, _, size, lg, live, _ = (int(word) for word in line.split())
        p = 1 if lg == 0 else -math.expm1(-size / 2**lg)
        objects, size_sum = sums.get(stack, (0, 0))
        sums[stack] = objects + live / p, size_sum + size * live / p
    return [sums[stack] for stack in sorted(sums)]


def check(path, steady):
    text = open(path, encoding="utf-8").read()
    assert text.startswith("heap_v2/1\n  t*: "), path
    assert re.search(r"^VMAG_PROFILE:\nlg_sample=\d+ lost=0 .* accum=0\b", text, re.MULTILINE), path
    records, samples = records_of(text), samples_of(text)
    assert len(records) == len(samples), (path, len(records), len(samples))
    for (objects, size), (objects_too, size_too) in zip(records, samples):
        if steady:
            assert abs(objects - objects_too) <= 1 + objects_too * 1e-3, (path, objects, objects_too)
            assert abs(size - size_too) <= 16 + size_too * 1e-3, (path, size, size_too)
    return sum(size for _, size in records)


def jeprof_total(program, path):
    out = subprocess.run(["jeprof", "--text", "--show_bytes", program, path], capture_output=True, text=True).stdout
    return int(re.search(r"Total: (\d+) B", out).group(1))


def check_refused(library, folder, command):
    """One that cannot be written is told, once, where standard error is what it was; not where it is another file by now."""
    conf = "prof:true,prof_final:true,prof_prefix:/nowhere/p"
    told = subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env=dict(os.environ, LD_PRELOAD=library, VMAG_CONF=conf)).stderr
    assert told.startswith("vmag: profile: cannot write /nowhere/p.") and told.count("\n") == 1, told
    closed = os.path.join(folder, "closed")
    os.mkdir(closed, 0o500)
    leave = "import os; os.getuid() == 0 and os.setuid(65534)"
    for option, program in (("prof:true,prof_final:true,prof_prefix", leave), ("trace", f"import os; os.fork() and os._exit(0); {leave}; bytearray(9000000)")):
        told = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, LD_PRELOAD=library, VMAG_CONF=f"{option}:{closed}/p")).stderr
        assert "(errno 13)" in told and "a folder that this user may write in, or start it as that user" in told, (option, told)
    own = os.path.join(folder, "own")
    program = "import os, sys; os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 2)"
    told = subprocess.run([sys.executable, "-c", program, own], check=True, stderr=subprocess.PIPE, text=True,
                          env=dict(os.environ, LD_PRELOAD=library, VMAG_CONF=conf)).stderr
    assert told == "" and os.path.getsize(own) == 0, (told, open(own, encoding="utf-8").read())


def check_no_room(library, folder, command):
    """A black box for which there is no room is told, and leaves no file."""
    boxes = os.path.join(folder, "boxes")
    os.mkdir(boxes)
    told = subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
                          env=dict(os.environ, LD_PRELOAD=library, VMAG_CONF=f"prof:true,black_box:{boxes}/b")).stderr
    assert told.startswith(f"vmag: option black_box: cannot make {boxes}/b.") and told.count("\n") == 1, told
    assert os.listdir(boxes) == [], os.listdir(boxes)


def check_deep(library, folder):
    """A black box named in a folder whose name is long, or too long to put before it, lies there."""
    for levels in (2, 4):
        deep = os.path.join(folder, f"deep{levels}", *["d" * 200] * levels)
        os.makedirs(deep)
        told = subprocess.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], check=False, stderr=subprocess.PIPE, text=True, cwd=deep,
                              env=dict(os.environ, LD_PRELOAD=library, VMAG_CONF="black_box:b")).stderr
        assert told == "" and len(os.listdir(deep)) == 1, (told, os.listdir(deep))


def check_empty(library, folder, command):
    """Without a prefix there is no dump, and nothing is told."""
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    told = subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=empty,
                          env=dict(os.environ, LD_PRELOAD=library, VMAG_CONF="prof:true,prof_final:true,prof_gdump:true,prof_prefix:")).stderr
    assert told == "" and os.listdir(empty) == [], (told, os.listdir(empty))


def check_forked(library, folder):
    """What the magazines of other threads held is nobody's in a child: how much was allocated is not told there."""
    program = ("import os, sys, threading, time\n"
               "allocated = threading.Event()\n"
               "def rest():\n"
               "    bytearray(100000)\n"
               "    allocated.set()\n"
               "    time.sleep(60)\n"
               "threading.Thread(target=rest, daemon=True).start()\n"
               "allocated.wait()\n"
               "child = os.fork()\n"
               "if child:\n"
               "    os.waitpid(child, 0)\n")
    subprocess.run([sys.executable, "-c", program], check=True,
                   env=dict(os.environ, LD_PRELOAD=library, VMAG_CONF=f"prof:true,prof_final:true,prof_prefix:{folder}/forked"))
    lines = [re.search(r"^lg_sample=.*$", open(path, encoding="utf-8").read(), re.MULTILINE).group()
             for path in glob.glob(folder + "/forked.*.heap")]
    assert sorted(" allocated=" in line for line in lines) == [False, True], lines


def check_first_thread_ended(library, folder):
    """/proc/self is empty where the first thread has ended; the files are told all the same."""
    program = ("import ctypes, threading, time\n"
               "c = ctypes.CDLL(None)\n"
               "def rest():\n"
               "    while b'Z (zombie)' not in open('/proc/self/status', 'rb').read():\n"
               "        time.sleep(0.01)\n"
               "    assert open('/proc/self/maps', 'rb').read() == b''\n"
               "    c.exit(0)\n"
               "threading.Thread(target=rest).start()\n"
               "c.pthread_exit(None)\n")
    subprocess.run([sys.executable, "-c", program], check=True,
                   env=dict(os.environ, LD_PRELOAD=library, VMAG_CONF=f"prof:true,prof_final:true,prof_prefix:{folder}/threads"))
    dump, = glob.glob(folder + "/threads.*.heap")
    parts = open(dump, encoding="utf-8").read().split("MAPPED_LIBRARIES:")[1].split("VMAG_PROFILE:")[0]
    assert re.search(r"^[0-9a-f]+-[0-9a-f]+ r-xp .*/libvmag[.]so$", parts, re.MULTILINE), parts


def main(library, kind, *command):
    with tempfile.TemporaryDirectory() as folder:
        conf = f"prof:true,prof_prefix:{folder}/p," + (
            "prof_final:true,lg_prof_sample:16" if kind == "final" else "lg_prof_sample:12,lg_prof_interval:23,prof_gdump:true,"
            f"trace:{folder}/t,trace_stacks:true,trace_ring:true,trace_bytes:4194304")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, LD_PRELOAD=library, VMAG_CONF=conf))
        dumps = sorted(glob.glob(folder + "/p.*.heap"))
        totals = [check(dump, kind == "final") for dump in dumps]
        print(len(dumps), "dumps, the last of", totals[-1], "bytes")
        if kind == "final":
            check_refused(library, folder, command)
            check_no_room(library, folder, command)
            check_deep(library, folder)
            check_empty(library, folder, command)
            check_forked(library, folder)
            check_first_thread_ended(library, folder)
            assert len(dumps) == 1 and dumps[0].endswith(".f.heap"), dumps
            if shutil.which("jeprof"):
                theirs = jeprof_total(command[0], dumps[0])
                assert abs(theirs - totals[0]) <= totals[0] * 1e-3, (theirs, totals[0])
                print("jeprof says", theirs)
            else:
                print("without jeprof (libjemalloc-dev): its total is not compared")


main(*sys.argv[1:])
