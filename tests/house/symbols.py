# The shared library exports what exported-symbols.txt documents and names beginning vmag_, nothing else, and needs libc alone.
# `symbols.py LIBRARY LIST`.  What is listed must be there; a second malloc in disguise must not.
# SPDX-License-Identifier: BSD-2-Clause
import re
import subprocess
import sys

NEEDED = re.compile(r"libc\.so|libc\.musl|libm\.so|libpthread\.so|libdl\.so|librt\.so|ld-linux|ld-musl|linux-vdso|libubsan|libgcc_s")


def exported(library):
    output = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in output.splitlines()}


def needed(library):
    output = subprocess.run(["readelf", "-d", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output)


def documented(path):
    with open(path, encoding="ascii") as file:
        return {line.split("#")[0].strip() for line in file} - {""}


def main(library, path):
    names, wanted = exported(library), documented(path)
    undocumented = sorted(name for name in names - wanted if not name.startswith("vmag_"))
    missing = sorted(wanted - names)
    strangers = [name for name in needed(library) if not NEEDED.match(name)]
    print(f"{len(names)} symbols exported")
    for title, found in (("undocumented", undocumented), ("missing", missing), ("libraries needed beyond the C library", strangers)):
        if found:
            print(f"{title}: {' '.join(found)}")
    sys.exit(bool(undocumented or missing or strangers))


main(*sys.argv[1:])
