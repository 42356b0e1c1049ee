# Counts the instructions of one hit of malloc, free, free_sized and realloc of NULL with callgrind, and reads which they are with objdump.
# `fast_path.py PROGRAM LIBRARY GOLDEN [--update]`.  The difference of a run with 2000 calls and one with 1000 leaves hits only:
# neither start-up nor misses.  Counts must not pass the bars nor the golden file's (written by --update when they fall).  malloc asks for the next
# object's line in order to write: who asks to read it fetches it twice where another processor had it.
# SPDX-License-Identifier: BSD-2-Clause
import collections
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
CALLS = 1000
SIZES = (16, 64, 512, 1024)
BARS = {"malloc": 15, "free": 15, "free_sized": 12, "realloc": 17}
PAIRS = (("malloc", "free"), ("malloc", "free_sized"), ("realloc", "free"))  # as fast_path.c numbers them
ASKED = {"malloc": ["prefetchw"], "realloc": ["prefetchw"]}
FORBIDDEN = re.compile(r"^(call|lock|div|idiv|push|pop|enter|leave|xchg|mfence)|%rsp")


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def profile(program, size, pair, calls, folder):
    """Executed instructions, as {(object, function): {address: times}}."""
    out = os.path.join(folder, f"callgrind.{size}.{pair}.{calls}")
    subprocess.run(["valgrind", "--tool=callgrind", "--dump-instr=yes", "--compress-strings=no", "--compress-pos=no",
                    f"--callgrind-out-file={out}", program, str(size), str(pair), str(calls)],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1200)
    counts = collections.defaultdict(lambda: collections.defaultdict(int))
    home = function = None
    after_calls = False
    with open(out, encoding="utf-8") as file:
        for line in file:
            if line.startswith("ob="):
                home = line[3:].strip()
            elif line.startswith("fn="):
                function = line[3:].strip()
            elif line.startswith("calls="):
                after_calls = True  # the next line is what the callee cost, not this function
            elif line.startswith("0x"):
                address, _, cost = line.split()[:3]
                if not after_calls:
                    counts[home, function][int(address, 16)] += int(cost)
                after_calls = False
    return counts


def hits(program, library, size, pair, folder):
    """Instructions of the library executed per round of one pair, as {function: {address: times}}."""
    short, long_ = (profile(program, size, pair, calls, folder) for calls in (CALLS, 2 * CALLS))
    result = {}
    for (home, function), addresses in long_.items():
        if home and os.path.basename(home) == os.path.basename(library):
            extra = {address: times - short[home, function][address] for address, times in addresses.items()}
            extra = {address: times for address, times in extra.items() if times >= CALLS // 2}
            if extra:
                result[function] = extra
    return result


def disassembly(library):
    output = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = (re.match(r"\s*([0-9a-f]+):\s+(.*)", line) for line in output.splitlines())
    return {int(line[1], 16): line[2].split("#")[0].strip() for line in lines if line}


def read_golden(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="ascii") as file:
        lines = [line.split("#")[0].split() for line in file]
    return {(line[0], int(line[1])): int(line[2]) for line in lines if line}


def write_golden(path, counts):
    with open(path, "w", encoding="ascii") as file:
        file.write("# Instructions of one hit, x86-64, gcc -O2, counted by fast_path.py: function, size, instructions.\n"
                   "# SPDX-License-Identifier: BSD-2-Clause\n")
        file.writelines(f"{name} {size} {count}\n" for (name, size), count in sorted(counts.items()))


def measure(program, library, folder):
    """Counts, and the forbidden instructions found, over all sizes."""
    counts, faults = {}, []
    text = disassembly(library)
    for size in SIZES:
        for number, pair in enumerate(PAIRS):
            executed = hits(program, library, size, number, folder)
            others = sorted(set(executed) - set(pair))
            faults += [f"{name} runs on the hit path of size {size}" for name in others]
            for name in pair:
                assert name in executed, f"{name} of size {size} was not seen: {sorted(executed)}"
                counts[name, size] = sum(executed[name].values()) // CALLS
                faults += [f"{name}({size}): {address:x}: {text[address]}" for address in sorted(executed[name])
                           if FORBIDDEN.search(text.get(address, "call of unknown"))]
                asked = [text[address].split()[0] for address in sorted(executed[name]) if text[address].startswith("prefetch")]
                if asked != ASKED.get(name, []):
                    faults.append(f"{name}({size}) asks for lines by {asked}, {ASKED.get(name, [])} expected")
    return counts, faults


def main(program, library, golden_path, *options):
    if platform.machine() != "x86_64":
        skip("the golden counts are for x86-64")
    for tool in ("valgrind", "objdump"):
        if not shutil.which(tool):
            skip(f"{tool} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        counts, faults = measure(program, library, folder)
    golden = read_golden(golden_path)
    for (name, size), count in sorted(counts.items()):
        limit = min(BARS[name], golden.get((name, size), BARS[name]))
        print(f"{name}({size}): {count} instructions, bar {BARS[name]}, golden {golden.get((name, size), 'none')}")
        if count > limit:
            faults.append(f"{name}({size}) takes {count} instructions, {limit} allowed")
        if count < golden.get((name, size), 0):
            print("   better than the golden file: run with --update")
    if "--update" in options:
        write_golden(golden_path, counts)
    print("\n".join(faults))
    sys.exit(bool(faults))


main(*sys.argv[1:])
