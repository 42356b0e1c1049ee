#!/bin/sh
# Checks the tool's source: format, lints, unit tests, and the command's tests against a library if one is named.
#
# `tool/check.sh [LIBRARY]`. Without a library the tests use a stand-in that only writes the report. Needs the pinned
# toolchain (rust-toolchain.toml) with clippy and rustfmt, and a C compiler.
# SPDX-License-Identifier: BSD-2-Clause
set -eu

if [ $# -gt 0 ]; then
    VMAG_TEST_LIB=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
    export VMAG_TEST_LIB
fi
cd "$(dirname "$0")"
cargo fmt --check
# The crates are those of the command as it is released, which so are built once; the tool's own code is built with all checks.
set -- --quiet --release --locked --target "$(rustc -vV | sed -n 's/^host: //p')"
for setting in opt-level=0 debug-assertions=true overflow-checks=true; do
    set -- "$@" --config "profile.release.package.vmag-tool.$setting"
done
cargo clippy "$@" --all-targets -- -D warnings
cargo test "$@"
