// Holes: pages of partial slabs on which no buffer is used go back to the system, the slab stays.
//
// What survives of many objects keeps its slab, not the slab's other pages. Like everything that is given back, a hole is given
// only when it was not needed for a while: slabs from which buffers were taken since the last look are passed over. The
// buffers on the pages are taken out of the slab like those of a magazine while the system is called, and put back then.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "slab/bin.h"

// A walk over all slabs begins: looks whether buffers were taken from the bin since the last one did. True: they were, and of those that
// are free there are enough for a later walk.
bool bin_begin_walk(struct bin *bin);

// Whether the bin's free buffers are worth looking for holes: all are when it rests, else (but for `always`) those beyond what a bin in use
// needs.
bool bin_has_holes(const struct bin *bin, bool always);

// Looks at the slab of the bin that may begin at `start`, gives its holes back (`always`: also those just used), and says in
// `*later` when a later look may find some. Returns the bytes given.
size_t bin_give_holes(struct bin *bin, uintptr_t start, bool always, bool *later);
