#!/bin/sh
# Runs races.c, which a thread sanitizer watches: `races.sh PROGRAM SECONDS`.  Skipped where the sanitizer cannot have the addresses it wants.
# SPDX-License-Identifier: BSD-2-Clause
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" "$folder" "$2" 2>"$folder/told"
status=$?
cat "$folder/told"
if grep -q "unexpected memory mapping" "$folder/told"; then
    echo "SKIPPED: the thread sanitizer does not run on this kernel (vm.mmap_rnd_bits)"
    exit 77
fi
exit $status
