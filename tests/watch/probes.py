# The library has OpenTelemetry's probes where it says, and they fire: gdb stops at one with the arguments that it promises.
# `probes.py LIBRARY SITES`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import re
import shutil
import subprocess
import sys
import tempfile


def notes(library):
    text = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    return re.findall(r"Provider: otel_memory\s+Name: (\w+)\s+Location: (\S+), Base: \S+, Semaphore: (\S+)\s+Arguments: (.*)", text)


# Each resize is a free and an allocation: all that is allocated was not there, and all that is freed was.
def check_resizes(library, sites):
    script = ["set breakpoint pending on", "set startup-with-shell off", "set environment VMAG_CONF prof:true,lg_prof_sample:0",
              f"set environment LD_PRELOAD {library}"]
    for name, told in ("alloc", r'"alloc %lu %lu\n", $_probe_arg0, $_probe_arg1'), ("free", r'"free %lu\n", $_probe_arg0'):
        script += [f"break -probe-stap libvmag.so:otel_memory:{name}", "commands", "silent", f"printf {told}", "continue", "end"]
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as file:
        file.write("\n".join([*script, "run resized"]) + "\n")
        file.flush()
        out = subprocess.run(["gdb", "-q", "-batch", "-nx", "-x", file.name, sites], capture_output=True, text=True, timeout=1000,
                             env=dict(os.environ, DEBUGINFOD_URLS="")).stdout
    live, resizes = {}, 0
    for what, address, size in re.findall(r"^(alloc|free) (\d+)(?: (\d+))?$", out, re.M):
        assert (what == "free") == (address in live), (what, address, live)
        if what == "free":
            resizes += live.pop(address) >= 1 << 20
        else:
            live[address] = int(size)
    print(resizes, "resizes")
    assert resizes == 8, out[-1000:]


def main(library, sites):
    found = notes(library)
    assert {name for name, *_ in found} == {"alloc", "free"}, found
    for name, location, semaphore, arguments in found:
        assert int(location, 16) != 0 and int(semaphore, 16) == 0, (name, location)
        assert len(arguments.split()) == (3 if name == "alloc" else 1), arguments
        assert all(re.fullmatch(r"8@(%r\w+|x\d+)", argument) for argument in arguments.split()), arguments
    print(found)
    if not shutil.which("gdb"):
        print("without gdb: nobody looked whether they fire")
        return
    script = ["set breakpoint pending on", "break -probe-stap libvmag.so:otel_memory:alloc", "run large", "print $_probe_argc",
              "print $_probe_arg1", "print $_probe_arg2", "kill"]
    # The library comes into the program alone, not into gdb.
    script.insert(0, f"set environment LD_PRELOAD {library}")
    script.insert(0, "set environment VMAG_CONF prof:true")
    script.insert(0, "set startup-with-shell off")
    out = subprocess.run(["gdb", "-q", "-batch", "-nx", *(word for line in script for word in ("-ex", line)), sites],
                         capture_output=True, text=True, timeout=1000, env=dict(os.environ, DEBUGINFOD_URLS="")).stdout
    if "$1" not in out:
        print("gdb could not run the program here:", out[-300:])
        sys.exit(77)
    count, size, weight = (int(re.search(rf"\${i} = (\d+)", out).group(1)) for i in (1, 2, 3))
    print(count, size, weight)
    check_resizes(library, sites)
    assert count == 3 and size in (5120, 1 << 20) and weight >= max(size, 1 << 19), (count, size, weight)


main(*sys.argv[1:])
