"""One line on stderr: how far, what now, how long still.

SPDX-License-Identifier: BSD-2-Clause
"""

import sys
import time


class Progress:
    """`total` steps, or parts of any size: step(what, part)."""

    def __init__(self, total):
        self.total = total
        self.done = 0
        self.began = time.monotonic()
        self.shown = 0.0

    def step(self, what, part=1):
        self.done += part
        now = time.monotonic()
        tty = sys.stderr.isatty()
        if self.done < self.total and now - self.shown < (0.2 if tty else 15):
            return
        self.shown = now
        left = (now - self.began) / max(self.done, 1e-9) * max(self.total - self.done, 0)
        text = f"{self.done:.0f}/{self.total:.0f}  {what:<34}  still about {int(left) // 60}:{int(left) % 60:02d}"
        print("\r" + text.ljust(78) if tty else text, end="" if tty else "\n", file=sys.stderr, flush=True)
        if tty and self.done >= self.total:
            print(file=sys.stderr)
