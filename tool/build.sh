#!/bin/sh
# Builds the vmag command: `tool/build.sh [BUILD_FOLDER]` leaves it as BUILD_FOLDER/bin/vmag (default: build),
# its manual pages and completions under BUILD_FOLDER/share.
#
# Uses the toolchain that rust-toolchain.toml pins, or else any cargo that is new enough. Exit status 3 and one line
# where there is none, or where the crates were never fetched and there is no network: the C library needs no Rust.
# SPDX-License-Identifier: BSD-2-Clause
set -eu

cannot_build=3
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
mkdir -p "$build"
build=$(cd "$build" && pwd)

main() {
    needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$here/Cargo.toml")
    # Inside this folder rustup obeys the pin; it fails there when the pinned toolchain cannot be had.
    cd "$here"
    version=$(cargo_version) || { cd /; version=$(cargo_version); } || skip "there is no working cargo"
    is_enough "$version" || skip "cargo $version is too old"
    cargo fetch --quiet --locked --manifest-path "$here/Cargo.toml" 2>/dev/null ||
        skip "its crates are not there and cannot be fetched"
    [ -e "$build/bin/vmag" ] || echo "tool: building the vmag command (a minute or two, once)" >&2
    mkdir -p "$build/bin"
    # The flags are for the command alone: its crates are those that check.sh tests it with. A target that is named is where cargo puts it, whatever its settings.
    target=$(rustc -vV | sed -n 's/^host: //p')
    cargo rustc --quiet --release --locked --offline --target "$target" --bin vmag --manifest-path "$here/Cargo.toml" \
        --target-dir "$build/tool" -- -C strip=symbols $(static_flags)
    # A rename, so that a command that is running stays whole.
    cp "$build/tool/$target/release/vmag" "$build/bin/vmag.new"
    mv "$build/bin/vmag.new" "$build/bin/vmag"
    "$build/bin/vmag" manual "$build/share"
}

skip() {
    echo "tool: the vmag command is not built: $* (cargo $needed or newer is needed; the library does without)" >&2
    exit $cannot_build
}

# One static binary goes to other machines and into containers as it is.
static_flags() {
    if echo 'int main(void) { return 0; }' | cc -x c -static-pie -o "$build/bin/.static" - 2>/dev/null; then
        echo "-C target-feature=+crt-static"
    else
        echo "tool: there is no static libc here (Debian has it in libc6-dev): the vmag command is linked dynamically" >&2
    fi
    rm -f "$build/bin/.static"
}

cargo_version() {
    cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p' | grep .
}

is_enough() {
    [ "$(printf '%s\n%s\n' "$needed" "$1" | sort -V | head -n 1)" = "$needed" ]
}

main
