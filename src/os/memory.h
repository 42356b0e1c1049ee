// Memory that may not be there: reading it without a fault.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Copies `size` bytes; false when the kernel does not let us, or not all of it is mapped. Keeps errno.
bool os_memory_peek(void *to, const void *from, size_t size);
