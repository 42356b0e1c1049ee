#!/bin/sh
# Makes sure that what vmag needs is there: `scripts/setup.sh [build] [test] [bench] [experiments]`, "build" without a word.
#
# Looks for commands and files, not for packages, so it says nothing and takes no time when all is there. What is
# missing is installed by apt-get when run as root on Debian or Ubuntu; otherwise it is named in one line and the
# script fails. No service is started by an installation, and the machine's own policy file is put back.
# SPDX-License-Identifier: BSD-2-Clause
set -eu

policy=/usr/sbin/policy-rc.d
policy_aside=/usr/sbin/policy-rc.d.before-vmag-setup
policy_mark="vmag setup: no service is started"

# purpose, what must be there (a compiler, of the language; a header; a command; a path, globs allowed; a library of the loader's cache), packages that
# bring it (the first one known to apt is taken); "wish" instead of "need": taken along, never a reason to fail.
needs() {
    cat <<'TABLE'
build need compiler:c                       gcc
build need header:stdlib.h                  libc6-dev
build need compiler:c++                     g++
build need command:cmake                    cmake
build need command:make                     make
build wish command:ninja                    ninja-build
test  need command:clang                    clang
test  need path:/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.tsan*.a libclang-rt-dev
test  need command:python3                  python3
test  need command:perl                     perl
test  need command:bash                     bash
test  need command:git                      git
test  need command:sqlite3                  sqlite3
test  need command:redis-server             redis-server
test  need command:redis-benchmark          redis-tools
test  need command:named                    bind9
test  need command:dig                      bind9-dnsutils|dnsutils
test  need command:varnishd                 varnish
test  wish command:nginx                    nginx-light
test  wish command:apache2                  apache2
test  wish path:/usr/lib/apache2/modules/libphp*.so libapache2-mod-php
test  wish command:squid                    squid
test  wish command:nghttpd                  nghttp2-server
test  wish command:h2load                   nghttp2-client
test  wish command:clickhouse-server        clickhouse-server
test  wish command:clickhouse-client        clickhouse-client
test  wish command:mariadbd                 mariadb-server
test  wish path:/usr/lib/postgresql/*/bin/postgres postgresql
test  wish command:gdb                      gdb
test  need command:aarch64-linux-gnu-gcc    gcc-aarch64-linux-gnu
test  need command:aarch64-linux-gnu-g++    g++-aarch64-linux-gnu
test  need path:/usr/aarch64-linux-gnu/include/stdlib.h libc6-dev-arm64-cross
test  need command:qemu-aarch64             qemu-user
test  need command:musl-gcc                 musl-tools
test  need library:libjemalloc.so.2         libjemalloc2
test  need command:valgrind                 valgrind
test  wish command:jeprof                   libjemalloc-dev
test  wish command:chromium                 chromium
test  need command:strace                   strace
test  wish command:php                      php-cli
test  wish command:prometheus               prometheus
test  wish path:/usr/lib/python3/dist-packages/matplotlib python3-matplotlib
test  wish path:/usr/lib/python3/dist-packages/jsonschema python3-jsonschema
test  wish library:libjemalloc.so.2         libjemalloc2
bench need library:libjemalloc.so.2         libjemalloc2
bench need library:libmimalloc.so           libmimalloc2.0|libmimalloc3|libmimalloc2
bench need library:libtcmalloc_minimal.so.4 libtcmalloc-minimal4|libtcmalloc-minimal4t64
bench need library:libtbbmalloc_proxy.so    libtbbmalloc2
bench need command:time                     time
bench wish library:libJudy.so.1             libjudydebian1
experiments need command:perl               perl
experiments need command:gs                 ghostscript
experiments need command:lua5.4             lua5.4
experiments need command:z3                 z3
experiments need command:mariadbd           mariadb-server
experiments need command:sysbench           sysbench
experiments need command:puma               puma
experiments need path:/usr/share/rubygems-integration/*/specifications/rack-*.gemspec ruby-rack
experiments need command:wrk                wrk
experiments need command:redis-server       redis-server
experiments need command:redis-benchmark    redis-tools
experiments need command:clang              clang
TABLE
}

main() {
    purposes=${*:-build}
    check_purposes
    missing=$(missing_packages need)
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "missing for $purposes: $(one_line "$missing"). As root on Debian or Ubuntu:" \
            "apt-get install $(one_line "$missing" | sed 's/|[^ ]*//g')"
    fi
    install_packages "$missing"
    missing=$(missing_packages need)
    [ -z "$missing" ] || fail "installed, but still not there: $(one_line "$missing")"
}

fail() {
    echo "setup: $*" >&2
    exit 1
}

one_line() {
    echo $1
}

check_purposes() {
    for purpose in $purposes; do
        case $purpose in
        build | test | bench | experiments) ;;
        *) fail "unknown purpose '$purpose'; there are build, test, bench and experiments" ;;
        esac
    done
}

# The packages of the wanted purposes whose thing is not there.
missing_packages() {
    weight=$1
    needs | while read -r purpose row_weight thing packages; do
        case " $purposes " in *" $purpose "*) ;; *) continue ;; esac
        [ "$weight" = "$row_weight" ] || continue
        is_there "$thing" || echo "$packages"
    done
}

is_there() {
    case $1 in
    compiler:c) [ -n "$(first_of ${CC:-cc gcc clang})" ] ;;
    compiler:c++) [ -n "$(first_of ${CXX:-c++ g++ clang++})" ] ;;
    header:*) echo "#include <${1#header:}>" | ${CC:-$(first_of cc gcc clang)} -E -x c - >/dev/null 2>&1 ;;
    command:*) [ -n "$(PATH=$PATH:/usr/sbin:/usr/local/sbin; command -v "${1#command:}")" ] ;;
    path:*) for path in ${1#path:}; do [ ! -e "$path" ] || return 0; done; return 1 ;;
    library:*) PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -qF "${1#library:}" ;;
    esac
}

# As CMake chooses a compiler.
first_of() {
    for program in "$@"; do
        ! command -v "$program" || return 0
    done
}

install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    wanted=$1
    if ! chosen=$(choose_packages "$wanted"); then
        fetch_lists
        chosen=$(choose_packages "$wanted") || fail "apt knows no package for: $(one_line "$chosen")"
    fi
    wishes=$(choose_packages "$(missing_packages wish)") || wishes=
    echo "setup: installing $(one_line "$chosen $wishes")" >&2
    forbid_services
    apt_install $chosen $wishes || { update_lists && apt_install $chosen $wishes; } || install_needs ||
        fail "apt-get install failed; the lines above say why"
    allow_services
    keep_from_booting $chosen $wishes
}

install_needs() {
    [ -n "$wishes" ] || return 1
    echo "setup: without what is only wished for" >&2
    apt_install $chosen || [ -z "$(missing_packages need)" ]
}

fetch_lists() {
    update_lists || fail "apt-get update failed; the lines above say why"
}

# A machine that has just begun may be updating itself: that is waited for, here and below, some minutes.
update_lists() {
    echo "setup: fetching the package lists" >&2
    for pause in 10 30 60 60; do
        ! words=$(LC_ALL=C apt-get update -qq 2>&1) || return 0
        echo "$words" >&2
        case $words in *"get lock"*) sleep $pause ;; *) return 1 ;; esac
    done
    return 1
}

apt_install() {
    apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >&2
}

# For each a|b the first that apt can install. Prints those without any, and fails, when there are such.
choose_packages() {
    chosen= unknown=
    for alternatives in $1; do
        found=
        for package in $(echo "$alternatives" | tr '|' ' '); do
            [ -n "$found" ] || ! is_known "$package" || found=$package
        done
        if [ -n "$found" ]; then chosen="$chosen $found"; else unknown="$unknown $alternatives"; fi
    done
    if [ -n "$unknown" ]; then
        echo "$unknown"
        return 1
    fi
    echo "$chosen"
}

is_known() {
    apt-cache policy "$1" | grep -q 'Candidate: [^(]'
}

# Debian starts a service when its package is installed, unless this file says no (exit status 101).
forbid_services() {
    trap allow_services EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    if [ -e "$policy" ] && ! grep -qF "$policy_mark" "$policy"; then
        mv "$policy" "$policy_aside"
    fi
    printf '#!/bin/sh\n# %s\nexit 101\n' "$policy_mark" >"$policy"
    chmod 755 "$policy"
}

allow_services() {
    trap - EXIT INT TERM HUP
    ! grep -qsF "$policy_mark" "$policy" || rm -f "$policy"
    [ ! -e "$policy_aside" ] || mv "$policy_aside" "$policy"
}

# The tests start servers of their own; one that comes with every boot was not asked for.
keep_from_booting() {
    command -v systemctl >/dev/null || return 0
    for package in "$@"; do
        case $package in
        redis-server | varnish | mariadb-server | postgresql | prometheus | clickhouse-server | apache2 | squid) service=${package%-server} ;;
        bind9) service=named ;;
        nginx*) service=nginx ;;
        *) continue ;;
        esac
        systemctl disable --quiet "$service" 2>/dev/null || systemctl disable --quiet "$package" 2>/dev/null || true
    done
}

main "$@"
