// The process's control group: what files of its own and of those above, up to the root, say of processors and memory.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>

// The least quota of processors, fractions rounded up; UINT_MAX when there is none. Reads files: ask once.
unsigned os_cgroup_processors(void);

// What the group uses of memory, or the nearest one above whose memory is counted, and the least limit from it up to the root; 0 where there is none or
// nothing is known.
void os_cgroup_memory(size_t *current, size_t *limit);
