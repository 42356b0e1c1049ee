// What glibc's malloc.h declares for its own heap, by the same layout, for C libraries that have no such header.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>

// In the order and with the meaning of mallinfo(3).
struct mallinfo {
	int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

struct mallinfo2 {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

// mallopt(3): the parameter that does not take every value.
enum { M_MXFAST = 1 };
