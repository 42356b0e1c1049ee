# Runs the programs of this folder under limits: `limits.py address-space|data|cgroup|overcommit EXERCISE EXHAUST CHURN`.
# overcommit changes a setting of the whole machine for a second and puts it back; it wants VMAG_TEST_CHANGE_SYSTEM=1.
# SPDX-License-Identifier: BSD-2-Clause
import os
import resource
import signal
import subprocess
import sys
import time

SKIPPED = 77
MEBIBYTE = 1 << 20
OVERCOMMIT = "/proc/sys/vm/overcommit_memory"
failures = 0


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def run(name, command, prepare=None):
    global failures
    result = subprocess.run(command, preexec_fn=prepare, stderr=subprocess.PIPE, text=True, timeout=1000)
    print(f"{name}: {'ok' if result.returncode == 0 else 'FAILED, status ' + str(result.returncode)}")
    print("   " + result.stderr.strip().replace("\n", "\n   "))
    failures += result.returncode != 0


def limited(kind, mebibytes):
    return lambda: resource.setrlimit(kind, (mebibytes * MEBIBYTE, mebibytes * MEBIBYTE))


# What a limit must leave to the program: half of it from 64 MiB on; below, only that it works.
def address_space_or_data(kind, exercise, exhaust):
    for mebibytes in (24, 64, 256, 700):
        name = f"limit {mebibytes} MiB"
        run(f"{name}, exercise", [exercise], limited(kind, max(mebibytes, 64)))
        run(f"{name}, exhaust", [exhaust, str(mebibytes // 2 if mebibytes >= 64 else 4)], limited(kind, mebibytes))


def cgroup_folder():
    version_2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    root = "/sys/fs/cgroup" if version_2 else "/sys/fs/cgroup/memory"
    limit_file = "memory.max" if version_2 else "memory.limit_in_bytes"
    folder = f"{root}/vmag-test-{os.getpid()}"
    try:
        os.mkdir(folder)
    except OSError as error:
        skip(f"cannot make a memory cgroup: {error}")
    if not os.path.exists(f"{folder}/{limit_file}"):
        os.rmdir(folder)
        skip("the memory controller is not available in cgroups here")
    return folder, limit_file


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def remove(folder):
    """The kernel may still be at work on the end of what ran there."""
    for _ in range(100):
        try:
            return os.rmdir(folder)
        except OSError:
            time.sleep(0.1)


def cgroup(exercise, churn):
    folder, limit_file = cgroup_folder()
    try:
        write(f"{folder}/{limit_file}", str(64 * MEBIBYTE))

        def enter():
            write(f"{folder}/cgroup.procs", str(os.getpid()))

        run("cgroup of 64 MiB, 24 MiB live", [churn], enter)
        run("cgroup of 64 MiB, exercise", [exercise], enter)
    finally:
        remove(folder)


def meminfo(key):
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key + ":"))


def overcommit(exercise, exhaust):
    if os.environ.get("VMAG_TEST_CHANGE_SYSTEM") != "1":
        skip("set VMAG_TEST_CHANGE_SYSTEM=1 to let this test set vm.overcommit_memory for a second")
    if not os.access(OVERCOMMIT, os.W_OK):
        skip(f"{OVERCOMMIT} is not writable")
    if meminfo("Committed_AS") * 2 > meminfo("CommitLimit"):
        skip("too much memory is committed on this machine to try vm.overcommit_memory=2")
    with open(OVERCOMMIT) as file:
        before = file.read()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        write(OVERCOMMIT, "2")
        run("vm.overcommit_memory=2, exercise", [exercise])
        run("vm.overcommit_memory=2, limit 256 MiB, exhaust", [exhaust, "128"], limited(resource.RLIMIT_AS, 256))
    finally:
        write(OVERCOMMIT, before)


def main(kind, exercise, exhaust, churn):
    if kind == "address-space":
        address_space_or_data(resource.RLIMIT_AS, exercise, exhaust)
    elif kind == "data":
        address_space_or_data(resource.RLIMIT_DATA, exercise, exhaust)
    elif kind == "cgroup":
        cgroup(exercise, churn)
    else:
        overcommit(exercise, exhaust)
    sys.exit(failures != 0)


main(*sys.argv[1:])
