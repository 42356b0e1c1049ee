"""What the runners of the bench suite share.

SPDX-License-Identifier: BSD-2-Clause
"""

import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = TOP / "build/bench"
MIB = 1 << 20


def say(text):
    print(text, file=sys.stderr, flush=True)
