#!/bin/sh
# Shows vmag on a real program: the same work on the C library's malloc and on vmag, by turns, side by side.
#
# Runs python3, or perl where there is no python3, through `vmag compare`; where that command was not built,
# through plain LD_PRELOAD. Environment: ROUNDS, how often each side runs (5); BUILD, the build folder.
# SPDX-License-Identifier: BSD-2-Clause
set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../build}
tool=$build/bin/vmag
library=$build/lib/libvmag.so
rounds=${ROUNDS:-5}

main() {
    [ -f "$library" ] || fail "$library is not there; run make first"
    case $rounds in '' | *[!0-9]* | 0*) fail "ROUNDS must be a number from 1 up, not '$rounds'" ;; esac
    # What the caller preloads would stand on both sides.
    unset LD_PRELOAD
    choose_program
    make_folder
    # The dynamic loader splits LD_PRELOAD at blanks and colons.
    case $library in *[\ :]*) cp "$library" "$folder/" && library=$folder/libvmag.so ;; esac
    echo "Each side runs $rounds times, by turns."
    if [ -x "$tool" ]; then
        "$tool" compare --lib "$library" --only vmag --rounds "$rounds" -- "$program" "$work"
    else
        echo "The vmag command was not built (it needs cargo), so this goes through plain LD_PRELOAD."
        compare_by_preload
    fi
}

fail() {
    echo "demo: $*" >&2
    exit 1
}

# Sets program and work. Behind a version manager's "python3" stands another file, which is the one to measure.
choose_program() {
    if program=$(PYTHONMALLOC=malloc python3 -c 'import sys; print(sys.executable)' 2>/dev/null); then
        work=$here/demo/work.py
        export PYTHONMALLOC=malloc PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1
        echo "$("$program" --version) rewrites modules of its own library, turns JSON round, fills dictionaries."
        echo "PYTHONMALLOC=malloc: Python's own pool for small objects is off, so every object is a malloc."
    elif program=$(command -v perl); then
        work=$here/demo/work.pl
        export PERL_HASH_SEED=0
        echo "$("$program" -e 'printf "Perl %vd", $^V') indexes its own library, writes and reads the index, fills hashes."
    else
        fail "there is neither python3 nor perl to show"
    fi
}

make_folder() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

compare_by_preload() {
    round=0
    while [ "$round" -lt "$rounds" ]; do
        round=$((round + 1))
        if [ $((round % 2)) = 1 ]; then sides='on_vmag without_vmag'; else sides='without_vmag on_vmag'; fi
        for side in $sides; do
            $side || fail "the program failed in round $round, $side"
        done
    done
    grep -qs '"loaded"' "$folder/report" || fail "the library never reported from $program: nothing was measured"
    show_table
}

on_vmag() {
    LD_PRELOAD=$library VMAG_REPORT=$folder/report DEMO_FIGURES=$folder/on "$program" "$work" >/dev/null
}

without_vmag() {
    DEMO_FIGURES=$folder/without "$program" "$work" >/dev/null
}

show_table() {
    printf '%-18s %28s %28s %7s\n' 'median (range)' 'without vmag' 'on vmag' 'ratio'
    row 'wall time s' 1 1 3
    row 'user + system s' 2 1 3
    row 'peak resident MiB' 3 1024 2
}

# One figure of both sides: title, column of the figures, divisor, digits.
row() {
    for side in without on; do
        cut -d' ' -f"$2" "$folder/$side" | LC_ALL=C sort -g
    done |
        LC_ALL=C awk -v title="$1" -v divisor="$3" -v digits="$4" -v rounds="$rounds" '
        function number(value) { return sprintf("%.*f", digits, value / divisor) }
        function median(first) { return (v[first + int((rounds - 1) / 2)] + v[first + int(rounds / 2)]) / 2 }
        function cell(first) {
            return number(median(first)) " (" number(v[first]) " - " number(v[first + rounds - 1]) ")"
        }
        { v[NR] = $1 }
        END {
            printf "%-18s %28s %28s %7.2f\n", title, cell(1), cell(rounds + 1), median(rounds + 1) / median(1)
        }'
}

main "$@"
