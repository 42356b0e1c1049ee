# Builds the program of jemalloc's Rust crates with their link redirected to the library, and runs it.
# `rust.py LIBRARY SOURCES BUILD`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import subprocess
import sys
import tempfile

import server


def main(library, sources, build):
    server.need("cargo")
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", os.path.join(sources, "Cargo.toml"),
               "--target-dir", build]
    fetched = subprocess.run(["cargo", "fetch", "--quiet", "--locked", "--manifest-path", command[6]], stderr=subprocess.PIPE)
    if fetched.returncode != 0:
        server.skip("the crates tikv-jemallocator and tikv-jemalloc-ctl are not there and cannot be fetched")
    # The crates' build script takes a library of this name in place of building jemalloc.
    links = os.path.join(build, "lib")
    os.makedirs(links, exist_ok=True)
    link = os.path.join(links, "libjemalloc.so")
    with tempfile.TemporaryDirectory(dir=links) as folder:
        os.symlink(library, os.path.join(folder, "link"))
        os.replace(os.path.join(folder, "link"), link)
    server.run(command, env={**os.environ, "JEMALLOC_OVERRIDE": link})
    environment = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "MALLOC_CONF", "VMAG_CONF")}
    environment["LD_LIBRARY_PATH"] = os.path.dirname(library)
    told = server.run([os.path.join(build, "release/real-jemalloc")], env=environment)
    print(told, end="")
    assert "vmag: " not in told and "jemalloc>" not in told


main(*map(os.path.realpath, sys.argv[1:]))
