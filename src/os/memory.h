// Memory that may not be there: reading it without a fault; and who may read ours.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Copies `size` bytes; false when the kernel does not let us, not all of it is mapped, or the process is shut in and has several threads. Keeps errno.
bool os_memory_peek(void *to, const void *from, size_t size);

// Lets every process of the same user read this one's memory where the kernel keeps them from it (kernel.yama.ptrace_scope 1). Children
// have to ask for themselves. Keeps errno.
void os_memory_let_read(void);
