# Names on another machine: bundles, debug information by build id from a server that was asked, stripped programs told.
# `bundle.py VMAG LIBRARY HOLDER`
# SPDX-License-Identifier: BSD-2-Clause
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

from holder import Holder, need_tool

SOURCE = """
#include <stdlib.h>
char *kept[100];
static inline __attribute__((always_inline)) char *inlined_take(size_t bytes) { return malloc(bytes); }
__attribute__((noinline)) static char *site_hidden(int i) { kept[i] = inlined_take(65536); return kept[i]; }
int main(void) { for (int i = 0; i < 100; i++) site_hidden(i)[0] = 1; return kept[7][0] - 1; }
"""


class Debuginfod:
    """A server that has the debug information of one build id, and counts who asks for what."""

    def __init__(self, build_id, path):
        asked, answers = [], {f"/buildid/{build_id}/debuginfo": path}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_response(200 if self.path in answers else 404)
                body = open(answers[self.path], "rb").read() if self.path in answers else b"no"
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.asked = asked
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Machine:
    def __init__(self, vmag, library, folder):
        self.vmag, self.library, self.folder = vmag, library, folder
        self.environment = {**os.environ, "XDG_CACHE_HOME": self.path("cache")}
        for name in ("DEBUGINFOD_URLS", "DEBUGINFOD_CACHE_PATH"):
            self.environment.pop(name, None)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *words, status=0, **environment):
        done = subprocess.run([self.vmag, *words], capture_output=True, text=True, env={**self.environment, **environment})
        assert done.returncode == status, (words, done)
        return done

    def build(self):
        with open(self.path("program.c"), "w") as file:
            file.write(SOURCE)
        subprocess.run(["cc", "-g", "-O1", "-fno-omit-frame-pointer", "-Wl,--build-id", "-o", self.path("program"),
                        self.path("program.c")], check=True)

    def record(self, *options):
        self.run("run", "--quiet", "--lib", self.library, "--sample-bytes=1", "--profile", self.path("p.heap"), *options,
                 "--", self.path("program"))

    def frames(self, name, *options, **environment):
        """Of the site that holds the program's 100 objects."""
        sites = json.loads(self.run("heap", "--json", *options, self.path(name), **environment).stdout)["sites"]
        return next(site["frames"] for site in sites if 6_000_000 < site["bytes"] < 7_000_000)


def check_named(frames):
    functions = [frame["function"] for frame in frames]
    assert functions[:3] == ["inlined_take", "site_hidden", "main"], functions
    assert frames[1]["file"].endswith("program.c") and frames[1]["line"] == 5, frames[1]


def check_nameless(machine, name, functions=("site_hidden", "inlined_take")):
    assert not {frame["function"] for frame in machine.frames(name)} & set(functions)
    told = machine.run("heap", machine.path(name)).stdout
    assert re.search("no symbol for .*, in program", told), told


def check_bundles(machine):
    machine.record("--trace", machine.path("t.trace"), "--trace-stacks")
    shutil.copy(machine.path("p.heap"), machine.path("plain.heap"))
    machine.run("export", "--bundle", machine.path("p.heap"), machine.path("p.bundle"))
    machine.run("export", "--bundle", machine.path("t.trace"), machine.path("t.bundle"))
    machine.record("--bundle")
    direct = machine.frames("plain.heap")
    check_named(direct)
    os.rename(machine.path("program"), machine.path("elsewhere"))
    check_nameless(machine, "plain.heap")
    for name in ("p.bundle", "t.bundle", "p.heap"):
        check_named(machine.frames(name))
    assert machine.frames("p.bundle") == direct
    machine.run("frag", machine.path("t.bundle"))
    machine.run("trace", machine.path("t.bundle"))
    machine.run("report", "--trace", machine.path("t.bundle"), "--profile", machine.path("p.bundle"), "-o", machine.path("r.html"))
    machine.run("export", machine.path("p.bundle"), machine.path("p.pb.gz"))
    over_itself = machine.run("export", "--bundle", machine.path("p.heap"), machine.path("p.heap"), status=125).stderr
    assert "that is the recording itself" in over_itself, over_itself
    refused = machine.run("export", "--bundle", machine.path("p.bundle"), machine.path("q.bundle"), status=125).stderr
    assert "is a bundle already" in refused and refused.count("\n") == 1, refused
    os.rename(machine.path("elsewhere"), machine.path("program"))


def check_holes(machine):
    """The file of a ring has its whole size from the beginning, and little of it is used."""
    machine.run("run", "--quiet", "--lib", machine.library, "--trace", machine.path("ring.trace"), "--trace-ring", "--trace-bytes=256M",
                "--bundle", "--", machine.path("program"))
    machine.run("trace", machine.path("ring.trace"))


def build_id(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return notes.split("Build ID:")[1].split()[0]


def check_stripped_told(machine):
    """As `vmag heap` has it: files in which an address has no name, not all that are stripped."""
    machine.record()
    done = machine.run("export", "--bundle", machine.path("p.heap"), machine.path("p.bundle"))
    without = re.search("without symbols: (.*)", done.stdout + done.stderr)[1]
    nameless = re.search("no symbol for .*, in (.*?): stripped", machine.run("heap", machine.path("p.heap")).stdout)[1]
    assert {os.path.basename(path) for path in without.split(", ")} == set(nameless.split(", ")), (without, nameless)


def check_servers(machine):
    program, debug = machine.path("program"), machine.path("program.debug")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    server = Debuginfod(build_id(program), debug)
    urls = {"DEBUGINFOD_URLS": f"ima:enforcing {server.url}"}
    check_stripped_told(machine)
    machine.record("--bundle")
    check_nameless(machine, "p.heap")
    machine.frames("p.heap", **urls)
    assert not server.asked, server.asked
    refused = machine.run("heap", "--debuginfod", machine.path("p.heap"), status=125).stderr
    assert "DEBUGINFOD_URLS" in refused and refused.count("\n") == 1, refused
    # Elsewhere: the program is not there, its build id is in the bundle.
    os.unlink(program)
    dead = {"DEBUGINFOD_URLS": "http://127.0.0.1:9/"}
    done = machine.run("heap", "--debuginfod", machine.path("p.heap"), **dead)
    assert "goes on without it" in done.stderr and "no symbol for" in done.stdout, done
    check_named(machine.frames("p.heap", "--debuginfod", **urls))
    of_program = [path for path in server.asked if build_id(debug) in path]
    assert len(of_program) == 1, server.asked
    check_named(machine.frames("p.heap", "--debuginfod", **urls))
    assert len([path for path in server.asked if build_id(debug) in path]) == 1, server.asked


def check_process(machine, library, program):
    with Holder(library, program) as holder:
        holder.tell("grow", 8)
        machine.run("export", "--bundle", str(holder.pid), machine.path("pid.bundle"))
        machine.run("export", str(holder.pid), machine.path("pid.heap"))
        live = json.loads(machine.run("heap", "--json", str(holder.pid)).stdout)["bytes"]
        for name in ("pid.bundle", "pid.heap"):
            kept = json.loads(machine.run("heap", "--json", machine.path(name)).stdout)
            assert abs(kept["bytes"] - live) <= 1e-9 * live and "site_grow" in json.dumps(kept), (kept["bytes"], live)
        if shutil.which("jeprof"):
            done = subprocess.run(["jeprof", "--text", program, machine.path("pid.heap")], capture_output=True, text=True)
            assert "site_grow" in done.stdout, done


def main(vmag, library, program):
    need_tool(vmag)
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(vmag, library, folder)
        machine.build()
        check_bundles(machine)
        check_holes(machine)
        check_servers(machine)
        check_process(machine, library, program)


main(*sys.argv[1:])
