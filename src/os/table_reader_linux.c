// Unwind tables: their bytes, by pages in place or by copies of the kernel's, and what is written with them.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/table_reader.h"

#include <stdatomic.h>
#include <string.h>

#include "os/memory.h"
#include "os/stack_range.h"

enum { MOST_ULEB = 10 /* bytes */ };

// Pages of tables that were found readable, with the generation of modules.
enum { LG_PAGES = 10 };
static _Atomic uint64_t readable[1 << LG_PAGES];

static bool page_can_be_read(uintptr_t page)
{
	uint64_t key = page << 4 | atomic_load_explicit(&os_modules_generation, memory_order_relaxed);
	_Atomic uint64_t *known = &readable[hash_bits(page / PROBE_PAGE, LG_PAGES)];

	if (atomic_load_explicit(known, memory_order_relaxed) == key)
		return true;
	if (!os_page_is_readable(page))
		return false;
	atomic_store_explicit(known, key, memory_order_relaxed);
	return true;
}

void table_begin(struct table_reader *reader, const struct os_module *module, bool stays)
{
	reader->module = *module;
	reader->at = module->unwind_table;
	reader->end = module->end;
	reader->stays = stays;
	reader->failed = reader->unread = false;
	reader->held = 0;
	reader->from = 0;
}

// No window crosses a page: it is there or not.
static bool move_window(struct table_reader *reader)
{
	reader->held = 0;
	if (reader->at < reader->module.start || reader->at >= reader->end)
		return false;
	reader->from = round_down(reader->at, reader->stays ? PROBE_PAGE : TABLE_WINDOW);
	reader->window = reader->stays ? (const unsigned char *)reader->from : reader->copy;
	reader->unread = reader->stays ? !page_can_be_read(reader->from) : !os_memory_peek(reader->copy, (const void *)reader->from, TABLE_WINDOW);
	if (reader->unread)
		return false;
	reader->held = min_size(reader->stays ? PROBE_PAGE : TABLE_WINDOW, reader->end - reader->from);
	return true;
}

static uint64_t take_byte(struct table_reader *reader)
{
	if (!table_has_byte(reader) && (reader->failed || !move_window(reader)))
		table_fail(reader);
	return reader->failed ? 0 : reader->window[reader->at++ - reader->from];
}

uint64_t table_take_slowly(struct table_reader *reader, size_t bytes)
{
	uint64_t value = 0;

	if (!table_has_byte(reader) && (reader->failed || !move_window(reader)))
		table_fail(reader);
	if (reader->held - (reader->at - reader->from) >= sizeof value && table_has_byte(reader))
		return table_take(reader, bytes);
	for (size_t i = 0; i < bytes; i++)
		value |= take_byte(reader) << 8 * i;
	return reader->failed ? 0 : value;
}

// The number's bits, and of its last byte the sign's.
static uint64_t take_sevens(struct table_reader *reader, unsigned *bits, bool *sign)
{
	uint64_t value = 0, byte = 0x80;

	for (*bits = 0; byte & 0x80; *bits += 7) {
		if (*bits == 7 * MOST_ULEB)
			table_fail(reader);
		byte = take_byte(reader);
		value |= *bits < 64 ? (byte & 0x7f) << *bits : 0;
	}
	*sign = (byte & 0x40) != 0;
	return reader->failed ? 0 : value;
}

uint64_t table_take_long_uleb(struct table_reader *reader)
{
	unsigned bits;
	bool sign;

	return take_sevens(reader, &bits, &sign);
}

int64_t table_take_sleb(struct table_reader *reader)
{
	unsigned bits;
	bool sign;
	uint64_t value = take_sevens(reader, &bits, &sign);

	return (int64_t)(bits < 64 && sign ? value | ~0ull << bits : value);
}

uintptr_t table_take_pointer(struct table_reader *reader, unsigned encoding)
{
	uintptr_t here = reader->at, value;

	switch (encoding & 0xf) {
	case WHOLE: case U8: case S8: value = table_take(reader, 8); break;
	case ULEB: value = table_take_uleb(reader); break;
	case SLEB: value = (uintptr_t)table_take_sleb(reader); break;
	case U2: value = table_take(reader, 2); break;
	case U4: value = table_take(reader, 4); break;
	case S2: value = (uintptr_t)table_take_signed(reader, 2); break;
	case S4: value = (uintptr_t)table_take_signed(reader, 4); break;
	default: table_fail(reader); return 0;
	}
	switch (encoding & 0xf0) {
	case 0: return value;
	case FROM_HERE: return here + value;
	case FROM_TABLE: return reader->module.unwind_table + value;
	default: table_fail(reader); return 0; // through another pointer, of which functions have none
	}
}

void table_pass(struct table_reader *reader, uint64_t bytes)
{
	if (reader->at < reader->module.start || reader->at > reader->end || bytes > reader->end - reader->at)
		table_fail(reader);
	else
		reader->at += bytes;
}
