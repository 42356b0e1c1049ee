# Every way to allocate, resize and free is known to the profile: exactly where all is sampled, without bias where little is.
# `paths.py LIBRARY PATHS [RUNS]`.  The same while everything that is done in time is done at once.
# SPDX-License-Identifier: BSD-2-Clause
import math
import sys

from unbiased import run

KINDS = [("objects", 0), ("bytes", 1)]


def exact(library, program, seed, more):
    truth, found = run(library, program, str(seed), ",lg_prof_sample:0" + more)
    for site, sums in truth.items():
        for kind, at in KINDS:
            assert found[site, kind] == sums[at], (seed, more, site, kind, found[site, kind], sums[at])
    return len(truth)


def unbiased(library, program, seeds, more):
    """Of all sites together; of each, within 4 of its standard errors."""
    results = [run(library, program, str(seed), more) for seed in seeds]
    sites, good = list(results[0][0]), True
    for site in [*sites, None]:
        own = sites if site is None else [site]
        off = [sum(found[one, "bytes"] for one in own) / sum(truth[one][1] for one in own) - 1 for truth, found in results]
        mean = sum(off) / len(off)
        error = math.sqrt(sum((x - mean) ** 2 for x in off) / (len(off) - 1) / len(off))
        print(f"{site or 'all':16} {1 + mean:.4f} ± {error:.4f} of the bytes that live")
        good &= abs(mean) < (3.5 if site is None else 4) * error
    return good


def main(library, program, runs=12):
    for more in ["", ",sleeper_ms:5,dirty_decay_ms:5"]:
        for seed in (1, 2):
            sites = exact(library, program, seed, more)
    print(f"{sites} ways: all objects are known where all are sampled")
    more = ",lg_prof_sample:13,sleeper_ms:5,dirty_decay_ms:5"
    # By Student's distribution chance fails one in 26 of twelve runs, one in 160 of 36, one in 400 of 108, and all of them one in a million;
    # a bias fails the next, of more runs, all the more.
    sys.exit(not any(unbiased(library, program, range(100 * times, (100 + int(runs)) * times), more) for times in (1, 3, 9)))


main(*sys.argv[1:])
