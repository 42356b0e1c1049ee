# Every command has help with examples, --json, a manual page that man can show, and completions.
# `manual.py VMAG`
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from holder import need_tool

SHELLS = {"bash": ("bash-completion/completions/vmag", ["bash", "-n"]),
          "zsh": ("zsh/site-functions/_vmag", ["zsh", "-n"]),
          "fish": ("fish/vendor_completions.d/vmag.fish", ["fish", "--no-execute"])}


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def commands(vmag):
    listed = output(vmag, "--help").split("Commands:", 1)[1].split("Options:", 1)[0]
    return [name for name in re.findall(r"^  ([a-z-]+)  ", listed, re.MULTILINE) if name != "help"]


def check_page(path, name):
    page = open(path, encoding="utf-8").read()
    assert page.count(".SH") >= 4 and "Examples:" in page, name
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", path], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, (name, done.stderr)


def complete(folder):
    """What bash offers for "vmag do"."""
    script = f'. {folder}/bash-completion/completions/vmag; COMP_WORDS=(vmag do); COMP_CWORD=1; _vmag vmag do vmag; echo "${{COMPREPLY[@]}}"'
    return output("bash", "-c", script).split()


def main(vmag):
    need_tool(vmag)
    names = commands(vmag)
    assert {"run", "doctor", "top", "serve", "frag", "options", "umastat"} <= set(names), names
    with tempfile.TemporaryDirectory() as folder:
        told = json.loads(output(vmag, "manual", "--json", folder))["files"]
        assert sorted(told) == sorted(os.path.join(place, name) for place, _, names in os.walk(folder) for name in names), told
        for name in names:
            assert "Examples:" in output(vmag, name, "--help"), f"vmag {name} --help has no examples"
            assert "--json" in output(vmag, name, "--help"), f"vmag {name} has no --json"
            wrong = subprocess.run([vmag, name, "--nonsense"], capture_output=True, text=True)
            assert wrong.returncode == 125 and wrong.stderr.count("\n") == 1, wrong
            assert wrong.stderr.startswith("vmag: error: ") and f"what to do: `vmag {name} --help`" in wrong.stderr, wrong
            check_page(os.path.join(folder, "man/man1", f"vmag-{name}.1"), name)
        assert os.path.exists(os.path.join(folder, "man/man1/vmag.1"))
        for shell, (path, check) in SHELLS.items():
            path = os.path.join(folder, path)
            assert "doctor" in open(path, encoding="utf-8").read(), shell
            if shutil.which(shell):
                subprocess.run([*check, path], check=True)
            else:
                print(f"without {shell}: its completions are not checked by it")
        assert complete(folder) == ["doctor"], complete(folder)
    with open("/dev/full", "w", encoding="utf-8") as full:
        for words in (["--help"], ["heap", "--help"], ["--version"]):
            assert subprocess.run([vmag, *words], stdout=full, stderr=subprocess.DEVNULL).returncode == 125, words
    refused = subprocess.run([vmag, "manual", "/proc/nowhere"], capture_output=True, text=True)
    assert refused.returncode == 125 and "what to do" in refused.stderr, refused


main(*sys.argv[1:])
