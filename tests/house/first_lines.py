# Every source file says in its first line what lives there, and ends its head comment with the SPDX line.
# `first_lines.py ROOT`.  A shebang line may come first; a licence is not a description.
# SPDX-License-Identifier: BSD-2-Clause
import os
import re
import sys

FOLDERS = ("src", "include", "tests", "bench", "tool", "scripts")
MARKS = {".c": "//", ".h": "//", ".cpp": "//", ".rs": "//", ".js": "//", ".java": "//", ".def": "//",
         ".py": "#", ".sh": "#", ".cmake": "#", "CMakeLists.txt": "#"}
LEAST_CHARACTERS = 20
SPDX = "SPDX-License-Identifier: BSD-2-Clause"


def mark_of(name):
    return MARKS.get(name) or MARKS.get(os.path.splitext(name)[1])


def source_files(root):
    for folder in FOLDERS:
        for path, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(name for name in folders if name not in ("target", "build", "__pycache__"))
            yield from (os.path.join(path, name) for name in sorted(names) if mark_of(name))
    yield os.path.join(root, "CMakeLists.txt")


def head_comment(lines, mark):
    """The lines of the comment that a file begins with: line comments, one block comment, or a docstring."""
    for opening, closing in (("/*", "*/"), ('"""', '"""')):
        if lines and lines[0].startswith(opening):
            joined = "\n".join(lines)
            return joined[:joined.index(closing, len(opening)) + len(closing)].splitlines()
    count = next((number for number, line in enumerate(lines) if not line.startswith(mark)), len(lines))
    return lines[:count]


def faults(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    head = head_comment(lines, mark_of(os.path.basename(path)))
    if not head:
        yield f"the first line is not a comment: {lines[:1]}"
        return
    text = head[0].strip("/#!*\" ")
    if len(text) < LEAST_CHARACTERS:
        yield f"the first line says too little: {text!r}"
    if re.match(r"licen[cs]e|copyright|SPDX|\(c\)", text, re.IGNORECASE):
        yield f"the first line is about the licence: {text!r}"
    if SPDX not in " ".join(head[-2:]):
        yield "the last line of the head comment is not the SPDX line"


def main(root):
    files = list(source_files(root))
    found = [f"{os.path.relpath(path, root)}: {fault}" for path in files for fault in faults(path)]
    print(f"{len(files)} files")
    print("\n".join(found))
    sys.exit(bool(found) or len(files) < 10)


main(sys.argv[1])
