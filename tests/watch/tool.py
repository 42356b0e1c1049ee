# Profiles through the vmag command: what it says of programs whose memory is known, and that pprof and jeprof agree.
# `tool.py VMAG LIBRARY SITES`.  pprof and jeprof are compared where they are there.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def find_pprof():
    for path in [shutil.which("pprof"), os.path.expanduser("~/go/bin/pprof")]:
        if path and os.path.exists(path):
            return path
    return None


class Tool:
    def __init__(self, vmag, library, folder):
        self.vmag, self.library, self.folder = vmag, library, folder

    def run(self, *words):
        return subprocess.run([self.vmag, *words], capture_output=True, text=True, check=True).stdout

    def profile(self, name, *command):
        path = os.path.join(self.folder, name)
        self.run("run", "--quiet", "--lib", self.library, f"--profile={path}", "--sample-bytes=65536",
                 "--callers=frames", "--", *command)
        return path

    def sites(self, path, *options):
        """Bytes and their error by the program's site functions."""
        found = {}
        for site in json.loads(self.run("heap", "--json", *options, path))["sites"]:
            name = next((frame["function"] for frame in site["frames"] if frame["function"].startswith("site_")), None)
            size, variance = found.get(name, (0, 0))
            found[name] = size + site["bytes"], variance + site["bytes_error"]**2
        return found


def check_estimates(tool, sites, which, truth):
    path = tool.profile(which, sites, which)
    found = tool.sites(path)
    for site, size in truth.items():
        estimate, variance = found[site]
        off = (estimate - size) / variance**0.5
        print(f"{which} {site}: {estimate:.0f} of {size}, {off:+.1f} of its own standard errors")
        assert abs(off) < 6, (which, site, estimate, size)
    return path


def jeprof(program, *words):
    """Its total, and bytes by function with those it called; None where it is not there."""
    if not shutil.which("jeprof"):
        print("without jeprof (libjemalloc-dev): its totals are not compared")
        return None
    out = subprocess.run(["jeprof", "--text", "--show_bytes", *words[:-1], program, words[-1]], capture_output=True, text=True).stdout
    rows = re.findall(r"^ *-?\d+ +\S+ +\S+ +(-?\d+) +\S+ (\S+)", out, re.MULTILINE)
    return int(re.search(r"Total: (-?\d+) B", out).group(1)), {name: int(size) for size, name in rows}


def pprof(*words):
    """The same; the total is of what it shows, which is all: of a difference it calls another number "total"."""
    if not find_pprof():
        print("without pprof (go install github.com/google/pprof): its totals are not compared")
        return None
    out = subprocess.run([find_pprof(), "-top", "-unit=B", "-nodefraction=0", *words], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"(-?[\d.]+)B? +\S+ +(\S+)$", out, re.MULTILINE)
    return float(re.search(r"accounting for (-?[\d.]+)B", out).group(1)), {name: float(size) for size, name in rows}


def check_total(who, theirs, ours, sites):
    """Theirs: a total and bytes by function; None: it was not asked."""
    if theirs is None:
        return
    total, by_site = theirs
    print(f"{who}: {total:.0f}, ours: {ours:.0f}")
    assert abs(total - ours) < 1e-3 * abs(ours), (who, total, ours)
    for site, size in sites.items():
        assert abs(by_site[site] - size) < 1e-3 * abs(size) + 16, (who, site, by_site, size)


def check_others(tool, sites, small, large):
    total = json.loads(tool.run("heap", "--json", large))["bytes"]
    check_total("jeprof", jeprof(sites, large), total, {})
    protos = {}
    for path in (small, large):
        protos[path] = path + ".pb.gz"
        tool.run("export", path, protos[path])
    check_total("pprof", pprof(protos[large]), total, {"site_large": tool.sites(large)["site_large"][0]})
    # The difference through all three.
    difference = json.loads(tool.run("diff", "--json", small, large))
    by_site = {}
    for change in difference["changes"]:
        for name in filter(lambda name: name.startswith("site_"), change["functions"]):
            by_site[name] = by_site.get(name, 0) + change["change"]
    assert set(by_site) == {"site_small", "site_middle", "site_large"} and by_site["site_small"] < 0, by_site
    for sum_of_changes in (sum(change["change"] for change in difference["changes"]), difference["after"] - difference["before"]):
        assert abs(sum_of_changes - difference["change"]) < 16, (sum_of_changes, difference)
    for option in ("-diff_base", "-base"):
        check_total(f"pprof {option}", pprof(option, protos[small], protos[large]), difference["change"], by_site)
    # jeprof has the program's addresses of one run alone: of the earlier run's sites it knows the sums.
    in_later = {name: size for name, size in by_site.items() if size > 0}
    check_total("jeprof --base", jeprof(sites, f"--base={small}", large), difference["change"], in_later)


def check_formats(tool, path):
    collapsed = tool.run("heap", "--format=collapsed", path)
    total = sum(int(line.rsplit(" ", 1)[1]) for line in collapsed.splitlines())
    assert abs(total - json.loads(tool.run("heap", "--json", path))["bytes"]) < 100
    assert "main;site_large;take " in collapsed, collapsed
    scope = json.loads(tool.run("heap", "--format=speedscope", path))
    assert sum(scope["profiles"][0]["weights"]) == total
    svg = tool.run("heap", "--format=flame", path)
    assert svg.startswith("<svg") and svg.endswith("</svg>\n") and "site_middle" in svg
    assert len(tool.run("heap", "--format=csv", path).splitlines()) >= 3
    assert "site_large" in tool.run("heap", path)


def check_cut(tool, sites):
    """What was not recorded of a stack is told by all formats."""
    path = tool.profile("deep", sites, "deep")
    roots = [line.split(";")[0] for line in tool.run("heap", "--format=collapsed", path).splitlines() if "site_deep" in line]
    assert roots and set(roots) == {"[truncated]"}, roots


def check_leaks_and_diff(tool, sites, path):
    text = tool.run("leaks", path)
    assert text.startswith("alive when the profile was written") and "site_large" in text, text
    again = tool.profile("again", sites, "large")
    assert all(not change["more_than_chance"] or abs(change["change"]) < 6 * change["error"]
               for change in json.loads(tool.run("diff", "--json", path, again))["changes"])
    small = tool.profile("small-again", sites, "small")
    changes = json.loads(tool.run("diff", "--json", small, path))["changes"]
    by_site = {name: change for change in changes for name in change["functions"]}
    assert by_site["site_large"]["more_than_chance"] and by_site["site_large"]["change"] > 0
    assert by_site["site_small"]["more_than_chance"] and by_site["site_small"]["change"] < 0
    assert "site_large" in tool.run("leaks", small, path)


def has_lines(site):
    """Beside the functions: where each is."""
    names = [frame["function"] for frame in site["frames"]]
    return names == site["functions"] and any(frame["file"] and frame["line"] for frame in site["frames"])


def check_json(tool, small, path):
    """What the text shows is in the JSON, too."""
    heap, leaks = (json.loads(tool.run(*words, "--json", path)) for words in (["heap"], ["leaks"]))
    for key in ("pid", "lg_sample", "lost_samples", "bytes", "bytes_error", "objects", "objects_error"):
        assert leaks[key] == heap[key], (key, leaks[key], heap[key])
    assert has_lines(leaks["sites"][0]) and leaks["sites"][0]["objects_error"] > 0, leaks["sites"][0]
    growing = json.loads(tool.run("leaks", "--json", small, path))
    assert growing["bytes"] == heap["bytes"] and has_lines(growing["sites"][0]), growing
    change = json.loads(tool.run("diff", "--json", small, path))
    assert change["profiles"][1]["pid"] == heap["pid"] and has_lines(change["changes"][0]), change


def check_gate(tool, sites, path):
    again = tool.profile("gate", sites, "large")
    small = tool.profile("gate-small", sites, "small")
    gate = [tool.vmag, "check"]
    assert subprocess.run([*gate, "--baseline", path, "--tolerance=50", again]).returncode == 0
    assert subprocess.run([*gate, "--most-live", "200000000", again]).returncode == 0
    assert subprocess.run([*gate, "--most-live", "50000000", again]).returncode == 1
    worse = subprocess.run([*gate, "--json", "--baseline", small, path], capture_output=True, text=True)
    assert worse.returncode == 1 and "site_large" in worse.stdout, worse.stdout
    verdict = json.loads(worse.stdout)
    assert verdict["sampled"] and not verdict["exact"] and has_lines(verdict["grown"][0]), verdict
    trace = os.path.join(tool.folder, "gate.trace")
    tool.run("run", "--quiet", "--lib", tool.library, f"--trace={trace}", "--", sites, "large")
    assert subprocess.run([*gate, "--most-peak", "200000000", trace]).returncode == 0
    peak = subprocess.run([*gate, "--json", "--most-peak", "50000000", trace], capture_output=True, text=True)
    verdict = json.loads(peak.stdout)
    assert peak.returncode == 1 and verdict["exact"] and verdict["most_peak"] == 50000000, verdict
    assert subprocess.run([*gate, "--most-peak", "50000000", path], stderr=subprocess.DEVNULL).returncode == 125
    assert subprocess.run([*gate, "--baseline", "/nowhere", path], stderr=subprocess.DEVNULL).returncode == 125


def check_refusals(tool, path):
    """Options that would do nothing; and "-" is no file."""
    trace = os.path.join(tool.folder, "gate.trace")
    own = str(os.getpid())
    for words in (["frag", "--at=1", own], ["leaks", "--looks=3", path], ["leaks", "--seconds=3", path, path], ["map", "--seconds=3", "-o", "x.png", trace],
                  ["attach", "--trace=off", "--trace-bytes=1G", own], ["diff", "--seconds=3", path, path], ["top", path], ["explain", "x"],
                  ["check", "--tolerance=5", "--most-live=1G", path], ["export", "--json", path, "-"]):
        done = subprocess.run([tool.vmag, *words], capture_output=True, text=True, cwd=tool.folder)
        assert done.returncode == 125 and done.stderr.count("\n") == 1 and "what to do" in done.stderr, (words, done)
    for words, start in ((["heap", "--json", "-o", "-", path], b"{"), (["report", path, "-o", "-"], b"<!doctype"), (["map", trace, "-o", "-"], b"\x89PNG"),
                         (["export", "--format=pprof", path, "-"], b"\x1f\x8b"), (["export", "--bundle", path, "-"], b"\x1f\x8b"),
                         (["trace", "--events", "-o", "-", trace], b"nanoseconds"),
                         (["run", "--quiet", "--lib", tool.library, "--json=-", "--", "true"], b"{")):
        done = subprocess.run([tool.vmag, *words], capture_output=True, cwd=tool.folder, check=True)
        assert done.stdout.startswith(start) and not os.path.exists(os.path.join(tool.folder, "-")), (words, done.stdout[:100])


def check_distance(tool, sites):
    """Who does not say how often to sample leaves it to the program's options."""
    path = os.path.join(tool.folder, "distance")
    for conf, words, lg in [("", [], 19), ("lg_prof_sample:16", [], 16), ("lg_prof_sample:16", ["--sample-bytes=4096"], 12)]:
        subprocess.run([tool.vmag, "run", "--quiet", "--lib", tool.library, f"--profile={path}", *words, "--", sites, "small"],
                       stdout=subprocess.DEVNULL, check=True, env={**os.environ, "VMAG_CONF": conf})
        assert json.loads(tool.run("heap", "--json", path))["lg_sample"] == lg, (conf, words)


# What was allocated while nobody sampled, or after a trace's end, is missed by who reads the file, or what is made of it.
def check_missing(tool, sites):
    path, trace, copy = (os.path.join(tool.folder, name) for name in ("off.heap", "full.trace", "copy.heap"))
    run = [tool.vmag, "run", "--quiet", "--lib", tool.library]
    subprocess.run([*run, f"--profile={path}", "--", sites, "large"], stdout=subprocess.DEVNULL, check=True,
                   env={**os.environ, "VMAG_CONF": "prof_active:false"})
    subprocess.run([*run, f"--trace={trace}", "--trace-stacks", "--trace-bytes=128k", "--", sites, "small"], stdout=subprocess.DEVNULL, check=True)
    for recording, why in ((path, "the profile was off"), (trace, "the newest events are not there")):
        tool.run("export", recording, copy)
        for file in (recording, copy):
            told = tool.run("heap", file)
            assert why in told and "too little" not in told and "every allocation counted," not in told, told
            done = subprocess.run([tool.vmag, "check", "--most-live=1G", file], capture_output=True, text=True)
            assert done.returncode == 125 and why in done.stderr, done


# Of a program that was built anew no name is taken: what was bundled before has names, and all else no verdict.
def check_built_anew(tool, sites):
    program, bundle = os.path.join(tool.folder, "program"), os.path.join(tool.folder, "small.bundle")
    shutil.copy(sites, program)
    path, trace = tool.profile("anew.heap", program, "small"), os.path.join(tool.folder, "anew.trace")
    tool.run("run", "--quiet", "--lib", tool.library, f"--trace={trace}", "--trace-stacks", "--callers=frames", "--", program, "resized")
    copy = os.path.join(tool.folder, "copy.heap")
    tool.run("export", path, copy)
    tool.run("export", "--bundle", path, bundle)
    assert "site_small" in tool.sites(path) and "site_small" in tool.sites(copy) and "site_resized" in tool.sites(trace)
    os.remove(program)
    shutil.copy(tool.vmag, program)  # any other
    for recording in (path, copy, trace):
        assert set(tool.sites(recording)) == {None}
        assert "in program (another build by now)" in tool.run("heap", recording), recording
    assert "site_small" in tool.sites(bundle)
    for words in (["--baseline", path, bundle], ["--baseline", bundle, path]):
        done = subprocess.run([tool.vmag, "check", *words], capture_output=True, text=True)
        assert done.returncode == 125 and "program was built anew since it was recorded" in done.stderr, done
    assert tool.run("check", "--baseline", bundle, bundle).startswith("passed")
    done = subprocess.run([tool.vmag, "diff", path, bundle], capture_output=True, text=True, check=True)
    assert "program was built anew" in done.stderr, done


def main(vmag, library, sites):
    if not os.path.exists(vmag):
        print(f"SKIPPED: {vmag} is not built (make tool)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(vmag, library, folder)
        small = check_estimates(tool, sites, "small", {"site_small": 200000 * 64})
        path = check_estimates(tool, sites, "large", {"site_middle": 4000 * 5120, "site_large": 100 << 20})
        check_others(tool, sites, small, path)
        check_formats(tool, path)
        check_cut(tool, sites)
        check_leaks_and_diff(tool, sites, path)
        check_json(tool, small, path)
        check_gate(tool, sites, path)
        check_refusals(tool, path)
        check_distance(tool, sites)
        check_missing(tool, sites)
        check_built_anew(tool, sites)


main(*sys.argv[1:])
