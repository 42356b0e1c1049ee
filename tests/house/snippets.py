# The C of a document compiles: its indented blocks, definitions at file level, statements in functions of their own.
# `snippets.py DOCUMENT INCLUDE COMPILER…`.
# SPDX-License-Identifier: BSD-2-Clause
import pathlib
import re
import subprocess
import sys

# What the texts take for granted.
PREAMBLE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>
static vmag_vmem_t *arena, *addresses, *pages;
static vmag_cache_t *nodes;
static void *node;
static void unmap(vmag_vmem_t *to, void *at, size_t size) { vmag_vmem_free(to, at, size); }
void use(void);
void use(void) { (void)arena; (void)addresses; (void)pages; (void)nodes; (void)node; (void)unmap; }
"""
DEFINITION = re.compile(r"#include|static |struct \w+ \{")


def blocks(text, manual):
    if manual:
        for block in re.findall(r"^\.Bd -literal -offset indent\n(.*?)^\.Ed", text, re.M | re.S):
            yield block
    else:
        for block in re.findall(r"(?:^(?:    .*)?\n)+", text, re.M):
            yield re.sub(r"^    ", "", block, flags=re.M)


def program(found):
    definitions, functions = [], []
    for number, block in enumerate(found):
        statements = []
        for piece in re.split(r"\n\s*\n(?=\S)", block):
            (definitions if DEFINITION.match(piece.lstrip()) else statements).append(piece)
        functions.append("void block_%d(void);\nvoid block_%d(void) {\n%s\n}\n" % (number, number, "\n".join(statements)))
    return PREAMBLE + "\n".join(definitions + functions)


def main(document, include, *compiler):
    text = pathlib.Path(document).read_text(encoding="utf-8")
    found = [block for block in blocks(text, document.endswith(".3")) if "vmag_" in block]
    assert found, f"{document}: no C in it"
    source = program(found)
    result = subprocess.run([*compiler, "-std=c17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-Wno-unused-parameter",
                             "-Wno-unused-function", "-Wno-unused-but-set-variable", f"-I{include}", "-fsyntax-only", "-x", "c", "-"],
                            input=source, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        print(source)
        sys.exit(result.stderr)
    print(f"{len(found)} pieces of C compile")


main(*sys.argv[1:])
