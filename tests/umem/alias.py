# Programs linked with -lumem run on the library: new ones, and old binaries that ask for libumem.so.0 or libumem.so.1.
# `alias.py LIBRARY-FOLDER INCLUDE-FOLDER SOURCE WORK-FOLDER`.  The headers also serve C89 and C++.
# SPDX-License-Identifier: BSD-2-Clause
import os
import shutil
import subprocess
import sys


def run(command, **keywords):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, **keywords)
    if result.returncode != 0:
        print(" ".join(command), result.stdout, sep="\n")
        sys.exit(f"failed with status {result.returncode}")
    return result.stdout


def check_runs_on_vmag(program, libraries):
    environment = dict(os.environ, LD_LIBRARY_PATH=libraries, UMEM_DEBUG="nonsense")
    output = run([program], env=environment)
    assert "hello there" in output and "done" in output, output
    assert "vmag: UMEM_DEBUG: no such item: nonsense" in output, "it does not run on vmag:\n" + output


def link_with_stub(source, include, work, soname):
    """A program as it was linked with a port of libumem: it needs that name and nothing of us."""
    stub = os.path.join(work, "stub.c")
    with open(stub, "w", encoding="ascii") as file:
        file.write("".join(f"void {name}(void) {{}}\n" for name in ("umem_alloc", "umem_free", "umem_reap")))
    run(["cc", "-shared", "-fPIC", "-w", stub, "-o", os.path.join(work, "libumem.so"), f"-Wl,-soname,{soname}"])
    program = os.path.join(work, soname + ".program")
    run(["cc", "-I", include, source, "-o", program, "-L", work, "-lumem"])
    return program


def main(libraries, include, source, work):
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    program = os.path.join(work, "program")
    run(["cc", "-I", include, source, "-o", program, "-L", libraries, "-lumem", "-lumem_malloc"])
    check_runs_on_vmag(program, libraries)
    for soname in ("libumem.so.0", "libumem.so.1"):
        check_runs_on_vmag(link_with_stub(source, include, work, soname), libraries)
    header = os.path.join(work, "header.c")
    with open(header, "w", encoding="ascii") as file:
        file.write("#include <umem.h>\nint x(void) { return UMEM_CALLBACK_EXIT(3); }\n")
    run(["cc", "-std=c89", "-pedantic", "-Wall", "-Werror", "-I", include, "-c", header, "-o", header + ".o"])
    if shutil.which("c++"):
        run(["c++", "-x", "c++", "-Wall", "-Werror", "-I", include, "-c", header, "-o", header + ".o"])


main(*sys.argv[1:])
