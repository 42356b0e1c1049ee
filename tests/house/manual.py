# A manual page knows every function, type and constant of its header: `manual.py HEADER PAGE`.  Comments do not count.
# SPDX-License-Identifier: BSD-2-Clause
import re
import sys

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
NAME = re.compile(r"\b(?:vmag_\w+|VMAG_[A-Z]\w+)\b")


def names_in(path):
    with open(path, encoding="utf-8") as file:
        return set(NAME.findall(COMMENT.sub("", file.read())))


def main(header, page):
    wanted = {name for name in names_in(header) if not name.endswith("_H")}
    with open(header, encoding="utf-8") as file:
        wanted -= set(re.findall(r"typedef struct (\w+)", file.read()))  # the tag; the type is named
    missing = sorted(wanted - names_in(page))
    print(f"{len(wanted)} names" + "".join(f"\n{page} does not mention {name}" for name in missing))
    sys.exit(bool(missing or len(wanted) < 5))


main(*sys.argv[1:])
