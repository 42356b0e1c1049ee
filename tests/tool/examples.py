# Every example of every command's --help, run as it is written: none fails, and its lines fit a terminal.
# `examples.py VMAG LIBRARY HOLDER`.  Waits are made short, and what is not installed is told and left out.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from holder import Holder, need_tool

WIDTH = 100
PROGRAM = "hold 1\ngrow 2\n"
# Endless ones: they are ended when they have said that they are there.
ENDLESS = "vmag serve"


def output(*words, **environment):
    return subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, **environment}).stdout


def commands(vmag):
    listed = output(vmag, "--help", COLUMNS="200").split("Commands:", 1)[1].split("Options:", 1)[0]
    return [name for name in re.findall(r"^  ([a-z-]+)  ", listed, re.MULTILINE) if name != "help"]


def examples(vmag, name, failed):
    """What stands before two blanks in the lines of examples that call vmag."""
    text = output(vmag, name, "--help", COLUMNS="400").split("Examples:\n", 1)[1].split("\n\n", 1)[0]
    lines = text.splitlines()
    failed.extend(f"vmag {name} --help: wider than {WIDTH}: {line}" for line in lines if len(line) > WIDTH)
    found = [re.split(r" {2,}", line[2:])[0] for line in lines if re.match(r"  ([A-Z_]+=\S+ )?vmag ", line)]
    assert found, name
    return found


class Busy:
    """Lets the process allocate all the time: one that does not never sees what is asked of it."""

    def __init__(self, holder):
        self.holder, self.ends = holder, threading.Event()
        self.thread = threading.Thread(target=self.work)

    def work(self):
        self.holder.tell("hold", 1)
        while not self.ends.wait(0.02):
            self.holder.tell("large", 1)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


class Folder:
    """Where the examples run: all files that they name are there, and the process 4711, which has another number."""

    def __init__(self, vmag, library, program, folder, holder):
        self.folder, self.holder = folder, holder
        self.environment = {**os.environ, "PATH": f"{os.path.dirname(vmag)}:/usr/bin:{os.environ['PATH']}", "VMAG_LIB": library,
                            "HOME": folder}
        self.environment.pop("LD_PRELOAD", None)
        for name in ("program", "a", "server", "my-app", "tests"):
            shutil.copy(program, os.path.join(folder, name))
        for name, text in (("script.py", "import time\ntime.sleep(0.5)\n"), ("Makefile", "all:\n\ttrue\n"), ("big.ps", "showpage\n"), ("input", PROGRAM)):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        shutil.copy(library, os.path.join(folder, "libvmag.so"))
        for name in ("p", "a", "b", "before", "after", "exit", "1", "2", "3", "good", "now"):
            self.run(f"vmag run --quiet --profile={name}.heap --sample-bytes=4096 -- ./program")
        for name in ("t", "now"):
            self.run(f"vmag run --quiet --trace={name}.trace --trace-stacks -- ./program")
        with Holder(library, program, f"prof:true,lg_prof_sample:12,black_box:{folder}/killed") as killed:
            killed.tell("hold", 1)
            killed.process.kill()
        for name in ("app.4711.box", "4711.box"):
            shutil.copy(os.path.join(folder, f"killed.{killed.pid}.box"), os.path.join(folder, name))

    def meant(self, line):
        """The example in this folder, with its waits shortened."""
        line = re.sub(r"\$\(pidof \S+\)", self.holder.pid, line)
        line = re.sub(r"(?<![\w.])4711(?![\w.])", self.holder.pid, line)
        line = re.sub(r"--(seconds|interval) \d+", r"--\1 1", line).replace("/var/tmp/", self.folder + "/")
        is_long = self.holder.pid in line.split() and "--seconds" not in line
        line = line.replace("vmag map ", "vmag map --seconds 1 ") if is_long else line
        line = line.replace("vmag leaks --seconds", "vmag leaks --looks 2 --seconds").replace("--rounds 20", "--rounds 2")
        line = line.replace("vmag compare ", "vmag compare --seconds 1 ") if "--rounds" not in line else line
        line = line.replace(ENDLESS, f"exec {ENDLESS} --listen 127.0.0.1:0")
        # The profilers of other tests' processes are left alone.
        line = line.replace("--all --profile", f"--pid {self.holder.pid} --profile")
        if "| jq" in line and not shutil.which("jq"):
            line = line.split("|")[0]
        return line

    def start(self, line):
        with open(os.path.join(self.folder, "input")) as text:
            return subprocess.Popen(["sh", "-c", line], cwd=self.folder, env=self.environment, stdin=text, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)

    def run(self, line):
        process = self.start(line)
        if ENDLESS in line:
            said = process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            process.communicate()
            assert "serving on" in said, (line, said)
            return ""
        out, said = process.communicate(timeout=600)
        # Where several processes run on vmag it cannot choose, and says so.
        may_fail = line == "vmag top" and "which process?" in said
        assert process.returncode == 0 or may_fail, f"{line}\n  status {process.returncode}: {said}"
        if "--json" in line and "|" not in line and out.startswith("{\n"):
            assert json.loads(out)["format"].startswith("vmag-"), line
        return out


def main(vmag, library, program):
    need_tool(vmag)
    with tempfile.TemporaryDirectory() as folder, Holder(library, program, "prof:true,lg_prof_sample:12") as holder, Busy(holder):
        home = Folder(vmag, library, program, folder, holder)
        done, failed = set(), []
        for name in commands(vmag):
            for line in examples(vmag, name, failed):
                if line in done:
                    continue
                done.add(line)
                if (missing := re.search(r"\b(gs|make)\b", line)) and not shutil.which(missing.group()):
                    print(f"without {missing.group()}: {line}")
                    continue
                start = time.monotonic()
                try:
                    home.run(home.meant(line))
                except AssertionError as error:
                    failed.append(str(error))
                if time.monotonic() - start > 1:
                    print(f"{time.monotonic() - start:.1f} s: {line}")
        assert not failed, "\n".join(failed)
        print(f"{len(done)} examples")


main(*sys.argv[1:])
