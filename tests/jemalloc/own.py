# jemalloc's own tests, those that need no more than the public interface, built from the sources in the crate tikv-jemalloc-sys and run on our library.
# `own.py LIBRARY INCLUDE WORK [TEST …]`: those of own.tsv, which says what of them does not hold here and why, or those named; "--all" tries every
# test there is. A test function that names what is inside jemalloc is left out of its file.
# SPDX-License-Identifier: BSD-2-Clause
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))
MANIFEST = os.path.join(HERE, "..", "servers", "rust", "Cargo.toml")
TYPES = {"c": "char", "b": "bool", "ptr": "const void *", "d": "int", "u": "unsigned", "x": "unsigned", "ld": "long", "lu": "unsigned long",
         "zd": "ssize_t", "zu": "size_t", "zx": "size_t", "qd": "long long", "qu": "unsigned long long", "jd": "intmax_t", "ju": "uintmax_t",
         "d32": "int32_t", "u32": "uint32_t", "x32": "uint32_t", "d64": "int64_t", "u64": "uint64_t", "x64": "uint64_t"}
OPERATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
SINGLE = {"true": "!!(a), ==, 1", "false": "!!(a), ==, 0", "ptr_null": "(a) == NULL, ==, 1", "ptr_not_null": "(a) != NULL, ==, 1"}


def sources():
    pattern = os.path.join(os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo")), "registry/src/*/tikv-jemalloc-sys-*/jemalloc")
    if not glob.glob(pattern) and shutil.which("cargo"):
        subprocess.run(["cargo", "fetch", "--manifest-path", MANIFEST], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=100)
    found = sorted(glob.glob(pattern))
    if not found:
        print("the crate tikv-jemalloc-sys is not there and cannot be fetched")
        sys.exit(SKIPPED)
    return os.path.join(found[-1], "test")


def write_checks(path):
    """expect_zu_eq(a, b, …) and its like."""
    with open(path, "w", encoding="ascii") as file:
        for prefix, end in (("expect", ""), ("assert", "abort()")):
            for name, type_ in TYPES.items():
                for operation, sign in OPERATIONS.items():
                    file.write(f"#define {prefix}_{name}_{operation}(a, b, ...) TEST_COMPARE({type_}, {end}, a, {sign}, b, __VA_ARGS__)\n")
            for name, comparison in SINGLE.items():
                a, sign, b = comparison.split(", ")
                file.write(f"#define {prefix}_{name}(a, ...) TEST_COMPARE(int, {end}, {a}, {sign}, {b}, __VA_ARGS__)\n")
            for name, wanted in (("eq", 1), ("ne", 0)):
                file.write(f"#define {prefix}_str_{name}(a, b, ...) TEST_COMPARE(int, {end}, strcmp(a, b) == 0, ==, {wanted}, __VA_ARGS__)\n")
            file.write(f"#define {prefix}_not_reached(...) TEST_COMPARE(int, {end}, 0, ==, 1, __VA_ARGS__)\n")


def write_empty_headers(tests, work):
    """jemalloc's internal headers that a test names are empty here, but for those of own/: what they would declare is missing then."""
    for folder in ("jemalloc/internal", "test", "source"):
        os.makedirs(os.path.join(work, folder), exist_ok=True)
    for test in glob.glob(f"{tests}/*/*.c"):
        with open(test, encoding="utf-8") as file:
            for header in re.findall(r'"jemalloc/internal/(\w+\.h)"', file.read()):
                open(os.path.join(work, "jemalloc/internal", header), "w", encoding="ascii").close()
    for header in ("san.h",):
        open(os.path.join(work, "test", header), "w", encoding="ascii").close()


def options_of(test):
    """What the script beside the test asks for, in a build that can fill, check and profile."""
    script = os.path.splitext(test)[0] + ".sh"
    if not os.path.exists(script):
        return ""
    told = subprocess.run(["sh", "-c", f'. "{script}"; printf %s "$MALLOC_CONF"'], stdout=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, "enable_fill": "1", "enable_prof": "1", "enable_stats": "1", "enable_debug": "0"})
    return told.stdout


def without(source, lines):
    """The source without the functions, tests and declarations that these lines belong to; their names are taken off main's list."""
    kept, piece, start = [], [], 1
    gone = set()
    for number, line in enumerate(source + ["\n"], 1):
        piece.append(line)
        depth = sum(l.count("{") - l.count("}") for l in piece)
        ends = line.startswith(("}", "TEST_END")) or (depth == 0 and line.rstrip().endswith((";", "#endif"))) or line == "\n" and depth == 0
        if piece[0].startswith("TEST_BEGIN") and not line.startswith("TEST_END"):
            ends = False
        if not ends and number <= len(source):
            continue
        text = "".join(piece)
        if lines & set(range(start, number + 1)) and "main(void)" not in text:
            gone.update(re.findall(r"TEST_BEGIN\((\w+)\)", text))
            piece = ["\n" for _ in piece]
        kept += piece
        piece, start = [], number + 1
    head, main_, tail = "".join(kept).partition("\nmain(void)")
    for name in gone:
        tail = re.sub(rf"\b{name}\b,?", "", tail)
    tail = re.sub(r",(\s*)\)", r"\1)", tail)
    return (head + main_ + tail).splitlines(keepends=True)


def includes(tests, include, work):
    return [f"-I{folder}" for folder in (f"{HERE}/own", work, include, f"{tests}/include")]


def build(test, tests, library, include, work):
    """(tests left, the compiler's first complaint). What wants more than the public interface is left out, function by function."""
    name, end = os.path.splitext(os.path.basename(test))
    compiler = ["c++", "-std=gnu++17", "-fpermissive"] if end == ".cpp" else ["cc", "-std=gnu17", "-Werror=implicit-function-declaration"]
    copy, complaint = os.path.join(work, "source", name + end), ""
    with open(test, encoding="utf-8") as file:
        source = file.readlines()
    for _ in range(12):
        with open(copy, "w", encoding="utf-8") as file:
            file.writelines(source)
        left = 1 if end == ".cpp" else sum(line.startswith("TEST_BEGIN") for line in source)
        if left == 0:
            break
        done = subprocess.run([*compiler, "-w", "-O1", "-g", "-D_GNU_SOURCE", "-fno-builtin", "-fmax-errors=0", *includes(tests, include, work),
                               f"-I{os.path.dirname(test)}", copy, *glob.glob(os.path.join(work, "*.c.o")), "-o", os.path.join(work, name), library,
                               f"-Wl,-rpath,{os.path.dirname(library)}", "-lpthread", "-lm"], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            return left, complaint
        said = re.findall(rf"{re.escape(name + end)}:(\d+):(?:\d+: (?:fatal )?error:)? (.*)", done.stderr)
        wrong = [(int(line), text) for line, text in said ]
        complaint = complaint or (wrong[0][1] if wrong else done.stderr)
        source = without(source, {line for line, _ in wrong})
    return 0, complaint


def run(name, options, work):
    """(status, what it said)."""
    try:
        done = subprocess.run([os.path.join(work, name)], env={**os.environ, "MALLOC_CONF": options}, cwd=work, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=600)
    except subprocess.TimeoutExpired:
        return "timeout", ""
    return done.returncode, done.stdout.decode(errors="replace")


def expectations():
    """By test: what of it does not hold here, by name, with the reason."""
    rows = {}
    with open(os.path.join(HERE, "own.tsv"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            test, *fields = line.rstrip("\n").split("\t")
            rows.setdefault(test, {}).update([fields] if fields else [])
    return rows


def differences(said, status, expected):
    """Where a run differs from what is expected of it."""
    results = dict(reversed(line.split("\t")) for line in said.splitlines() if re.match(r"(passed|failed|skipped)\t", line))
    failed = {name for name, result in results.items() if result == "failed"} | ({"crash"} if isinstance(status, int) and status < 0 else set())
    found = [f"{name} failed" for name in sorted(failed - set(expected))] + [f"{name} did not fail" for name in sorted(set(expected) - failed)]
    if status == "timeout" or (status == 0 and not said):
        found.append(f"{status}, and nothing said")
    return found, len([result for result in results.values() if result == "passed"])


def main(library, include, work, *names):
    tests, expected = sources(), expectations()
    everything = "--all" in names
    write_empty_headers(tests, work)
    write_checks(os.path.join(work, "test", "checks.h"))
    for helper in [os.path.join(HERE, "own", "harness.c"), *glob.glob(os.path.join(tests, "src", "btalloc*.c"))]:
        subprocess.run(["cc", "-std=gnu17", "-O1", "-D_GNU_SOURCE", "-fno-builtin", *includes(tests, include, work), "-c", helper,
                        "-o", os.path.join(work, os.path.basename(helper) + ".o")], check=True)
    wanted = sorted(glob.glob(f"{tests}/integration/*.c") + glob.glob(f"{tests}/unit/*.c")) if everything else \
        [os.path.join(tests, test) for test in expected if not names or os.path.splitext(os.path.basename(test))[0] in names]
    passed, wrong = 0, False

    def one(test):
        left, complaint = build(test, tests, library, include, work)
        if left == 0:
            return test, "not public", complaint
        return test, *run(os.path.splitext(os.path.basename(test))[0], options_of(test), work)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for test, status, said in pool.map(one, wanted):
            name = os.path.relpath(test, tests)
            if status == "not public":
                differs, holds = [] if everything else [f"it does not build: {said}"], 0
            else:
                differs, holds = differences(said, status, expected.get(name, {}))
            passed += holds
            wrong |= bool(differs)
            if names or differs:
                print(f"{name}: {status}", said[:2000], *differs, sep="\n    ")
    print(f"{passed} of jemalloc's own tests pass, from {len(wanted)} files")
    return wrong


sys.exit(main(*sys.argv[1:]))
