# Builds the library once more in a variant, in a folder of its own, and the tests that fit there, and runs these.  Another compiler reads all the
# others too, for it may refuse them: "checked" what it does not build, "clang" what "checked" does not have.  `variant.py ROOT aarch64|musl|checked|clang`.  Skips loudly when the compiler or the emulator is missing.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

SKIPPED = 77
SECONDS = 1500
HERE = os.path.dirname(os.path.abspath(__file__))

# Programs needed, options of cmake, and the tests to run there.  An emulator gets short ones.
VARIANTS = {
    "aarch64": (["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "qemu-aarch64"], [f"-DCMAKE_TOOLCHAIN_FILE={HERE}/aarch64.cmake"],
                "^unit[.]os[.]rseq|^rseq[.](storm|abort_emulated)|^surface[.](errors|origin|new_failure|aligned|information)[.]|^surface[.]operators[.](shared|static|guarded[.]lite)|^stress[.](mixed|large)[.]2"),
    "musl": (["musl-gcc"], [f"-DCMAKE_TOOLCHAIN_FILE={HERE}/musl.cmake"],
             "^surface[.]|^life[.](many_threads|fork_first_use|thread_end|last_thread|unseen_ends|own_pthread_create|fork_streams|exit_amid_fork|fork_in_handler|fresh)|^nomem[.]huge_refused|^stress[.](mixed|large)[.]2|^house[.]symbols"),
    "checked": (["clang", "clang++"], ["-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++", "-DVMAG_DEBUG=ON", "-DVMAG_UBSAN=ON"],
                "^unit|^surface[.].*shared|^stress[.](mixed|small|large)[.]8|^life[.](fork_first_use|fork_handlers[.](first|last)|forkers|thread_end)"),
    "clang": (["clang", "clang++"], ["-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++"], "^unit[.]os|^surface[.]|^rseq[.](storm|abort)|^stress[.](mixed|large)[.]2"),
}

# No debugger comes here; the library stays as optimised as it is elsewhere, but that the tests' programs are is not what is judged.
QUICKLY = ["-DCMAKE_C_FLAGS_RELEASE=-O2", "-DCMAKE_CXX_FLAGS_RELEASE=-O2", "-DVMAG_TESTS_OPTIMISED=-O1"]

# What the compiler must have been told for the heap itself, or else the options did nothing.
PROOFS = {"checked": ["-fsanitize=undefined", "-DVMAG_DEBUG"]}


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def run(*command):
    """Runs a command to its end or, when that takes too long, ends it with all that it started."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        print(output[-6000:])
        sys.exit(f"more than {SECONDS} s: {' '.join(command)}")
    print(output[-6000:], end="")
    assert process.returncode == 0, f"failed: {' '.join(command)}"
    return output


def check_switched_on(folder, proofs):
    with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as file:
        commands = [entry["command"] for entry in json.load(file) if entry["file"].endswith("src/heap/heap.c")]
    assert commands and all(proof in command for command in commands for proof in proofs), f"the library is not compiled with {proofs}"


def commands_of(folder):
    """Files with the commands that compile them."""
    with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as file:
        return [(entry["file"], re.match(r"(.*) -o (\S+) -c (.*)", entry["command"])) for entry in json.load(file)]


def check_others(folder, elsewhere=()):
    """Whether the compiler takes the files that are not built, here or `elsewhere`, each as one program has it."""
    commands = commands_of(folder)
    built = {name for name, command in commands if os.path.exists(os.path.join(folder, command[2]))}
    others = {name: f"{command[1]} -fsyntax-only {command[3]}" for name, command in commands if name not in built and name not in elsewhere}
    assert others, "all files are built, or none is found"
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda command: run("sh", "-c", f"cd '{folder}' && {command}"), others.values()))
    print(f"read: {len(others)} files more")


def targets_of(folder, tests):
    """The libraries, and what is built of the files that the tests' commands and environments name."""
    listed = subprocess.run(["ctest", "--test-dir", folder, "-N", "-R", tests], check=True, capture_output=True, text=True).stdout
    chosen = set(re.findall(r"Test +#[0-9]+: (\S+)", listed))
    with open(os.path.join(folder, "tests", "CTestTestfile.cmake"), encoding="utf-8") as file:
        lines = [line for line in file if (named := re.search(r"\[=*\[(.*?)\]=*\]", line)) and named[1] in chosen]
    files = re.findall(re.escape(folder) + r"/(?:tests|lib)/([^\s\"':;,]+)", "".join(lines))
    names = {re.sub(r"^lib(.*)[.](so|a)$", r"\1", name) for name in files}
    known = subprocess.run(["cmake", "--build", folder, "--target", "help"], check=True, capture_output=True, text=True).stdout
    return sorted((names | {"vmag", "vmag_static"}) & set(re.findall(r"^(?:[.]{3} )?([\w-]+)(?:: phony)?$", known, re.MULTILINE)))


def main(root, variant):
    programs, options, tests = VARIANTS[variant]
    for program in programs:
        if not shutil.which(program):
            skip(f"{program} is not installed")
    with tempfile.TemporaryDirectory(prefix=f"vmag-{variant}-") as folder:
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        run("cmake", "-S", root, "-B", folder, "-DVMAG_TESTS_BUILDS=OFF", *QUICKLY, *generator, *options)
        run("cmake", "--build", folder, "-j2", "--target", *targets_of(folder, tests))
        if variant == "checked":
            check_others(folder)
        if variant == "clang":  # programs that only an optimised build without checks has
            run("cmake", "-S", root, "-B", f"{folder}/checked", "-DVMAG_TESTS_BUILDS=OFF", *generator, *VARIANTS["checked"][1])
            check_others(folder, {name for name, _ in commands_of(f"{folder}/checked")})
        check_switched_on(folder, PROOFS.get(variant, []))
        report = run("ctest", "--test-dir", folder, "-R", tests, "-j2", "--output-on-failure")
        assert "No tests were found" not in report, f"no test matches {tests}"


main(*sys.argv[1:])
