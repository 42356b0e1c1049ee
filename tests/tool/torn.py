# Every command that looks into a process ends, and with a word, whatever that process's memory says: `torn.py VMAG TORN`
# SPDX-License-Identifier: BSD-2-Clause
import os
import resource
import subprocess
import sys
import time

from holder import need_tool

COMMANDS = (("explain",), ("explain", "--json"), ("frag",), ("attach",), ("heap",), ("leaks", "--unreachable"))
KINDS = ("nothing", "fronts", "length", "counts", *(f"root={seed}" for seed in range(6)), *(f"base={seed}" for seed in range(4)))
SECONDS = 300
MEMORY = 4 << 30


def bound():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def look(vmag, kind, command, pid):
    started = time.time()
    try:
        done = subprocess.run([vmag, command[0], str(pid), *command[1:]], capture_output=True, text=True, timeout=SECONDS, preexec_fn=bound)
    except subprocess.TimeoutExpired:
        return f"{kind}: {' '.join(command)} does not end"
    print(f"{kind}: {' '.join(command)}: status {done.returncode}, {time.time() - started:.1f} s")
    is_sound = done.returncode in ((0,) if kind == "nothing" else (0, 125)) and "panicked" not in done.stderr
    return None if is_sound else f"{kind}: {' '.join(command)}: status {done.returncode}: {done.stderr[:400]}"


def check(vmag, torn, kind):
    options = {**os.environ, "VMAG_CONF": "prof:true,lg_prof_sample:14,background_thread:false"}
    with subprocess.Popen([torn, kind], stdout=subprocess.PIPE, text=True, env=options) as process:
        try:
            assert process.stdout.readline() == "ready\n", kind
            return [look(vmag, kind, command, process.pid) for command in COMMANDS]
        finally:
            process.kill()


if __name__ == "__main__":
    need_tool(sys.argv[1])
    failures = [failure for kind in KINDS for failure in check(sys.argv[1], sys.argv[2], kind) if failure is not None]
    sys.exit("\n".join(failures) or 0)
