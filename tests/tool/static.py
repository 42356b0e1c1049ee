# The vmag command is one static binary: no loader, no library, and it works in a folder that has nothing else.
# `static.py VMAG LIBRARY HOLDER`
# SPDX-License-Identifier: BSD-2-Clause
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from holder import Holder, need_tool, skip

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NULL, DT_NEEDED = 0, 1


def needs_of(path):
    """Whether the ELF file names a loader, and how many libraries it needs; readelf is not always there."""
    with open(path, "rb") as file:
        elf = file.read()
    assert elf[:5] == b"\x7fELF\x02", path
    at, = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    heads = [struct.unpack_from("<IIQQQQQQ", elf, at + i * size) for i in range(count)]
    libraries = 0
    for kind, _, offset, _, _, length, _, _ in heads:
        if kind == PT_DYNAMIC:
            tags = [tag for tag, _ in struct.iter_unpack("<QQ", elf[offset:offset + length])]
            libraries += tags[:tags.index(DT_NULL)].count(DT_NEEDED)
    return any(head[0] == PT_INTERP for head in heads), libraries


def can_link_statically(folder):
    program = os.path.join(folder, "empty")
    done = subprocess.run([shutil.which("cc") or "gcc", "-x", "c", "-static-pie", "-o", program, "-"],
                          input="int main(void) { return 0; }", capture_output=True, text=True)
    return done.returncode == 0


def check_alone(vmag, holder, folder):
    """In a root of its own with /proc: nothing of the system is there."""
    root = os.path.join(folder, "root")
    os.makedirs(os.path.join(root, "proc"))
    shutil.copy(vmag, os.path.join(root, "vmag"))
    in_root = ["unshare", "--mount", "--", "sh", "-c",
               f"mount -t proc none {root}/proc && exec chroot {root} /vmag \"$@\"", "sh"]
    first = subprocess.run([*in_root, "--version"], capture_output=True, text=True)
    if first.returncode != 0 and not first.stdout.startswith("vmag"):
        assert "mount" in first.stderr or "unshare" in first.stderr or "chroot" in first.stderr, first
        print(f"no root of its own may be made here ({first.stderr.strip()}): not run in one")
        return
    done = subprocess.run([*in_root, "attach", holder.pid], capture_output=True, text=True)
    assert done.returncode == 0 and "allocated" in done.stdout, done


def check_names(vmag):
    """The C library's resolver is in the binary, too."""
    server = subprocess.Popen([vmag, "serve", "--all", "--listen", "localhost:0"], stderr=subprocess.PIPE, text=True)
    line = server.stderr.readline()
    server.kill()
    server.wait()
    server.stderr.close()
    assert "serving on http://" in line, line


def main(vmag, library, program):
    need_tool(vmag)
    with tempfile.TemporaryDirectory() as folder, Holder(library, program) as holder:
        check_names(vmag)
        if not can_link_statically(folder):
            skip("there is no static libc here (Debian has it in libc6-dev), so the command was linked dynamically")
        assert needs_of(shutil.which("sh"))[0] and needs_of(program)[1] > 0
        assert needs_of(vmag) == (False, 0), needs_of(vmag)
        holder.tell("grow", 4)
        check_alone(vmag, holder, folder)


main(*sys.argv[1:])
