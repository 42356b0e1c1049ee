#!/usr/bin/env python3
# Writes vmag-options.5, vmag-controls.7 and docs/controls.md from the library's own tables. `generate.py LIBRARY [--check]`.
# With --check nothing is written: it fails when a file is not what would be written.
# SPDX-License-Identifier: BSD-2-Clause
import ctypes
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TYPE_NAMES = {"const char *": "string"}


def rows(library, function):
    found = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
    getattr(library, function)(callback(lambda _, line: found.append(line.decode().rstrip("\n").split("\t"))), None)
    return found


def names():
    """Type, access and mark of jemalloc's names."""
    with open(os.path.join(ROOT, "tests/ctl/names.tsv"), encoding="ascii") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith(("#", "name\t"))]
    return {line[0]: line[1:] for line in lines}


def roff(text):
    return text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("−", "\\-")


def sentence(text):
    """What begins with a name, as malloc(0) or prof_leak, keeps it as it is."""
    first = text.split()[0].rstrip(",;:")
    is_name = first in ("malloc", "calloc") or any(mark in first for mark in "(_.")
    return roff((text[0] if is_name else text[0].upper()) + text[1:] + ".")


def head(name, section, what):
    return (f'.\\" Made by man/generate.py from the library\'s tables; do not edit.\n.\\" SPDX-License-Identifier: BSD-2-Clause\n'
            f'.TH {name.upper()} {section} "" "vmag" "vmag"\n.SH NAME\n{roff(name)} \\- {what}\n')


OPTIONS_TEXT = """.SH DESCRIPTION
Options are read once, when a process first uses the library. Their sources, of which the later ones win:
.IP 1. 3
the string given to the build
.RB ( VMAG_MALLOC_CONF
of CMake);
.IP 2. 3
letters (below): the link text of
.I /etc/malloc.conf
when it has no colon, the environment variable
.BR MALLOC_OPTIONS ,
the program's variable
.BR _malloc_options ;
.IP 3. 3
the program's variable
.BR malloc_conf ;
.IP 4. 3
the link text of
.IR /etc/malloc.conf ;
.IP 5. 3
the environment variable
.BR MALLOC_CONF ;
.IP 6. 3
the program's variable
.BR malloc_conf_2_conf_harder ;
.IP 7. 3
the environment variable
.BR VMAG_CONF .
.PP
Programs that run with raised privileges ignore the environment. But for the letters each source is a list of
.IR name : value
pairs, separated by commas. Numbers are written as in C (0x and 0 in front are understood), without suffixes;
.B default
is the value that an option has by itself. What is not understood is told in one line on the standard error, with its source
and the nearest name that there is, and skipped; with
.B abort_conf:true
the process then aborts.
.B confirm_conf:true
tells all sources and settings.
.PP
.B vmag options
.RB ( vmag\\-options (1))
prints this table with the values of a process and their sources; the controls opt.* of
.BR vmag-controls (7)
tell them to the program.
.SH LETTERS
Upper case switches on or doubles, lower case switches off or halves; a number in front repeats the letter.
.TP
.B A
abort
.TP
.B H
dirty_decay_ms:0; lower case: \\-1
.TP
.B J
junk
.TP
.B N
twice as many arenas; lower case: half
.TP
.B P
stats_print
.TP
.B U
utrace
.TP
.B V
zero_size_null
.TP
.B X
xmalloc
.TP
.B Z
zero
.TP
.BR K ", " Q ", " S
are accepted without effect: chunks, quantum and size classes are what they are.
"""


def option_entry(row):
    name, kind, value, _source, limits, meaning = row
    shown = value if value else "empty"
    limits = f", {limits}" if limits and kind != "bool" else ""
    return f".TP\n.B {roff(name)}\n{sentence(meaning.removeprefix('jemalloc: '))} ({roff(TYPE_NAMES.get(kind, kind))}{roff(limits)}; default {roff(shown)})\n"


def options_page(options):
    ours = [row for row in options if not row[5].startswith("jemalloc: ")]
    mirrored = [row for row in options if row[5].startswith("jemalloc: ")]
    return (head("vmag-options", 5, "options of the vmag memory allocator") + OPTIONS_TEXT + ".SH OPTIONS\n" +
            "".join(map(option_entry, ours)) +
            ".SH ACCEPTED FOR JEMALLOC\nThese are taken, checked and told by opt.*, and change nothing here.\n" +
            "".join(map(option_entry, mirrored)) + ".SH SEE ALSO\n.BR vmag\\-controls (7)\n")


CONTROLS_TEXT = """.SH DESCRIPTION
Controls are read and written by
.BR mallctl ,
.B mallctlnametomib
and
.B mallctlbymib
of
.IR jemalloc/jemalloc.h .
"<>" stands for an index: the number of an arena, or of a size class. Of arenas, 4096 means all of them, or their sums, as does the
number that is arenas.narenas, and 4097 those that were destroyed.
.PP
ENOENT: there is no such name, or an index is out of range. EPERM: written what is only read, read what is only written, or a
buffer where nothing is read or written. EINVAL: a length is not that of the type, and as much as fits was then read; there is no
place for the answer; or the control says so. EFAULT: another value that cannot be. EAGAIN: no memory, or no number left for an
arena or an explicit cache.
.PP
Statistics are those of the last snapshot; writing
.B epoch
takes a new one. The exact counters of a thread begin when it first asks for one of them; from then on its operations go
a second, counted fast path; after thread.peak.* was asked for, the slow way.
"""


def controls_page(controls):
    entries = "".join(f".TP\n.B {roff(name)}\n{sentence(meaning)} ({roff(TYPE_NAMES.get(kind, kind))}; {access.replace('-', 'no value')})\n"
                      for name, kind, access, meaning in controls if not name.startswith("opt."))
    return (head("vmag-controls", 7, "controls of the vmag memory allocator") + CONTROLS_TEXT + ".SH CONTROLS\n" + entries +
            ".TP\n.B opt.<option>\nThe value of the option, see\n.BR vmag\\-options (5).\n.SH SEE ALSO\n.BR vmag\\-options (5)\n")


def controls_table(controls):
    known = names()
    table = {row[0]: row[1:] for row in controls}
    lines = ["# Controls", "",
             "What vmag answers to each of the 395 names of jemalloc 5.3.0's `mallctl`. Made by `man/generate.py` from `src/ctl/controls.def`;",
             "`tests/ctl/names.py` and `tests/ctl/values.c` hold it to that. Marks: A, used by programs whose source was seen; B, sensible for",
             "any allocator; C, inside jemalloc. \"Absent\" is ENOENT. Names of options are told under `opt.`; what they do is in vmag-options(5).", "",
             "| name | type | jemalloc | mark | here |", "|---|---|---|---|---|"]
    for name, (kind, access, mark) in known.items():
        meaning = table[name][2]
        lines.append(f"| `{name}` | {kind.replace('|', ' ')} | {access} | {mark} | {meaning.replace('|', ' ')} |")
    extra = [name for name in table if name not in known]
    lines += ["", "Beyond those, with type and access as they are here (`opt.malloc_conf.*` tell what the sources of options held when they were read):", "",
              "| name | type | access | here |", "|---|---|---|---|"]
    for name in extra:
        kind, access, meaning = table[name]
        lines.append(f"| `{name}` | {kind} | {access} | {meaning.replace('|', ' ')} |")
    return "\n".join(lines) + "\n"


def main(path, *options):
    library = ctypes.CDLL(os.path.abspath(path))
    option_rows, controls = rows(library, "vmag_options_print"), rows(library, "vmag_controls_print")
    pages = {"man/vmag-options.5": options_page(option_rows), "man/vmag-controls.7": controls_page(controls),
             "docs/controls.md": controls_table(controls)}
    stale = []
    for name, text in pages.items():
        file_name = os.path.join(ROOT, name)
        if "--check" in options:
            with open(file_name, encoding="utf-8") as file:
                if file.read() != text:
                    stale.append(name)
        else:
            with open(file_name, "w", encoding="utf-8") as file:
                file.write(text)
    if stale:
        print(f"not current: {' '.join(stale)}; run man/generate.py build/lib/libvmag.so")
    sys.exit(bool(stale))


for variable in ("MALLOC_CONF", "MALLOC_OPTIONS", "VMAG_CONF"):
    if os.environ.pop(variable, None) is not None: # the library must not see it
        os.execv(sys.executable, [sys.executable, *sys.argv])
main(*sys.argv[1:])
