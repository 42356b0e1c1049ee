# Documents mention no file that is not there: links of Markdown files, and `paths/in/backquotes` that look like ours.
# `links.py ROOT`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
QUOTED = re.compile(r"`((?:src|include|tests|bench|tool|scripts|docs|man)/[\w./-]+)`")


def documents(root):
    yield from (os.path.join(root, name) for name in sorted(os.listdir(root)) if name.endswith(".md"))
    for folder in ("docs", "bench", "tests", "tool"):
        for path, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = [name for name in folders if name not in ("target", "build")]
            yield from (os.path.join(path, name) for name in sorted(names) if name.endswith(".md"))


def faults(root, document):
    with open(document, encoding="utf-8") as file:
        text = file.read()
    for target in LINK.findall(text):
        if not re.match(r"[a-z]+:", target) and not os.path.exists(os.path.join(os.path.dirname(document), target)):
            yield f"links to {target}"
    for target in QUOTED.findall(text):
        if not os.path.exists(os.path.join(root, target.rstrip("."))):
            yield f"mentions {target}"


def main(root):
    all_documents = list(documents(root))
    found = [f"{os.path.relpath(document, root)} {fault}, which does not exist"
             for document in all_documents for fault in faults(root, document)]
    print(f"{len(all_documents)} documents")
    print("\n".join(found))
    sys.exit(bool(found) or not os.path.exists(os.path.join(root, "README.md")))


main(sys.argv[1])
