// Huge pages: a heap that grows fast, or has many active bytes, will fill the chunks it imports, so these are asked for as huge pages, for one
// page fault in place of 512; objects of 8 MiB and more are judged by how the one before was used. Where something was purged the advice is
// taken back (pages/runs.c), lest the kernel fill the holes. The reasons and measurements are in docs/decisions/0005.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "pages/runs.h"

// What is known of a request: an object may be used here and there, slabs are filled, what has outgrown its place was filled before, and so was what
// grows where it is; but that may be dirty, so that nothing is seen of what it takes.
enum use { USE_OBJECT, USE_SLAB, USE_GROWN, USE_EXTENDED };

// `size` bytes at `start`, which nobody else knows yet and which may be set to zero, are taken into use: asks for the chunks that they fill or begin, where
// that pays, and touches some of the bytes to see whether it does (pages/dear.h). No lock is held.
void huge_ask(struct pages *pages, uintptr_t start, size_t size, enum use use);
