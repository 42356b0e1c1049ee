# Every control of jemalloc 5.3.0 (names.tsv): known, of the right type and access, with jemalloc's rules for lengths and errors.
# `names.py LIBRARY NAMES VALUES`, run with the library preloaded; VALUES is a program that prints the names whose values it saw change.
# SPDX-License-Identifier: BSD-2-Clause
import ctypes
import errno
import os
import re
import subprocess
import sys

SIZES = {"bool": 1, "unsigned": 4, "uint32_t": 4, "uint64_t": 8, "int64_t": 8, "size_t": 8, "ssize_t": 8, "const char*": 8, "const char *": 8,
         "pointer": 8, "uint64_t*": 8, "uint64_t[2]": 16, "-": 0, "extent_hooks_t*": 8, "struct": None}
# What a read or a write of a bare name must not do in this test.
SIDE_EFFECTS = {"tcache.create", "arena.<>.name", "arenas.create", "experimental.arenas_create_ext", "arenas.lookup", "arena.<>.destroy", "arena.<>.reset",
                "experimental.batch_alloc", "prof.dump", "prof.prefix", "prof.reset", "prof.active", "trace.prefix", "trace.active", "thread.prof.name", "experimental.hooks.prof_dump",
                "experimental.hooks.prof_backtrace", "experimental.hooks.safety_check_abort"}
# Those of 5.3.1.
NEWER = {"config.prof_frameptr": "read", "stats.arenas.<>.hpa_sec_hits": "read", "stats.arenas.<>.hpa_sec_misses": "read", "stats.arenas.<>.hpa_sec_dalloc_flush": "read",
         "stats.arenas.<>.hpa_sec_dalloc_noflush": "read", "stats.arenas.<>.hpa_sec_overfills": "read", "stats.arenas.<>.hpa_shard.nhugify_failures": "read",
         "thread.tcache.max": "read, write", "thread.tcache.ncached_max.read_sizeclass": "absent", "thread.tcache.ncached_max.write": "absent", "experimental.hooks.prof_sample": "absent",
         "experimental.hooks.prof_sample_free": "absent", "experimental.hooks.thread_event": "absent"}


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.controls, self.options = {}, {}
        for print_, table in (("vmag_controls_print", self.controls), ("vmag_options_print", self.options)):
            callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
            getattr(self.c, print_)(callback(lambda _, line, table=table: table.update([self.row(line)])), None)

    @staticmethod
    def row(line):
        fields = line.decode().rstrip("\n").split("\t")
        return fields[0], fields[1:]

    def call(self, name, old_size=None, new=None, by_mib=False):
        """(error, bytes read, length told)."""
        old = ctypes.create_string_buffer(64) if old_size is not None else None
        length = ctypes.c_size_t(old_size or 0)
        arguments = (old, ctypes.byref(length) if old_size is not None else None, new, ctypes.c_size_t(len(new) if new is not None else 0))
        if by_mib:
            mib, used = (ctypes.c_size_t * 8)(), ctypes.c_size_t(8)
            error = self.c.mallctlnametomib(name.encode(), mib, ctypes.byref(used))
            if error == 0:
                error = self.c.mallctlbymib(mib, used, *arguments)
        else:
            error = self.c.mallctl(name.encode(), *arguments)
        return error, old.raw if old is not None else b"", length.value


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: {got}, not {wanted}")


def check_read(library, name, size):
    error, value, _ = library.call(name, size)
    expect(f"{name} read", error, 0)
    again, other, _ = library.call(name, size, by_mib=True)
    expect(f"{name} by MIB", again, 0)
    if not name.startswith(("thread.", "stats.arenas.0.uptime")):
        expect(f"{name} by MIB", other[:size], value[:size])
    for wrong in (size - 1, size + 1):
        error, part, length = library.call(name, wrong)
        expect(f"{name} read as {wrong} bytes", (error, length), (errno.EINVAL, min(size, wrong)))
        expect(f"{name} read as {wrong} bytes, not written", part[length:], bytes(64 - length))
    expect(f"{name} with nothing", library.call(name)[0], 0)
    return value[:size]


def check_source(library, name):
    """ENOENT where there is no such source; the string otherwise."""
    error, value, _ = library.call(name, 8)
    if name == "opt.malloc_conf.env_var" and "MALLOC_CONF" in os.environ:
        expect(name, (error, ctypes.string_at(int.from_bytes(value[:8], "little")).decode()), (0, os.environ["MALLOC_CONF"]))
    elif name != "opt.malloc_conf.symlink":
        expect(name, error, errno.ENOENT)


def check_control(library, name, kind, access, meaning):
    real = name.replace("<>", "0")
    if name.startswith("opt.malloc_conf."):
        check_source(library, name)
        return
    if meaning.startswith("absent"):
        expect(f"{real} is absent", library.call(real, 8)[0], errno.ENOENT)
        return
    if name in SIDE_EFFECTS or kind == "struct":
        return
    if access == "act":
        expect(f"{real} with a buffer", library.call(real, 8)[0], errno.EPERM)
        expect(f"{real} with a value", library.call(real, None, b"12345678")[0], errno.EPERM)
        expect(f"{real}", library.call(real)[0], 0)
        return
    size = SIZES[kind]
    if access == "see meaning" and name != "epoch":
        expect(f"{real} is read", library.call(real, size)[0], errno.EPERM)
        expect(f"{real} with nothing", library.call(real)[0], errno.EINVAL)
        expect(f"{real} with no number", library.call(real, None, b"\xff" * size)[0], errno.EFAULT)
        return
    value = check_read(library, real, size)
    if access == "read":
        expect(f"{real} written", library.call(real, None, value)[0], errno.EPERM)
    else:
        for wrong in (size - 1, size + 1):
            expect(f"{real} written as {wrong} bytes", library.call(real, None, (value + b"\0")[:wrong])[0], errno.EINVAL)
        if name != "arena.<>.extent_hooks":
            expect(f"{real} written back", library.call(real, size, value)[0], 0)


def check_names(library):
    for name in ("", ".", "no_such_name", "stats", "stats.", "stats.allocated.", "stats.allocated.x", "arenas.bin", "arenas.bin.0", "arena.x.purge",
                 "arena.5000.purge", "arena.99999999999999.purge", "arena.-1.purge", "stats.arenas.4097.pactive", "arenas.bin.36.size",
                 "arenas.lextent.196.size", "stats.arenas.0.bins.36.nmalloc", "stats.arenas.0.lextents.196.nmalloc", "opt.no_such_option"):
        expect(f"the name {name!r}", library.call(name, 8)[0], errno.ENOENT)
    mib, used = (ctypes.c_size_t * 4)(0, 0, 0, 42), ctypes.c_size_t(3)
    expect("a short MIB", library.c.mallctlnametomib(b"arenas.bin.0.nregs", mib, ctypes.byref(used)), 0)
    expect("a short MIB", (used.value, mib[3]), (3, 42))
    used.value = 4
    expect("a short name", library.c.mallctlnametomib(b"arenas.bin.0", mib, ctypes.byref(used)), 0)
    expect("a short name", (used.value, mib[3]), (3, 42))
    expect("a MIB that ends early", library.c.mallctlbymib(mib, used, None, None, None, ctypes.c_size_t(0)), errno.ENOENT)
    mib[2], used.value = 36, 4
    expect("a MIB beyond", library.c.mallctlnametomib(b"arenas.bin.0.nregs", mib, ctypes.byref(used)), 0)
    mib[2] = 36
    expect("a MIB beyond", library.c.mallctlbymib(mib, used, None, None, None, ctypes.c_size_t(0)), errno.ENOENT)


# Options that do something to the process that reads them here.
LEFT_ALONE = {"heap_source", "trace", "publish", "black_box", "front", "prof_prefix", "malloc_conf"}


def another(kind, value, limits):
    """A value that the option does not have."""
    if kind == "bool":
        return "false" if value == "true" else "true"
    if kind == "word":
        return [word for word in limits.split(", ") if word != value][-1]
    if kind == "text":
        return "x"
    least, most = re.match(r"(?:from )?(-?\d+)(?: to (\d+))?", limits).groups()
    if kind == "ratio":
        return "1" if value != "1" else "0"
    return next(number for number in (str(int(value) + 1), str(int(value) - 1)) if int(least) <= int(number) <= int(most or number))


def told_options(path, settings):
    """All options as opt.* tell them, in a process of those settings."""
    library = Library(path)
    for name, (value, *_rest) in settings.items():
        kind, *fields = library.options[name]
        if fields[0] != value:
            raise AssertionError(f"{name}:{value} was set, and is {fields[0]}")
        check_option(library, name, kind, *fields)


def check_changed_options(path, library):
    """opt.* say what MALLOC_CONF set: every option has another value than here."""
    settings = {name: (another(kind, value, limits), kind) for name, (kind, value, _source, limits, _meaning) in library.options.items() if name not in LEFT_ALONE}
    pairs = ",".join(f"{name}:{value}" for name, (value, _) in settings.items())
    code = f"import sys; sys.argv = ['']; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r}); import names; names.told_options({path!r}, {settings!r})"
    done = subprocess.run([sys.executable, "-c", code + "; print('all told')"], env={**os.environ, "MALLOC_CONF": pairs, "LD_PRELOAD": path},
                          capture_output=True, text=True, check=False, timeout=600)
    if "all told" not in done.stdout:
        raise AssertionError(done.stderr[-600:])
    return len(settings)


def main(path, list_path, values):
    library = Library(path)
    with open(list_path, encoding="ascii") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith(("#", "name\t"))]
    expect("names in the list", len(rows), 395)
    check_names(library)
    changing = set(subprocess.run([values], stdout=subprocess.PIPE, text=True, check=True).stdout.split())
    for name, kind, access, mark in rows:
        if name not in library.controls:
            raise AssertionError(f"{name} is not known")
        our_kind, our_access, meaning = library.controls[name]
        size = SIZES.get(kind.split(" [")[0].split(" (")[0], None)
        if our_kind != "struct" and size is not None:
            expect(f"size of {name}", SIZES[our_kind], size)
        if access.startswith("r") and our_access == "read":
            expect(f"access of {name}", access.split(" ")[0], "r")
        if access == "rw":
            assert our_access in ("read, write", "see meaning"), name
        if mark in "AB" and not name.startswith(("opt.", "config.")) and not meaning.startswith(("constant", "absent")):
            assert name in changing, f"nobody saw the value of {name} change"
    for name, wanted in NEWER.items():
        _, access, meaning = library.controls[name]
        expect(f"access of {name}", "absent" if meaning.startswith("absent") else access, wanted)
    for name, (kind, access, meaning) in sorted(library.controls.items(), key=lambda item: "destroy" in item[0]):
        check_control(library, name, kind, access, meaning)
    for name, fields in library.options.items():
        check_option(library, name, *fields)
    changed = check_changed_options(path, library)
    print(f"{len(rows)} names, {len(library.controls)} controls, {changed} options changed")


def check_option(library, name, kind, value, _source, _limits, _meaning):
    size = SIZES[library.controls["opt." + name][0]]
    error, got, _ = library.call("opt." + name, size)
    expect(f"opt.{name}", error, 0)
    if size == 8 and library.controls["opt." + name][0] == "const char *":
        got = ctypes.string_at(int.from_bytes(got[:8], "little")).decode()
        expect(f"opt.{name}", got, value)
    elif kind == "bool":
        expect(f"opt.{name}", bool(got[0]), value == "true")
    elif name == "narenas" and value == "0":
        expect("opt.narenas", got[:4], library.call("arenas.narenas", 4)[1][:4]) # what the default comes to
    elif kind != "ratio":
        expect(f"opt.{name}", int.from_bytes(got[:size], "little", signed=int(value) < 0), int(value))


if __name__ == "__main__":
    main(*sys.argv[1:])
