// Reading a thread's stack: what of it is known to be readable, and asking for what is not. Of the walks (os/stack.h) alone.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "os/stack.h"
#include "util/bits.h"

enum { PROBE_PAGE = 4096, FRAME_BYTES = 2 * sizeof(uintptr_t), FRAME_STEP = 16 * 1024, FRAME_MOST = 4 * 1024 * 1024, FIRST_CODE = 4096 };
// Of a return address the address alone. AArch64 signs it in the bits above those that the process's addresses have: 48, or 36 to 47 as the kernel was built.
static inline uintptr_t os_code_address(uintptr_t code)
{
#if defined(__aarch64__)
	register uintptr_t returns_to __asm__("x30") = code;

	__asm__("hint #7" : "+r"(returns_to)); // xpaclri: processors that sign nothing pass over it
	code = returns_to;
#endif
	return code & (((uintptr_t)1 << 48) - 1);
}

// Asks the kernel, without a fault. May change errno.
bool os_page_is_readable(uintptr_t page);

// Whether a word can be read at `at`, a multiple of a word's size; `*page` is the last page that was found readable.
bool os_word_is_readable(uintptr_t at, uintptr_t *page);

// Of memory that another thread may take away meanwhile: a piece that the kernel copied. No piece at first: NO_PIECE.
enum { PIECE_BYTES = 1024, NO_PIECE = 1 };
struct os_piece {
	uintptr_t start;
	uintptr_t word[PIECE_BYTES / sizeof(uintptr_t)];
};

// A word of it, `at` a multiple of a word's size; false: it cannot be read. Where the kernel copies nothing for us at all it is asked for the page,
// `*page` as above, and the word is read.
bool os_word_copy(struct os_piece *piece, uintptr_t at, uintptr_t *page, uintptr_t *value);

// Makes the range reach down to `frame`, as far as all between can be read, and if it is not too much; what is surely the thread's own by less at once.
// A stack that is not its own, of a coroutine, say, is as a rule not connected with it.
void os_stack_range_extend(struct os_stack_range *range, uintptr_t frame);

// The thread's own stack reaches down to `frame`, where a walk began that came to what is surely the thread's own by small steps.
void os_stack_range_arrived(struct os_stack_range *range, uintptr_t frame);

// Whether there are two words between `low` and `top`.
static inline bool os_stack_has(uintptr_t low, uintptr_t top, uintptr_t frame)
{
	return frame - low < top - low && top - frame >= FRAME_BYTES;
}

// Whether the code there is where the kernel lets signal handlers return to.
bool os_returns_from_handler(uintptr_t code);
