"""Today: objects that one thread allocates and another frees.

SPDX-License-Identifier: BSD-2-Clause
"""

from kit.patterns import Patterns


class ProducerConsumer(Patterns):
    title = "Producers and consumers"
    paper = "today"
    about = ("prodcons: one thread allocates, the other frees. xmalloc2, xmalloc8: everybody frees what others allocated. "
             "server8: workers that die and leave their live objects to a successor.")
    patterns = threads = ("prodcons", "xmalloc2", "xmalloc8", "server8")


EXPERIMENT = ProducerConsumer()
