# node, a large C++ program: maps, strings, buffers, JSON, sorting, regular expressions, zlib, workers.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need node
node "$SOURCES/node_program.js"
