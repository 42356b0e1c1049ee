// Reading a module's unwind tables: numbers and pointers as DWARF writes them (DWARF 5, 7.6; LSB, 10.5.1), none from outside the module.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "os/module.h"
#include "util/bits.h"

enum { TABLE_WINDOW = 512 };

// Once something is not there, all is zero, and the window is empty. It holds bytes from `from` on: a page in its place, or a copy.
struct table_reader {
	struct os_module module;
	uintptr_t at, end;
	bool stays, failed, unread; // unread: the kernel gave it not
	size_t held;
	uintptr_t from;
	const unsigned char *window;
	unsigned char copy[TABLE_WINDOW];
};

// At the module's unwind table. `stays`: nothing can unload the module meanwhile, for its code is on the calling thread's stack; it is
// read in place then, after the kernel was asked for each page. Else the kernel copies.
void table_begin(struct table_reader *reader, const struct os_module *module, bool stays);

// Where eight bytes are not in the window.
uint64_t table_take_slowly(struct table_reader *reader, size_t bytes);
uint64_t table_take_long_uleb(struct table_reader *reader);
int64_t table_take_sleb(struct table_reader *reader);

static inline void table_fail(struct table_reader *reader)
{
	reader->failed = true;
	reader->held = 0;
}

// Most of a program is bytes and numbers of one byte, which are in the window.
static inline bool table_has_byte(const struct table_reader *reader)
{
	return LIKELY(reader->at - reader->from < reader->held);
}

// `bytes` is 1 to 8.
static inline uint64_t table_take(struct table_reader *reader, size_t bytes)
{
	size_t at = reader->at - reader->from;
	uint64_t value;

	if (UNLIKELY(at >= reader->held || reader->held - at < sizeof value))
		return table_take_slowly(reader, bytes);
	memcpy(&value, &reader->window[at], sizeof value);
	reader->at += bytes;
	return value & ~0ull >> (64 - 8 * bytes);
}

static inline int64_t table_take_signed(struct table_reader *reader, size_t bytes)
{
	unsigned shift = (unsigned)(64 - 8 * bytes);

	return (int64_t)(table_take(reader, bytes) << shift) >> shift;
}

static inline uint64_t table_take_byte(struct table_reader *reader)
{
	return table_has_byte(reader) ? reader->window[reader->at++ - reader->from] : table_take(reader, 1);
}

static inline uint64_t table_take_uleb(struct table_reader *reader)
{
	if (table_has_byte(reader) && reader->window[reader->at - reader->from] < 0x80)
		return reader->window[reader->at++ - reader->from];
	return table_take_long_uleb(reader);
}

// How pointers are written: the low bits of the encoding, and what they are relative to.
enum { WHOLE = 0, ULEB = 1, U2 = 2, U4 = 3, U8 = 4, SLEB = 9, S2 = 10, S4 = 11, S8 = 12, FROM_HERE = 0x10, FROM_TABLE = 0x30, OMITTED = 0xff };
uintptr_t table_take_pointer(struct table_reader *reader, unsigned encoding);

// Moves on. What would leave the module fails.
void table_pass(struct table_reader *reader, uint64_t bytes);
