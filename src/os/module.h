// The programs and libraries whose code is in the process.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/bits.h"

struct os_module {
	uintptr_t start, end;   // its tables are read within; where the loader knows of holes in it, a part that may not have the code
	uintptr_t unwind_table; // its .eh_frame_hdr; 0: it has none
};

// The one that has code at that address, which must stay loaded meanwhile. Takes no lock and allocates nothing: the loader is asked, if it
// can be; else the kernel, which takes some hundred times as long, and may tell nothing (`*told`), to a process without a file to spare, say.
bool os_module_find(uintptr_t address, struct os_module *module, bool *told);

// From now on the loader is asked, by glibc's _dl_find_object (from 2.35 on), which takes no lock; NULL: not. It is given to us, for who would be linked
// with it would not run with an older glibc.
void os_modules_ask_loader(void *dl_find_object);

// Changes whenever other code may come to lie where code was; never 0. What was found out about code is of one generation.
extern _Atomic uint16_t os_modules_generation HIDDEN;
void os_modules_change(void);
