# Stacks by our reader of unwind tables are those of the system's unwinder: of a C and C++ program of all shapes without frame pointers, of
# python3 with exceptions, of Perl, of the C++ compiler and of a Rust program, where they are.
# `stacks.py LIBRARY COMPARER SHAPES`.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import shutil
import subprocess
import sys
import tempfile

PYTHON = """
import json, re
def deep(n): return [str(n) * 50] + deep(n - 1) if n else []
for i in range(300):
    try: json.loads("[" * (i % 20) + "x")
    except ValueError: pass
    sorted([str(x) for x in range(50)], key=lambda x: x + "a" * 100)
    re.sub("a+", lambda m: m.group() * 50, "baaac" * 20); deep(i % 30)
"""
RUST = """
use std::collections::BTreeMap;
fn fill(depth: usize, map: &mut BTreeMap<usize, Vec<u8>>) {
    map.insert(depth * 7919 % 1009, vec![1; depth * 5 + 1]);
    if depth > 0 { fill(depth - 1, map) }
}
fn main() {
    for i in 0..500 {
        let mut map = BTreeMap::new();
        fill(i % 40, &mut map);
        let _ = std::panic::catch_unwind(|| { let v: Vec<Box<u64>> = (0..9).map(Box::new).collect(); std::panic::resume_unwind(Box::new(v)) });
        std::thread::spawn(move || map.into_values().map(|v| format!("{v:?}")).collect::<Vec<_>>().sort()).join().unwrap();
    }
}
"""


def compared(library, comparer, command, least, most_beyond=0.0):
    with tempfile.TemporaryDirectory() as folder:
        told = os.path.join(folder, "told")
        environment = {**os.environ, "LD_PRELOAD": f"{library}:{comparer}", "COMPARE_STACKS": told, "PYTHONMALLOC": "malloc",
                       "VMAG_CONF": "prof:true,lg_prof_sample:8,prof_unwinder:tables"}
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=600)
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}"
        with open(told) as lines:
            sums = [json.loads(line) for line in lines]
    sums = {key: sum(one[key] for one in sums) for key in sums[0]}
    print(os.path.basename(command[0]), sums)
    assert sums["torn"] == 0 and sums["different"] == 0
    assert sums["equal"] >= least and sums["beyond"] <= most_beyond * sums["equal"]
    assert sums["met"] > sums["equal"] / 2


def main(library, comparer, shapes):
    def same(command, least, most_beyond=0.0):
        compared(library, comparer, command, least, most_beyond)

    same([shapes], 10000)
    same([sys.executable, "-c", PYTHON], 10000)
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("perl"):
            same(["perl", "-e", "my %h; $h{$_} = 'x' x ($_ % 500) for 1..20000; print join ',', sort keys %h"], 1000)
        if shutil.which("g++"):
            source = os.path.join(folder, "a.cpp")
            with open(source, "w") as file:
                file.write("#include <map>\n#include <string>\nstd::map<std::string, int> m; int main() { m[\"a\"]++; }\n")
            same(["g++", "-O1", "-S", "-o", "/dev/null", source], 10000)
        if shutil.which("rustc"):
            source = os.path.join(folder, "a.rs")
            with open(source, "w") as file:
                file.write(RUST)
            subprocess.run(["rustc", "-O", "-C", "force-frame-pointers=no", "-o", os.path.join(folder, "a"), source], check=True)
            same([os.path.join(folder, "a")], 5000)


main(*map(os.path.realpath, sys.argv[1:]))
