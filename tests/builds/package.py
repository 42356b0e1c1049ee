# vmag as others build and use it: a part of a project at a path with a blank, with a distribution's flags; installed, and found by CMake
# and pkg-config. `package.py ROOT`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = ["CMakeLists.txt", "src", "include", "layout", "package", "man"]
# As Ubuntu and Fedora have them, no level of optimisation, and one for programs that a library of one object does not stand.
FLAGS = {"CFLAGS": "-flto=auto -ffat-lto-objects -Wl,--gc-sections", "CXXFLAGS": "-flto=auto -ffat-lto-objects", "LDFLAGS": "-flto=auto -Wl,--as-needed"}


def run(*command, **environment):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment}, check=False)
    assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout[-6000:]}"
    return done.stdout


def check_is_served(*command, **environment):
    """vmag complains of an option that it does not know, the C library does not."""
    assert "vmag: " in run(*command, VMAG_CONF="nonsense:1", **environment), f"{command} does not run on vmag"


def build(source, folder, *options):
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    told = run("cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=None", *generator, *options, **FLAGS)
    assert "One object" not in run("cmake", "--build", folder, "-j2"), "the static library is of many objects (layout/join.cmake)"
    for name in ("vmag_c", "vmag_cxx", "static_c", "static_cxx"):
        check_is_served(os.path.join(folder, name))
    return told


def check_library(library, told):
    run("/bin/true", LD_PRELOAD=library)  # which takes no blanks
    strong = re.findall(r" U (__(?:gxx|cxa)\w+(?!.*GLIBC))", run("nm", "-D", library))
    assert not [name for name in strong if name != "__cxa_finalize"], f"the library needs {strong}"
    assert "layout_larger" in run("nm", library) or re.search("not laid out:.* GNU ld", told), "the layout is off"


def check_installed(prefix):
    for path, folders, names in os.walk(prefix):
        for name in folders + names:
            assert os.path.exists(os.path.join(path, name)), f"{path}/{name} leads nowhere"


def check_flags(libraries, program):
    flags = shlex.split(run("pkg-config", "--cflags", "--libs", "vmag", PKG_CONFIG_PATH=os.path.join(libraries, "pkgconfig")))
    run("cc", "-fno-builtin", "-Wl,--as-needed", os.path.join(HERE, "package/program.c"), "-o", program, *flags)
    check_is_served(program, LD_LIBRARY_PATH=libraries)


def main(root):
    with tempfile.TemporaryDirectory(prefix="vmag-package-") as folder:
        source, prefix = os.path.join(folder, "a project"), os.path.join(folder, "installed")
        shutil.copytree(os.path.join(HERE, "package"), source)
        shutil.copytree(source, os.path.join(folder, "finds"))
        for part in PARTS:
            copy = shutil.copytree if os.path.isdir(os.path.join(root, part)) else shutil.copy
            os.makedirs(os.path.join(source, "vmag"), exist_ok=True)
            copy(os.path.join(root, part), os.path.join(source, "vmag", part))
        told = build(source, os.path.join(source, "build"), "-DVMAG_INSTALL=ON", "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON",
                     "-DCMAKE_UNITY_BUILD=ON")
        run("cmake", "--install", os.path.join(source, "build"), "--prefix", prefix)
        library = run("find", prefix, "-name", "libvmag.so").strip()
        check_library(library, told)
        check_installed(prefix)
        build(os.path.join(folder, "finds"), os.path.join(folder, "finds", "build"), f"-DCMAKE_PREFIX_PATH={prefix}")
        if shutil.which("pkg-config"):
            check_flags(os.path.dirname(library), os.path.join(folder, "program"))
            blank = os.path.join(folder, "installed elsewhere")
            run("cmake", "--install", os.path.join(source, "build"), "--prefix", blank)
            check_flags(os.path.dirname(library).replace(prefix, blank), os.path.join(folder, "blank"))


main(sys.argv[1])
