# Real programs whose memory is known: the profile's first call site is the right one, with the right numbers.
# `sites.py VMAG LIBRARY`.  What is not installed is named and left out.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from holder import need_tool

PYTHON = "kept = {}\nfor i in range(100000): kept[i] = bytes(1000)\n"
RUST = """
use std::collections::HashMap;
#[inline(never)]
fn fill(map: &mut HashMap<u32, Vec<u8>>) { for i in 0..40000u32 { map.insert(i, vec![1; 300]); } }
fn main() { let mut map = HashMap::new(); fill(&mut map); std::mem::forget(map); }
"""
CXX = "#include <map>\n#include <string>\nstd::map<std::string, int> m;\nint main() { m[\"x\"] = 1; return m.size(); }\n"


class Tool:
    def __init__(self, vmag, library, folder):
        self.vmag, self.library, self.folder = vmag, library, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def output(self, *words):
        return subprocess.run([self.vmag, *words], capture_output=True, text=True, check=True).stdout

    def profile(self, *command, **environment):
        subprocess.run([self.vmag, "run", "--quiet", "--lib", self.library, f"--profile={self.path('p.heap')}",
                        "--sample-bytes=65536", "--", *command], check=True, env={**os.environ, **environment})
        return self.path("p.heap")

    def first(self, source, measure):
        """The first site: its functions, objects, bytes, and their errors."""
        site = json.loads(self.output("heap", "--json", "--measure", measure, source))["sites"][0]
        return [frame["function"] for frame in site["frames"]], site


def check(name, site, objects, size):
    """Of that many objects, each of that size class."""
    for what, truth in (("objects", objects), ("bytes", objects * size)):
        off = (site[what] - truth) / site[f"{what}_error"]
        print(f"{name}: {what} {site[what]:.0f} of {truth}, {off:+.1f} standard errors")
        assert abs(off) < 6, (name, what, site)


def check_python(tool):
    functions, site = tool.first(tool.profile("/usr/bin/python3", tool.write("p.py", PYTHON), PYTHONMALLOC="malloc"), "all-bytes")
    # 33 bytes of a bytes object's head, and 1000.
    check("python3", site, 100000, 1280)
    assert "_PyEval_EvalFrameDefault" in functions, functions


def check_redis(tool):
    socket = tool.path("redis")
    environment = {**os.environ, "LD_PRELOAD": tool.library,
                   "VMAG_CONF": "prof:true,lg_prof_sample:16,prof_unwinder:tables"}
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--enable-debug-command", "yes"], env=environment,
                              stdout=subprocess.DEVNULL, cwd=tool.folder)
    try:
        ask = lambda *words: subprocess.run(["redis-cli", "-s", socket, *words], capture_output=True, text=True).stdout
        for _ in range(3000):
            if ask("ping") == "PONG\n":
                break
            time.sleep(0.1)
        assert ask("debug", "populate", "100000", "key", "200") == "OK\n"
        functions, site = tool.first(str(server.pid), "live-bytes")
    finally:
        server.kill()
        server.wait()
    # 3 bytes of a string's head, 200, and a zero.
    check("redis-server", site, 100000, 224)
    assert "createStringObject" in functions and "debugCommand" in functions, functions


def check_rust(tool):
    if not shutil.which("rustc"):
        print("without rustc: no Rust program")
        return
    program = tool.path("rust")
    done = subprocess.run(["rustc", "-g", "-O", "-o", program, tool.write("p.rs", RUST)], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"rustc does not work here: {done.stderr.strip()[-200:]}")
        return
    functions, site = tool.first(tool.profile(program), "live-bytes")
    check("Rust", site, 40000, 320)
    assert "rust::fill" in functions or "p::fill" in functions, functions


def check_compiler(tool):
    """What was sampled beside what every event says."""
    compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True).stdout.strip()
    source = tool.path("p.ii")
    subprocess.run(["g++", "-E", tool.write("p.cc", CXX), "-o", source], check=True)
    command = [compiler, "-quiet", "-fpreprocessed", source, "-o", tool.path("p.s")]
    sampled = json.loads(tool.output("heap", "--json", "--measure", "all-bytes", tool.profile(*command)))
    subprocess.run([tool.vmag, "run", "--quiet", "--lib", tool.library, f"--trace={tool.path('t.trace')}", "--", *command], check=True)
    truth = json.loads(tool.output("trace", "--json", tool.path("t.trace")))["allocated_bytes"]
    off = (sampled["bytes"] - truth) / sampled["bytes_error"]
    print(f"cc1plus: bytes {sampled['bytes']:.0f} of {truth}, {off:+.1f} standard errors")
    assert abs(off) < 6, (sampled["bytes"], truth)


def main(vmag, library):
    need_tool(vmag)
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(vmag, library, folder)
        check_python(tool)
        check_redis(tool)
        check_rust(tool)
        check_compiler(tool)


main(*sys.argv[1:])
