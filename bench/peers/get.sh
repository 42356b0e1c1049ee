#!/bin/sh
# Gets the allocators that vmag is measured against, each as a library that LD_PRELOAD can load, into build/peers.
#
# The Debian packages are installed when we are root, and else named in one line. The current releases come from
# crates.io, whose packages carry the projects' own C and C++ sources; each is built with the project's own build
# files and default options. Nothing of them enters this tree.
#
#   bench/peers/get.sh              everything that is missing
#   bench/peers/get.sh --again      fetch and build the crates anew
#
# What it did is in build/peers/versions.txt, one line a peer: name, version, origin, library.
# SPDX-License-Identifier: BSD-2-Clause
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
out=$top/build/peers
log=$out/log
versions=$out/versions.new # in its place when it is whole
crates="libmimalloc-sys tikv-jemalloc-sys snmalloc-sys rpmalloc-sys"
packages="libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 libtbbmalloc2"
jobs=${JOBS:-$(nproc)}

say() { echo "peers: $*" >&2; }

# Debian's peers: install what is missing, or tell how.
debian_install() {
    missing=
    for package in $packages; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing$missing"
        apt-get install -y --no-install-recommends $missing >"$log/apt.txt" 2>&1 || say "apt-get failed, see $log/apt.txt"
    else
        say "not installed; please run: sudo apt-get install$missing"
    fi
}

# One line in versions.txt for an installed package: $1 name, $2 package, $3 library file.
debian_note() {
    library=$(dpkg-query -L "$2" 2>/dev/null | grep "/$3\$" | head -n 1)
    [ -n "$library" ] || return 0
    version=$(dpkg-query -W -f='${Version}' "$2")
    echo "$1 $version debian:$2 $library" >>"$versions"
}

# Download the crates, at their current releases, through cargo. What was built of others is built anew, so that versions are of what is there.
crates_fetch() {
    missing=
    for crate in $crates; do [ -d "$out/vendor/$crate" ] || missing="$missing $crate"; done
    [ -n "$missing" ] || return 0
    mkdir -p "$out/fetch/src"
    : >"$out/fetch/src/lib.rs"
    {
        printf '[package]\nname = "peers"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n'
        for crate in $crates; do echo "$crate = \"*\""; done
    } >"$out/fetch/Cargo.toml"
    say "fetching from crates.io"
    rm -rf "$out/fetched"
    (cd "$out/fetch" && cargo vendor "$out/fetched") >"$log/fetch.txt" 2>&1 || return 1
    rm -rf "$out"/lib*.so "$out/vendor"
    mv "$out/fetched" "$out/vendor"
}

crate_version() { sed -n 's/^version = "\(.*\)"/\1/p' "$out/vendor/$1/Cargo.toml" | head -n 1; }

# Build one peer unless its library is there: $1 name, $2 crate, $3 version of the allocator itself.
# The function build_$1 compiles in a fresh copy of the sources and leaves $out/lib$1.so.
crate_build() {
    library=$out/lib$1.so
    if [ ! -f "$library" ]; then
        say "building $1 $3"
        rm -rf "$out/src/$1"
        mkdir -p "$out/src/$1"
        if ! "build_$1" "$out/vendor/$2" "$out/src/$1" >"$log/$1.txt" 2>&1; then
            say "$1 could not be built, see $log/$1.txt"
            return 0
        fi
    fi
    echo "$1 $3 crates.io:$2-$(crate_version "$2") $library" >>"$versions"
}

# mimalloc's crate leaves out the folder cmake/; its CMakeLists.txt needs two small files from there.
# What they define is only used for names and installation, so stand-ins do.
build_mimalloc() {
    cp -r "$1/c_src/mimalloc/$3/." "$2"
    mkdir -p "$2/cmake"
    echo 'set(mi_version_major 0)
set(mi_version_minor 0)
set(mi_version_patch 0)
set(mi_version 0.0)' >"$2/cmake/mimalloc-config-version.cmake"
    echo 'function(join_paths result)
endfunction()' >"$2/cmake/JoinPaths.cmake"
    cmake -S "$2" -B "$2/out" -DCMAKE_BUILD_TYPE=Release -DMI_BUILD_TESTS=OFF -DMI_BUILD_STATIC=OFF -DMI_BUILD_OBJECT=OFF &&
        cmake --build "$2/out" --target mimalloc -j "$jobs" &&
        cp -L "$2/out/libmimalloc.so" "$out/lib$4.so"
}
build_mimalloc3() { build_mimalloc "$1" "$2" v3 mimalloc3; }
build_mimalloc2() { build_mimalloc "$1" "$2" v2 mimalloc2; }

build_jemalloc() {
    cp -r "$1/jemalloc/." "$2"
    cp "$1/configure/configure" "$2/configure"
    (cd "$2" && sh configure --with-version="$(crate_version tikv-jemalloc-sys | sed 's/^[^+]*+//')" --disable-doc &&
        make -j "$jobs" build_lib_shared) &&
        cp -L "$2/lib/libjemalloc.so.2" "$out/libjemalloc.so"
}

build_snmalloc() {
    cp -r "$1/upstream/." "$2"
    cmake -S "$2" -B "$2/out" -DCMAKE_BUILD_TYPE=Release -DSNMALLOC_BUILD_TESTING=OFF &&
        cmake --build "$2/out" --target snmallocshim -j "$jobs" &&
        cp -L "$2/out/libsnmallocshim.so" "$out/libsnmalloc.so"
}

# One file and the malloc interface beside it, as its own build script compiles them.
build_rpmalloc() {
    cp -r "$1/rpmalloc/." "$2"
    ${CC:-cc} -std=gnu11 -O3 -DNDEBUG -fPIC -shared -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1 -D_GNU_SOURCE \
        -o "$out/librpmalloc.so" "$2/rpmalloc/rpmalloc.c" -lpthread -ldl
}

# mimalloc writes its version as one number: major, two digits minor, two digits patch.
mimalloc_version() {
    sed -n 's/^#define MI_MALLOC_VERSION *\([0-9]*\)\([0-9][0-9]\)\([0-9][0-9]\).*/\1 \2 \3/p' \
        "$out/vendor/libmimalloc-sys/c_src/mimalloc/$1/include/mimalloc.h" | { read -r a b c; echo "$a.${b#0}.${c#0}"; }
}

crates_build() {
    crate_build mimalloc3 libmimalloc-sys "$(mimalloc_version v3)"
    crate_build mimalloc2 libmimalloc-sys "$(mimalloc_version v2)"
    crate_build jemalloc tikv-jemalloc-sys "$(crate_version tikv-jemalloc-sys | sed 's/^[^+]*+//; s/-.*//')"
    crate_build snmalloc snmalloc-sys "$(crate_version snmalloc-sys)"
    crate_build rpmalloc rpmalloc-sys "$(sed -n 's/^\([0-9][0-9.]*\).*/\1/p' "$out/vendor/rpmalloc-sys/rpmalloc/CHANGELOG" | head -n 1)"
}

[ "${1:-}" != --again ] || rm -rf "$out"
mkdir -p "$log"
: >"$versions"

debian_install
debian_note jemalloc-deb libjemalloc2 libjemalloc.so.2
debian_note mimalloc-deb libmimalloc2.0 'libmimalloc.so.2.0'
debian_note tcmalloc-deb libtcmalloc-minimal4 libtcmalloc_minimal.so.4
debian_note tbb-deb libtbbmalloc2 libtbbmalloc_proxy.so.2

if ! command -v cargo >/dev/null || ! command -v cmake >/dev/null; then
    say "cargo and cmake are needed for the current releases; going on with Debian's"
elif crates_fetch; then
    crates_build
else
    say "crates.io could not be reached, see $log/fetch.txt; going on with what is there"
    [ ! -d "$out/vendor" ] || crates_build
fi
mv "$versions" "$out/versions.txt"
cat "$out/versions.txt" >&2
