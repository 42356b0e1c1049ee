#!/bin/sh
# Builds the bench program into build/bench/bench when its sources are newer.
# SPDX-License-Identifier: BSD-2-Clause
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=$here/../build/bench
mkdir -p "$out"
if [ -x "$out/bench" ] && [ -z "$(find "$here/patterns" -name '*.[ch]' -newer "$out/bench")" ]; then exit 0; fi

# -fno-builtin-*: the compiler knows what malloc means and would leave out calls whose result is not used.
# shellcheck disable=SC2086
exec ${CC:-cc} -std=c17 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wmissing-prototypes ${CFLAGS:-} \
    -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free \
    -pthread -o "$out/bench" "$here"/patterns/*.c
