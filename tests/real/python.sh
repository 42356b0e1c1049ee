# python3 at work, with its own small-object allocator and with plain malloc: dicts, json, re, pickle, threads, ctypes, zlib.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need python3
for allocator in default malloc; do
    PYTHONHASHSEED=1 PYTHONMALLOC=$allocator python3 "$SOURCES/python_program.py"
done
