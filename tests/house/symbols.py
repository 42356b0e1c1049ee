# The shared library exports what exported-symbols.txt documents and names beginning vmag_, nothing else, and needs libc alone.
# `symbols.py LIBRARY LIST [ARCHIVE]`.  What is listed must be there; a second malloc in disguise must not. The archive shows no name beyond these,
# and what no C library has is weak there, so that a program may have its own. Nothing of the C library's in which a thread may be cancelled is called.
# SPDX-License-Identifier: BSD-2-Clause
import re
import subprocess
import sys

PROGRAMS_OWN = re.compile(r"_Z|umem_|vmem_|mallctl|malloc_(?:message|conf|stats_print)|\w+(?:allocx|allocm)$")
NEEDED = re.compile(r"libc\.so|libc\.musl|libm\.so|libpthread\.so|libdl\.so|librt\.so|ld-linux|ld-musl|linux-vdso|libubsan|libgcc_s")

# Cancellation points (POSIX.1, 2.9.5.2). Let be: write, before abort; fprintf, into a stream of the program's; pause, of who must not return.
CANCELLED_IN = set("""accept accept4 aio_suspend clock_nanosleep close connect copy_file_range creat epoll_wait fallocate fcntl fdatasync fsync lockf mq_receive mq_send msgrcv msgsnd msync nanosleep open openat
poll posix_fallocate ppoll pread preadv pselect pthread_cond_clockwait pthread_cond_timedwait pthread_cond_wait pthread_join pthread_testcancel pwrite pwritev read readv recv recvfrom recvmsg select sem_clockwait sem_timedwait sem_wait send
sendmsg sendto sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice system tcdrain usleep wait waitid waitpid writev""".split())


def imported(library):
    output = subprocess.run(["nm", "-D", "--undefined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {re.sub("^__(.*)_(chk|2)$", r"\1", re.sub("64(?=_|$)", "", line.split()[-1].split("@")[0])) for line in output.splitlines()}


def exported(library):
    output = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in output.splitlines()} - {"_init", "_fini"}  # musl's own, of each library


def shown(archive):
    """The archive's global names, with nm's letters; but two kinds of sections of which a program has one."""
    output = subprocess.run(["nm", "-g", "--defined-only", archive], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = dict(reversed(line.split()[1:]) for line in output.splitlines() if len(line.split()) == 3)
    return {name: letter for name, letter in names.items() if not re.match(r"DW\.ref\.|_\.stapsdt", name)}


def needed(library):
    output = subprocess.run(["readelf", "-d", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output)


def documented(path, c_library):
    """Names without a mark, and those with this C library's."""
    with open(path, encoding="ascii") as file:
        names = {line.split("#")[0].strip() for line in file} - {""}
    return {name.split()[-1] for name in names if ":" not in name or name.startswith(c_library + ":")}


def main(library, path, archive=None):
    names, libraries = exported(library), needed(library)
    wanted = documented(path, "musl" if any("musl" in name or name == "libc.so" for name in libraries) else "glibc")
    undocumented = sorted(name for name in names - wanted if not name.startswith("vmag_"))
    missing = sorted(wanted - names)
    strangers = [name for name in libraries if not NEEDED.match(name)]
    cancelled = sorted(imported(library) & CANCELLED_IN)
    assert "mmap" in imported(library)
    inner = strong = []
    if archive:
        own = shown(archive)
        inner = sorted(own.keys() - names)
        strong = sorted(name for name in own if PROGRAMS_OWN.match(name) and own[name] not in "WV")
        assert "malloc" in own
    print(f"{len(names)} symbols exported")
    for title, found in (("names that the archive shows", inner), ("strong in the archive", strong), ("undocumented", undocumented), ("missing", missing), ("libraries needed beyond the C library", strangers),
                         ("points of cancellation", cancelled)):
        if found:
            print(f"{title}: {' '.join(found)}")
    sys.exit(bool(undocumented or missing or strangers or inner or strong or cancelled))


main(*sys.argv[1:])
