# Programs that everyone has run under UMEM_DEBUG as they do without it: same output, same status, nothing on stderr.
# `preloaded.py LIBRARY`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import shutil
import subprocess
import sys

PROGRAMS = [
    ["python3", "-c", "import json, re, threading, collections\n"
     "ts = [threading.Thread(target=lambda: json.dumps(list(range(2000)))) for _ in range(4)]\n"
     "[t.start() for t in ts]; [t.join() for t in ts]\n"
     "print(len(json.dumps({str(i): [i] * 10 for i in range(3000)})), re.sub('a+', 'b', 'caaat'))"],
    ["bash", "-c", "a=(); for i in {1..300}; do a+=($i); done; echo ${#a[@]} $(seq 100 | sort -rn | head -3); x=$(ls / | wc -l); "
     "[ $x -gt 3 ] && echo yes"],
    ["perl", "-e", "my %h; $h{$_ % 97} .= $_ for 1..5000; print length(join '', sort values %h), \"\\n\""],
    ["awk", "BEGIN { for (i = 0; i < 3000; i++) a[i] = a[i - 1] % 7 i; print length(a[2999]) }"],
]
SETTINGS = ["default", "default,firewall=4096", "guards,verify=500", "lite"]


def run(command, **environment):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=1200,
                            env={**os.environ, **environment})
    return result.returncode, result.stdout, result.stderr


def main(library):
    for command in PROGRAMS:
        if shutil.which(command[0]) is None:
            continue
        expected = run(command)
        for setting in SETTINGS:
            got = run(command, LD_PRELOAD=library, UMEM_DEBUG=setting, UMEM_LOGGING="transaction,contents")
            assert got == expected, f"{command[0]} under UMEM_DEBUG={setting}:\n{got}\nand without:\n{expected}"


main(*sys.argv[1:])
