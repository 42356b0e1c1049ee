# Every item of UMEM_DEBUG, UMEM_LOGGING and UMEM_OPTIONS is taken without a word; what is wrong is told in one line each.
# `options.py PROGRAM`, a program that succeeds in silence.
# SPDX-License-Identifier: BSD-2-Clause
import os
import subprocess
import sys

GOOD = {
    "UMEM_DEBUG": "default audit audit=5 contents contents=64 guards verbose nosignal noabort lite checknull random allverbose "
                  "verify verify=100 firewall=4096 firewall=1K maxverify=16 mtbf=1000000000 held=1M default,firewall=8K,verify,",
    "UMEM_LOGGING": "transaction transaction=1M contents=64k fail slab transaction,contents,fail,slab=4K",
    "UMEM_OPTIONS": "backend=mmap backend=sbrk allocator=best allocator=instant allocator=next allocator=first concurrency=2 max_contention=4 nomagazines "
                    "reap_interval=1 size_add=72 size_remove=64 size_clear sbrk_minalloc=1M sbrk_pagesize=4M perthread_cache=0 "
                    "perthread_cache=2m size_clear,size_add=64,size_add=128",
}
BAD = [
    ("UMEM_DEBUG", "defaults", "no such item"),
    ("UMEM_DEBUG", "guards=1", "takes no value"),
    ("UMEM_DEBUG", "firewall", "needs a value"),
    ("UMEM_DEBUG", "audit=many", "not a size"),
    ("UMEM_DEBUG", "audit=", "not a size"),
    ("UMEM_LOGGING", "transactions", "no such item"),
    ("UMEM_LOGGING", "fail=99999999999999999999", "not a size"),
    ("UMEM_LOGGING", "fail=9999999999999T", "not a size"),
    ("UMEM_OPTIONS", "concurrency", "needs a value"),
    ("UMEM_OPTIONS", "backend", "needs a value"),
    ("UMEM_OPTIONS", "backend=disk", "is mmap or sbrk"),
    ("UMEM_OPTIONS", "size_add=0", "not from 1 to 128K"),
    ("UMEM_OPTIONS", "size_remove=1M", "not from 1 to 128K"),
    ("UMEM_OPTIONS", "size_clear=8", "takes no value"),
    ("UMEM_OPTIONS", "allocator=worst", "is best, first, next or instant"),
    ("UMEM_OPTIONS", "concurrency=-1", "not a size"),
]


def run(program, variable, value):
    environment = {key: text for key, text in os.environ.items() if not key.startswith("UMEM_")}
    result = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600,
                            env={**environment, variable: value})
    assert result.returncode == 0, f"{variable}={value}: status {result.returncode}\n{result.stderr}"
    return result.stderr.splitlines()


def main(program):
    for variable, values in GOOD.items():
        for value in values.split():
            lines = run(program, variable, value)
            assert lines == [], f"{variable}={value}: {lines}"
    for variable, value, why in BAD:
        expected = [f"vmag: {variable}: {why}: {value}"]
        assert run(program, variable, value) == expected, f"{variable}={value}: {run(program, variable, value)}"
    lines = run(program, "UMEM_DEBUG", "one,guards,two")
    assert len(lines) == 2, lines
    for value in (" guards", "guards ", "\tguards , , audit=5\n", "  "):
        lines = run(program, "UMEM_DEBUG", value)
        assert lines == [], f"blanks around items: {value!r}: {lines}"
    lines = run(program, "UMEM_DEBUG", "guards, audit = 5 ")
    assert lines == ["vmag: UMEM_DEBUG: no such item: audit = 5"], lines


main(*sys.argv[1:])
