# A small terminal: runs a program in a pseudo-terminal, keeps what is on its screen, and presses keys.
# It knows what the programs here write: text, moving the cursor, erasing, and colours, of which it keeps those that came.
# SPDX-License-Identifier: BSD-2-Clause
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

SEQUENCE = re.compile(rb"\x1b(?:\[([0-9;?]*)([ -/]*[@-~])|[@-Z\\-_=>]|\][^\x07]*\x07|\([A-Z0-9])")


class Terminal:
    def __init__(self, *words, rows=40, columns=120, kind="xterm-256color"):
        self.rows, self.columns = rows, columns
        self.lines = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.has_cursor = True
        self.styles = set()
        self.rest = b""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = kind
            os.execvp(words[0], words)
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def press(self, keys):
        os.write(self.descriptor, keys.encode())

    def take(self, seconds):
        """Takes what comes within that time. False: the program has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.descriptor], [], [], left)[0]:
                return True
            try:
                data = os.read(self.descriptor, 65536)
            except OSError:
                return False
            if not data:
                return False
            self.show(self.rest + data)
        return True

    def show(self, data):
        at = 0
        while at < len(data):
            if data[at] == 0x1b:
                found = SEQUENCE.match(data, at)
                if not found:
                    break
                self.obey(found)
                at = found.end()
                continue
            length = 1 if data[at] < 0x80 else 2 if data[at] < 0xe0 else 3 if data[at] < 0xf0 else 4
            if at + length > len(data):
                break
            self.put(data[at:at + length].decode("utf-8", "replace"))
            at += length
        self.rest = data[at:]

    def obey(self, found):
        if found.group(2) is None:
            return
        numbers = [int(number) if number.isdigit() else 0 for number in (found.group(1) or b"").decode().split(";")]
        what = found.group(2)
        if what in (b"H", b"f"):
            self.row = max(numbers[0], 1) - 1
            self.column = max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
        elif what in (b"h", b"l") and found.group(1) == b"?25":
            self.has_cursor = what == b"h"
        elif what == b"m":
            self.styles.add(found.group(1))
        elif what == b"J":
            self.lines = [[" "] * self.columns for _ in range(self.rows)]
        elif what == b"K" and self.row < self.rows:
            self.lines[self.row][self.column:] = [" "] * (self.columns - self.column)

    def put(self, letter):
        if letter == "\r":
            self.column = 0
        elif letter == "\n":
            self.row += 1
        elif letter >= " " and self.row < self.rows and self.column < self.columns:
            self.lines[self.row][self.column] = letter
            self.column += 1

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.lines)

    def wait_for(self, words, patience=300):
        """Until all of these words are on the screen."""
        words = [words] if isinstance(words, str) else words
        end = time.monotonic() + patience
        while not all(word in self.text() for word in words):
            assert time.monotonic() < end, f"{words} never came:\n{self.text()}"
            assert self.take(0.1), f"it ended before {words} came:\n{self.text()}"
        return self.text()

    def wait_for_end(self, patience=300):
        end = time.monotonic() + patience
        while self.take(0.1):
            assert time.monotonic() < end, self.text()
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.descriptor)
        return status
