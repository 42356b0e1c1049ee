// How many mappings the process has, of those that the kernel allows it (vm.max_map_count).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

// Whether more than half of them are in use; false where /proc does not tell. Reads the list of all: some milliseconds for
// each ten thousand.
bool os_maps_are_scarce(void);

// Whether not one more can be made, or no memory at all. Opens no file, which a sandbox might not survive.
bool os_maps_are_used_up(void);
