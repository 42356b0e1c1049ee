// The areas of the process's address space as the kernel tells them, and which of their pages are resident.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum os_area_kind {
	AREA_PROGRAM,   // the program or a shared library: code, constants, data and what follows them
	AREA_FILE,      // another file
	AREA_SHARED,    // shared memory without a file
	AREA_STACK,     // the first thread's stack, and anonymous memory behind an inaccessible page
	AREA_BRK,       // what brk gave
	AREA_ANONYMOUS, // anonymous memory
	AREA_KERNEL,    // the kernel's: vdso and the like
};

struct os_area {
	uintptr_t start, end;
	uint64_t offset, inode; // in a file, which has that number; 0: in none
	enum os_area_kind kind;
	bool writable; // and readable
	bool is_code;  // of a file
	size_t resident, proportional, swapped; // bytes
};

// A walk over the areas in address order, without allocation.
struct os_areas {
	int file;
	bool has_kinds;
	uint64_t offset;
	size_t at, length; // in bytes
	uintptr_t last_end;   // of the area before,
	bool last_is_program; // which is of a program's file,
	bool last_is_guard;   // or small and inaccessible
	struct {
		uintptr_t start, end;
		uint64_t inode;
	} image; // the last one that is a file's beginning
	char program[256];
	char bytes[2048];
};

bool os_areas_begin(struct os_areas *areas);
bool os_areas_begin_places(struct os_areas *areas); // without kinds and sizes, for which the kernel looks at every page: a second for some GiB
bool os_areas_next(struct os_areas *areas, struct os_area *area);
void os_areas_end(struct os_areas *areas);

// The lines of /proc/PID/maps that tell where code of files lies, each with a line of its build behind it (os/build_id.h), whole ones, from the address
// `*from` on, as far as there is room; returns their bytes, 0 also when the kernel does not tell. `*from` is where the first is that had no room, or 0.
size_t os_areas_copy_code(uintptr_t *from, char *text, size_t most);

// States of the pages from `start` on, read from a file opened by os_residency_open. False: the kernel does not tell.
enum os_page_state {
	PAGE_ABSENT,
	PAGE_OURS,   // resident, mapped by nobody else
	PAGE_COMMON, // resident and mapped by others too, or the kernel's page of zeroes, which is not counted as resident
};
int os_residency_open(void);
bool os_residency_read(int file, uintptr_t start, uint8_t *states, size_t pages);
void os_residency_close(int file);

// Whether that page is a guard that is no area of its own (MADV_GUARD_INSTALL): glibc has such below threads' stacks since 2.42. False before Linux 6.15.
bool os_residency_is_guard(int file, uintptr_t page);
