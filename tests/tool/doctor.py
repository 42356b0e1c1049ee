# `vmag doctor` and `vmag options` on processes whose allocators are known.
# `doctor.py VMAG LIBRARY FOLDER`: FOLDER has the programs and libraries of tests/tool.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77
BUILD_ID_NOTE = struct.pack("<III", 4, 20, 3) + b"GNU\0"  # and then the id
LINKERS_LIST, NO_LIST = struct.pack("<QQ", 21, 0), struct.pack("<QQ", 0x6FFFFEF0, 0)  # DT_DEBUG; nobody's


class Patient:
    """A process that waits to be looked at."""

    def __init__(self, *words, user=None, **environment):
        clean = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "VMAG_CONF", "MALLOC_CONF")}
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        user=user, env={**clean, **environment})
        assert self.process.stdout.readline() == b"ready\n", words

    def __enter__(self):
        return str(self.process.pid)

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Doctor:
    def __init__(self, vmag, library, folder):
        self.vmag, self.library, self.folder = vmag, library, os.path.realpath(folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *words):
        done = subprocess.run([self.vmag, *words], capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def of(self, pid):
        return json.loads(self.run("doctor", "--json", pid))

    def preloaded(self, *words, **environment):
        return Patient(*words, LD_PRELOAD=self.library, **environment)


def symbol(found, name):
    return next(row for row in found["symbols"] if row["symbol"] == name)


def limit(found, name):
    return next((row for row in found["limits"] if row["name"] == name), None)


def check_preloaded(doctor):
    with doctor.preloaded(doctor.path("tool_patient"), VMAG_CONF="thp:never,bad_name:1") as pid:
        found = doctor.of(pid)
        assert found["verdict"] == "vmag" and found["bindings_read"], found
        assert found["vmag"]["place"] == "preloaded" and found["vmag"]["version"], found["vmag"]
        malloc = symbol(found, "malloc")
        assert malloc["definition_of"] == doctor.library and malloc["callers"] > 0 and malloc["elsewhere"] == 0, malloc
        assert any("libc.so" in path for path in malloc["defined_by"]), malloc
        assert {"preloaded", "program", "needed", "loader"} <= {row["place"] for row in found["objects"]}, found["objects"]
        options = {row["name"]: row for row in found["options"]}
        assert (options["thp"]["value"], options["thp"]["source"]) == ("never", "VMAG_CONF"), options["thp"]
        assert options["narenas"]["source"] == "default"
        assert len(found["warnings"]) == 1 and "bad_name" in found["warnings"][0], found["warnings"]
        text = doctor.run("doctor", pid)
        assert ": runs on vmag\n" in text and "thp" in text and "bad_name" in text, text
        assert "never" in doctor.run("options", "--pid", pid, "thp")
        rows = json.loads(doctor.run("options", "--pid", pid, "--json", "thp", "junk"))["options"]
        assert [(row["name"], row["source"]) for row in rows] == [("thp", "VMAG_CONF"), ("junk", "default")], rows


def check_nothing_is_left(doctor):
    """Of who prints options: the process has a black box, and its trace has not begun."""
    with tempfile.TemporaryDirectory() as folder:
        conf = f"prof:true,prof_final:true,prof_prefix:{folder}/p,trace:{folder}/t,black_box:{folder}/b"
        with doctor.preloaded(doctor.path("tool_patient"), VMAG_CONF=conf) as pid:
            doctor.of(pid)
            doctor.run("options", "--pid", pid)
            subprocess.run([doctor.vmag, "options", "--lib", doctor.library], env={"VMAG_CONF": conf, "VMAG_REPORT": f"{folder}/r"},
                           capture_output=True, check=True)
            boxes = [name for name in os.listdir(folder) if not name.startswith("t.")]
            assert boxes == [f"b.{pid}.box"], boxes


def check_without(doctor):
    with Patient(doctor.path("tool_patient")) as pid:
        found = doctor.of(pid)
        assert found["verdict"] == "other" and "libc.so" in found["allocator"] and found["vmag"] is None, found
        refused = subprocess.run([doctor.vmag, "options", "--pid", pid], capture_output=True, text=True)
        assert refused.returncode == 125 and "does not run on vmag" in refused.stderr, refused.stderr


def check_linked(doctor):
    with Patient(doctor.path("tool_patient_linked")) as pid:
        found = doctor.of(pid)
        assert found["verdict"] == "vmag" and found["vmag"]["place"] == "needed", found
    with Patient(doctor.path("tool_patient_static_vmag")) as pid:
        found = doctor.of(pid)
        assert found["verdict"] == "vmag" and found["vmag"]["place"] == "program", found
        assert limit(found, "dynamic loader")["weight"] == "fine"


# In the place of another library: neither the SONAME of vmag nor its file's name is in what the program needs.
def check_place_of_another(doctor):
    patient, program, other = doctor.path("tool_patient"), doctor.path("tool_patient_umem"), doctor.path("tool_other_umem")
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, "libumem.so.1")
        os.symlink(doctor.library, link)

        def unlisted(path):
            copy = os.path.join(folder, os.path.basename(path))
            image = pathlib.Path(path).read_bytes()
            assert image.count(LINKERS_LIST) == 1, path
            pathlib.Path(copy).write_bytes(image.replace(LINKERS_LIST, NO_LIST))
            os.chmod(copy, 0o755)
            return copy

        for started, place, is_read in (
                (Patient(program, LD_LIBRARY_PATH=folder), "needed", True),
                (Patient(unlisted(program), LD_LIBRARY_PATH=folder), "needed", False),
                (Patient(program, LD_LIBRARY_PATH=other, LD_PRELOAD=link), "preloaded", True),
                (Patient(unlisted(patient), LD_PRELOAD=link), "preloaded", False)):
            with started as pid:
                found = doctor.of(pid)
            assert found["verdict"] == "vmag" and found["bindings_read"] == is_read, found["says"]
            assert found["vmag"]["place"] == place, (place, found["objects"])
            # The other's own library came by its name, though vmag had it, too.
            others = [row["place"] for row in found["objects"] if row["path"].startswith(other + "/")]
            assert others == (["needed"] if place == "preloaded" and is_read else []), found["objects"]


def check_static(doctor):
    with Patient(doctor.path("tool_patient_static"), LD_PRELOAD=doctor.library) as pid:
        found = doctor.of(pid)
        assert found["verdict"] == "static" and limit(found, "dynamic loader")["weight"] == "warning", found
        assert "cannot" not in limit(found, "preloading")["value"], found["limits"]


def check_setuid(doctor):
    if os.geteuid() != 0:
        print("not tested, for only root makes one of another user: a setuid program")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        patient = shutil.copy(doctor.path("tool_patient"), os.path.join(folder, "patient"))
        try:
            os.chown(patient, 65534, 65534)
        except OSError:
            print("not tested, for there is no other user here: a setuid program")
            return
        os.chmod(patient, 0o4755)
        with doctor.preloaded(patient) as pid:
            found = doctor.of(pid)
        if limit(found, "raised privileges") is None:
            print(f"not tested, for {folder} is mounted with nosuid: a setuid program")
            return
        assert found["verdict"] == "other" and "privileges" in limit(found, "preloading")["meaning"], found["limits"]


def check_removed(doctor):
    """Of a library that is gone the memory tells, to its user; to root the kernel gives the file, too."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name in ("libvmag.so", "other.so"):
            library = shutil.copy(doctor.library, os.path.join(folder, name))
            with Patient(doctor.path("tool_patient"), LD_PRELOAD=library) as pid:
                os.remove(library)
                found = doctor.of(pid)
                assert found["verdict"] in ("vmag", "vmag, file removed") and found["vmag"]["version"], found["says"]
                assert limit(found, "file is gone")["value"].startswith(library), found["limits"]
                assert "on vmag " in doctor.run("explain", pid)


def check_libraries(doctor):
    own, hidden = doctor.path("libtool_patient_own.so"), doctor.path("libtool_patient_hidden.so")
    with doctor.preloaded(doctor.path("tool_patient"), own) as pid:
        found = doctor.of(pid)
        assert found["verdict"] == "vmag in part", found["says"]
        stray = found["elsewhere"]
        assert [(row["object"], row["reaches"]) for row in stray] == [(own, own)] and "malloc" in stray[0]["symbols"], stray
        assert next(row["place"] for row in found["objects"] if row["path"] == own) == "opened"
        assert [(row["object"], row["allocator"]) for row in found["own_allocators"]] == [(own, "mimalloc")], found["own_allocators"]
        assert "itself: malloc" in doctor.run("doctor", pid)
    with doctor.preloaded(doctor.path("tool_patient"), hidden) as pid:
        found = doctor.of(pid)
        assert found["verdict"] == "vmag", found["says"]
        assert [row["object"] for row in found["own_allocators"]] == [hidden], found["own_allocators"]


def check_order(doctor):
    own = doctor.path("libtool_patient_own.so")
    with Patient(doctor.path("tool_patient"), LD_PRELOAD=f"{own}:{doctor.library}") as pid:
        found = doctor.of(pid)
        assert found["verdict"] == "mixed", found["says"]
        assert symbol(found, "malloc")["definition_of"] == own and symbol(found, "calloc")["definition_of"] == doctor.library
        assert found["own_allocators"] == [], found["own_allocators"]  # it is not out of sight
        rest = (row["path"] for row in found["objects"])
        c_library = next((path for path in rest if os.path.basename(path) == "libc.so.6"), None)
    if c_library is not None:  # of others the loader is it
        with Patient(doctor.path("tool_patient"), LD_PRELOAD=f"{c_library}:{doctor.library}") as pid:
            found, told = doctor.of(pid), doctor.run("explain", pid)
            assert found["verdict"] == "vmag without effect" and found["says"] in told and "on vmag " not in told, (found["says"], told)
            assert json.loads(doctor.run("explain", "--json", pid))["on_vmag"] is False
    with Patient(doctor.path("tool_patient"), LD_PRELOAD="/nowhere/libvmag.so") as pid:
        found = doctor.of(pid)
        assert limit(found, "preloading")["weight"] == "warning" and found["verdict"] == "other", found


def check_limits(doctor):
    limited = ["sh", "-c", 'ulimit -v 4000000; exec "$0"', doctor.path("tool_patient")]
    with Patient(*limited) as pid:
        assert limit(doctor.of(pid), "RLIMIT_AS")["weight"] == "note", doctor.of(pid)["limits"]


def check_command(doctor):
    words = [doctor.vmag, "doctor", "--json", "--lib", doctor.library, "--", "sh", "-c", "exit 3"]
    done = subprocess.run(words, capture_output=True, text=True)
    found = json.loads(done.stderr)
    assert done.returncode == 3 and found["verdict"] == "vmag" and limit(found, "traced") is None, done
    words = [doctor.vmag, "doctor", "--as-is", "--json", "--", "true"]
    found = json.loads(subprocess.run(words, capture_output=True, text=True).stderr)
    assert found["verdict"] == "other", found
    killed = subprocess.run([doctor.vmag, "doctor", "--as-is", "--", "sh", "-c", "kill -TERM $$"], capture_output=True)
    assert killed.returncode == -15 and b"what limits it" in killed.stderr, killed


# A signal that a program sends itself is not taken for its next program.
def check_trap(doctor):
    words = [doctor.vmag, "doctor", "--as-is", "--", "sh", "-c", "kill -TRAP $$; echo alive"]
    trapped = subprocess.run(words, capture_output=True)
    assert trapped.returncode == -signal.SIGTRAP and trapped.stdout == b"", trapped
    words[-1] = "exec sh -c 'exit 4'"
    assert subprocess.run(words, capture_output=True).returncode == 4


# What another user's process has loaded is not run with our rights: ours is, if it is the same.
def check_of_another(doctor):
    if os.geteuid() != 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        same, other, patient = (os.path.join(folder, name) for name in ("libvmag.so", "libvmag.so.other", "patient"))
        shutil.copy(doctor.library, same)
        shutil.copy(doctor.path("tool_patient"), patient)
        image = bytearray(pathlib.Path(same).read_bytes())
        image[image.index(BUILD_ID_NOTE) + len(BUILD_ID_NOTE)] ^= 1
        pathlib.Path(other).write_bytes(image)
        for path in (same, other, patient):
            os.chmod(path, 0o755)
        words = [doctor.vmag, "options", "--pid", "PID", "thp"]
        for library, status in ((same, 0), (other, 125)):
            with Patient(patient, user=65534, LD_PRELOAD=library, VMAG_CONF="thp:never") as words[3]:
                told = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "VMAG_LIB": doctor.library})
                assert told.returncode == status and ("never" in told.stdout) == (status == 0), (library, told)
                assert status == 0 or "another user's" in told.stderr, told
                assert doctor.of(words[3])["verdict"] == "vmag"


def check_errors(doctor):
    for words in (["2147483647"], ["0"], [], ["1", "--", "true"], ["--", "/nowhere/program"]):
        done = subprocess.run([doctor.vmag, "doctor", *words], capture_output=True, text=True)
        assert done.returncode in (125, 127) and done.stderr, (words, done)


# Its libraries lie outside of what is its root now.
CHROOTED = "import os, sys; os.chroot(sys.argv[1]); os.chdir('/'); print('ready', flush=True); sys.stdin.read()"


def check_chrooted(doctor):
    if os.geteuid() != 0:
        print("not tested, for only root may call it: a process that calls chroot")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/root")
        with doctor.preloaded(sys.executable, "-c", CHROOTED, f"{folder}/root", VMAG_CONF="prof:true,lg_prof_sample:10") as pid:
            found = doctor.of(pid)
            assert found["verdict"] == "vmag" and found["vmag"]["place"] == "preloaded", found
            assert symbol(found, "malloc")["callers"] > 0, found["symbols"]
            assert "allocated" in doctor.run("attach", pid)
            assert "PyObject" in doctor.run("heap", pid) or "_Py" in doctor.run("heap", pid)
            assert "vmag" in doctor.run("explain", pid)


def main(vmag, library, folder):
    if not os.path.exists(vmag):
        print(f"SKIPPED: {vmag} is not built (make tool)")
        sys.exit(SKIPPED)
    doctor = Doctor(vmag, os.path.realpath(library), folder)
    for check in (check_preloaded, check_nothing_is_left, check_without, check_linked, check_place_of_another, check_static, check_setuid, check_removed, check_libraries, check_order, check_limits,
                  check_chrooted, check_command, check_trap, check_of_another, check_errors):
        check(doctor)


main(*sys.argv[1:])
