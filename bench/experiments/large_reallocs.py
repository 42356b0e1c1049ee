"""Today: large objects that grow and shrink.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit.patterns import Patterns


class LargeReallocs(Patterns):
    title = "Large reallocs"
    paper = "today"
    about = "growmany: many vectors at a time. growdouble, growhalf: one buffer to 256 MiB, doubling, and by half more each time. replbig: buffers of 8 to 64 KiB replaced at random."
    patterns = ("growmany", "growdouble", "growhalf", "replbig")


EXPERIMENT = LargeReallocs()
