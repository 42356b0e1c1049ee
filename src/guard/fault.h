// Faults of guarded buffers told: one block on stderr with all that is known of the buffer, then abort.
//
//   vmag: umem_free(0x7f…40): written beyond the end of a buffer
//     buffer     0x7f…40, 100 bytes, cache umem_alloc_112, live
//     damage     byte 100 is 0x41, should be 0xbb
//     allocated  by thread 4711, 0.000412 s ago
//                main+0x2a (./program)
//     found      by thread 4711
//                …
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "guard/guarded.h"

struct guard_fault {
	const char *call;    // the program's call that met the fault
	const void *address; // of that call
	const char *finding;
	const struct guarded_copy *buffer; // NULL: none is known
	bool damaged;        // the byte at `offset` of the buffer is `is` and should be `should`
	long offset;
	uint8_t is, should;
	uintptr_t code;      // of a signal: the instruction; else 0
};

// Tells; and aborts as well, unless UMEM_DEBUG says noabort. No lock is held.
void guard_tell(const struct guard_fault *fault);
void guard_fault(const struct guard_fault *fault);

// Stack and times of a buffer, as lines for people.
struct text;
void guard_add_history(struct text *text, const struct guarded_copy *buffer);

// What was reported lately, oldest first; returns the number of bytes. And how many reports there were.
size_t guard_messages(char *bytes, size_t size);
size_t guard_faults(void);
