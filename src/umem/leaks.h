// Leaks: live buffers to which no reference is found.
//
// Conservative: whatever looks like an address of a live buffer, or into it, is a reference. Roots are all writable pages of
// the process (data of programs and libraries, stacks, anonymous memory, objects that are not guarded) and this thread's
// registers; not the library's own metadata, nor freed buffers. What is reached from roots is searched in turn. What other
// threads hold in registers alone is missed, and is told as a leak.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "guard/guarded.h"

struct leak_search {
	struct guarded *buffers; // copies without frames; after leaks_find the lost ones come first
	size_t count, lost;
	size_t capacity;
};

// All buffers, live ones first, sorted by place. False: no memory.
bool buffers_take(struct leak_search *search);

// Moves the lost live buffers to the front of the list and counts them. 0; ENOMEM; ENODATA: the kernel does not tell the areas.
int leaks_find(struct leak_search *search);

// Gives the copies' memory back.
void buffers_release(struct leak_search *search);
