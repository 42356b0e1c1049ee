# UMEM_DEBUG=random: caches differ in what debugging does in them, by chance and in each process anew; without it they do not.
# `random_aids.py PROGRAM`, which has 60 caches of its own.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import subprocess
import sys

OWN, RUNS = 60, 4
AIDS = ("guards", "audit", "contents")


def aids_by_cache(program, debug):
    environment = {**os.environ, "UMEM_DEBUG": debug, "UMEM_LOGGING": "transaction,contents"}
    result = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600, env=environment)
    assert result.returncode == 0 and result.stderr == "", f"{debug}: status {result.returncode}\n{result.stderr}"
    return {cache["name"]: tuple(cache[aid] for aid in AIDS) for cache in json.loads(result.stdout)["debugged"]}


def own(caches):
    return {name: aids for name, aids in caches.items() if not name.startswith("umem_")}


def main(program):
    runs = [aids_by_cache(program, "random") for _ in range(RUNS)]
    for caches in runs:
        assert 0 < len(own(caches)) < OWN, f"{len(own(caches))} of {OWN} caches are debugged"
        for kind in (own(caches), {name: aids for name, aids in caches.items() if name not in own(caches)}):
            for number, aid in enumerate(AIDS):
                assert {aids[number] for aids in kind.values()} == {0, 1}, f"{aid} is the same in all: {kind}"
    assert any(caches != runs[0] for caches in runs[1:]), "every run is the same"
    for debug, aids in (("default", (1, 1, 1)), ("guards", (1, 0, 1))):
        caches = aids_by_cache(program, debug)
        assert len(own(caches)) == OWN and set(caches.values()) == {aids}, f"{debug}: {caches}"


main(*sys.argv[1:])
