# Tests every point at which a sequence can be interrupted, in an emulator: `emulated.py PROCESSOR PROGRAM`.
#
# qemu's user mode has no restartable sequences, so its debugger (the protocol of gdb) does what the kernel does: it stops the program
# before each instruction of a sequence in turn, does what another thread of the processor could do, and sends the program to the abort
# address of the descriptor that rseq_cs names, if the signature is before it. What the operation returns must then be true for the
# stacks as they are. Control: without being sent back, some outcomes must be wrong.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

# The emulator, the number of the program counter in its protocol, the signature.
PROCESSORS = {
    "aarch64": (["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"], 32, 0xD428BC00),
    "x86_64": (["qemu-x86_64"], 16, 0x53053053),
}
OPERATIONS = ("pop", "push", "exchange")
TAKE, PUT, CLOSE, STOP = range(4)
NO_NUMBER = 1 << 31
OBJECT = 0x1000
SECONDS = 300


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(77)


class Debugger:
    """The remote protocol of gdb, as much of it as is needed."""

    def __init__(self, path):
        for _ in range(10 * SECONDS):
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                break
            except OSError:
                time.sleep(0.1)
        self.socket.settimeout(SECONDS)
        self.buffer = b""
        self.ask("qXfer:features:read:target.xml:0,ffb")  # registers one by one are only for who has read this

    def byte(self):
        if not self.buffer:
            self.buffer = self.socket.recv(65536)
            assert self.buffer, "the emulator has ended"
        byte, self.buffer = self.buffer[:1], self.buffer[1:]
        return byte

    def ask(self, packet):
        self.socket.sendall(f"${packet}#{sum(packet.encode()) % 256:02x}".encode())
        while self.byte() != b"$":
            pass
        answer = b""
        while (byte := self.byte()) != b"#":
            answer += byte
        self.byte(), self.byte()
        self.socket.sendall(b"+")
        assert not answer.startswith(b"E"), (packet, answer)
        return answer.decode(errors="replace")

    def go_to(self, address):
        self.ask(f"Z0,{address:x},1")
        stop = self.ask("c")
        self.ask(f"z0,{address:x},1")
        assert stop.startswith(("T05", "S05")), stop

    def read(self, address, size):
        return bytes.fromhex(self.ask(f"m{address:x},{size:x}"))

    def word(self, address):
        return struct.unpack("<Q", self.read(address, 8))[0]

    def write(self, address, value):
        self.ask(f"M{address:x},8:{struct.pack('<Q', value).hex()}")

    def counter(self, number):
        return struct.unpack("<Q", bytes.fromhex(self.ask(f"p{number:x}")))[0]

    def jump(self, number, address):
        self.ask(f"P{number:x}={struct.pack('<Q', address).hex()}")


def instructions(debugger, number, where, operation):
    """The addresses of a sequence's instructions, by single steps through one that is not disturbed."""
    _, start, length, _ = where["sequences"][operation]
    debugger.write(where["task"], OPERATIONS.index(operation))
    debugger.go_to(where["before"])
    debugger.go_to(start)
    found = []
    while start <= (at := debugger.counter(number)) < start + length:
        found.append(at)
        debugger.ask("s")
    debugger.go_to(where["after"])
    return found


def meddle(debugger, where, what):
    top = debugger.word(where["top"])
    if what == TAKE:
        debugger.write(where["top"], top - 8)
    elif what == PUT:
        debugger.write(top, OBJECT + 200)
        debugger.write(where["top"], top + 8)
    elif what == CLOSE:
        debugger.write(where["top"], where["closed"])
    else:
        debugger.write(where["number"], NO_NUMBER)


def send_back(debugger, number, signature, where, sequence):
    """What the kernel does to a thread that it puts on a processor again."""
    descriptor, start, length, abort = sequence
    assert debugger.word(where["area"] + 8) == descriptor, "rseq_cs does not name the sequence"
    assert debugger.read(descriptor, 32) == struct.pack("<IIQQQ", 0, 0, start, length, abort)
    assert not start <= abort < start + length
    assert struct.unpack("<I", debugger.read(abort - 4, 4))[0] == signature, "no signature before the abort address"
    debugger.write(where["area"] + 8, 0)
    debugger.jump(number, abort)


def is_right(debugger, where, operation, at, what, kernel):
    debugger.go_to(where["before"])
    debugger.write(where["task"], OPERATIONS.index(operation))
    debugger.write(where["task"] + 8, what)
    debugger.go_to(at)
    meddle(debugger, where, what)
    if kernel is not None:
        send_back(debugger, *kernel, where, where["sequences"][operation])
    debugger.go_to(where["after"])
    return debugger.word(where["task"] + 16) == 1


def test(debugger, number, signature, where):
    for operation in OPERATIONS:
        found = instructions(debugger, number, where, operation)
        wrong = 0
        for at in found:
            for what in (TAKE, PUT, CLOSE, STOP):
                assert is_right(debugger, where, operation, at, what, (number, signature)), \
                    f"{operation}+{at - found[0]}: wrong after meddling {what}"
                wrong += not is_right(debugger, where, operation, at, what, None)
        print(f"{operation}: stopped at {len(found)} instructions; not sent back, {wrong} outcomes were wrong")
        assert len(found) >= 4 and wrong >= 1


def main(processor, program):
    if processor not in PROCESSORS:
        skip(f"no restartable sequences on {processor}")
    emulator, number, signature = PROCESSORS[processor]
    if not shutil.which(emulator[0]):
        skip(f"{emulator[0]} is missing")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "debugger")
        process = subprocess.Popen([emulator[0], "-g", path, *emulator[1:], program], stdout=subprocess.PIPE, text=True)
        try:
            debugger = Debugger(path)
            stop = debugger.ask("c")  # until it has told where everything is
            assert stop.startswith(("T05", "S05")), f"the program failed: {stop}"
            where = json.loads(process.stdout.readline())
            test(debugger, number, signature, where)
        finally:
            process.kill()
            process.wait()


main(*sys.argv[1:])
