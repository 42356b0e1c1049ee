// Unwind tables: the function's entry by binary search, and its program up to the address.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/frame_rule.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "os/module.h"
#include "os/stack_range.h"

#if defined(__x86_64__)
enum { FRAME_REGISTER = 6, STACK_REGISTER = 7 };
#else
enum { FRAME_REGISTER = 29, STACK_REGISTER = 31 };
#endif

enum { KEPT_STATES = 8, MOST_STEPS = 1 << 16, SEARCH_TABLE = 0x3b /* pairs of 4 bytes, from the header's beginning */ };

// How pointers are written: the low bits of the encoding, and what they are relative to.
enum { WHOLE = 0, ULEB = 1, U2 = 2, U4 = 3, U8 = 4, SLEB = 9, S2 = 10, S4 = 11, S8 = 12, FROM_HERE = 0x10, FROM_TABLE = 0x30, OMITTED = 0xff };

// What is read, within the module. Once something is not there all is zero.
struct reader {
	struct os_module module;
	uintptr_t at, end, page;
	bool failed;
};

// Pages of tables that were found readable, with the generation of modules: they are while their module's code is on a stack.
enum { LG_PAGES = 8 };
static _Atomic uint64_t readable[1 << LG_PAGES];

static bool page_can_be_read(uintptr_t page)
{
	uint64_t key = page << 4 | atomic_load_explicit(&os_modules_generation, memory_order_relaxed);
	_Atomic uint64_t *known = &readable[page / PROBE_PAGE * 0x9e3779b97f4a7c15u >> (64 - LG_PAGES)];

	if (atomic_load_explicit(known, memory_order_relaxed) == key)
		return true;
	if (!os_page_is_readable(page))
		return false;
	atomic_store_explicit(known, key, memory_order_relaxed);
	return true;
}

static bool can_read(struct reader *reader, size_t bytes)
{
	uintptr_t last = reader->at + bytes - 1, page = round_down(last, PROBE_PAGE);

	if (reader->failed || reader->at < reader->module.start || last < reader->at || last >= reader->end)
		return false;
	if (page == reader->page && round_down(reader->at, PROBE_PAGE) == page)
		return true;
	if (!page_can_be_read(round_down(reader->at, PROBE_PAGE)) || !page_can_be_read(page))
		return false;
	reader->page = page;
	return true;
}

static uint64_t take(struct reader *reader, size_t bytes)
{
	uint64_t value = 0;

	if (!can_read(reader, bytes)) {
		reader->failed = true;
		return 0;
	}
	memcpy(&value, (const void *)reader->at, bytes); // the low bytes come first on both machines
	reader->at += bytes;
	return value;
}

static int64_t take_signed(struct reader *reader, size_t bytes)
{
	unsigned shift = (unsigned)(64 - 8 * bytes);

	return (int64_t)(take(reader, bytes) << shift) >> shift;
}

static uint64_t take_uleb(struct reader *reader)
{
	uint64_t value = 0, byte;
	unsigned shift = 0;

	do {
		byte = take(reader, 1);
		value |= shift < 64 ? (byte & 0x7f) << shift : 0;
		shift += 7;
	} while (byte & 0x80);
	return value;
}

static int64_t take_sleb(struct reader *reader)
{
	uint64_t value = 0, byte;
	unsigned shift = 0;

	do {
		byte = take(reader, 1);
		value |= shift < 64 ? (byte & 0x7f) << shift : 0;
		shift += 7;
	} while (byte & 0x80);
	return (int64_t)(shift < 64 && (byte & 0x40) != 0 ? value | ~0ull << shift : value);
}

static uintptr_t take_pointer(struct reader *reader, unsigned encoding)
{
	uintptr_t here = reader->at, value;

	switch (encoding & 0xf) {
	case WHOLE: case U8: case S8: value = take(reader, 8); break;
	case ULEB: value = take_uleb(reader); break;
	case SLEB: value = (uintptr_t)take_sleb(reader); break;
	case U2: value = take(reader, 2); break;
	case U4: value = take(reader, 4); break;
	case S2: value = (uintptr_t)take_signed(reader, 2); break;
	case S4: value = (uintptr_t)take_signed(reader, 4); break;
	default: reader->failed = true; return 0;
	}
	switch (encoding & 0xf0) {
	case 0: return value;
	case FROM_HERE: return here + value;
	case FROM_TABLE: return reader->module.unwind_table + value;
	default: reader->failed = true; return 0; // through another pointer, of which functions have none
	}
}

// Moves to the entry of the function that has the address, as the sorted table of beginnings says; false: there is none.
static bool seek_entry(struct reader *reader, uintptr_t address)
{
	uintptr_t table;
	uint64_t low = 0, high;
	unsigned first, counted, pairs;

	reader->at = reader->module.unwind_table;
	if (take(reader, 1) != 1)
		return false;
	first = (unsigned)take(reader, 1);
	counted = (unsigned)take(reader, 1);
	pairs = (unsigned)take(reader, 1);
	if (counted == OMITTED || pairs != SEARCH_TABLE)
		return false;
	take_pointer(reader, first);
	high = take_pointer(reader, counted);
	table = reader->at;
	if (reader->failed || high > (reader->end - table) / 8)
		return false;
	while (high > low + 1) {
		uint64_t middle = low + (high - low) / 2;

		reader->at = table + middle * 8;
		if (reader->module.unwind_table + (uintptr_t)take_signed(reader, 4) <= address)
			low = middle;
		else
			high = middle;
	}
	reader->at = table + low * 8 + 4;
	reader->at = high == 0 ? 0 : reader->module.unwind_table + (uintptr_t)take_signed(reader, 4);
	return high != 0 && !reader->failed;
}

// What many functions have in common (a CIE).
struct common {
	uint64_t code_unit;
	int64_t data_unit;
	uint64_t code_register;
	unsigned pointers; // encoding
	bool has_extra, is_signal;
	uintptr_t program, end;
};

// Moves into an entry and returns its identity; `*end` is behind it.
static uint64_t begin_entry(struct reader *reader, uintptr_t *end)
{
	uint64_t bytes = take(reader, 4);

	*end = reader->at + bytes;
	if (bytes < 4 || bytes >= 0xfffffff0 || *end > reader->end)
		reader->failed = true;
	return take(reader, 4);
}

static void read_extra(struct reader *reader, struct common *common, uintptr_t letters)
{
	uintptr_t extra = reader->at;
	char letter;

	do {
		reader->at = letters++;
		letter = (char)take(reader, 1);
		reader->at = extra;
		switch (letter) {
		case 'R': common->pointers = (unsigned)take(reader, 1); break;
		case 'P': extra = take(reader, 1); take_pointer(reader, (unsigned)extra & 0x0f); break;
		case 'L': take(reader, 1); break;
		case 'S': common->is_signal = true; break;
		default: break;
		}
		extra = reader->at;
	} while (letter != '\0' && !reader->failed);
}

static bool read_common(struct reader *reader, struct common *common)
{
	uintptr_t letters;
	uint64_t version, bytes;

	*common = (struct common){ 0 };
	if (begin_entry(reader, &common->end) != 0)
		return false;
	version = take(reader, 1);
	letters = reader->at;
	common->has_extra = take(reader, 1) == 'z';
	reader->at = letters;
	while (take(reader, 1) != 0)
		;
	if ((version != 1 && version != 3) || (!common->has_extra && reader->at != letters + 1))
		return false;
	common->code_unit = take_uleb(reader);
	common->data_unit = take_sleb(reader);
	common->code_register = version == 1 ? take(reader, 1) : take_uleb(reader);
	common->program = reader->at;
	if (common->has_extra) {
		bytes = take_uleb(reader);
		common->program = reader->at + bytes;
		read_extra(reader, common, letters + 1);
	}
	return !reader->failed && common->program <= common->end;
}

enum where { IN_REGISTER, ABOVE_CFA, ABOVE_FRAME, NOWHERE, ELSEWHERE };

struct saved {
	enum where where;
	int64_t offset; // in bytes
};

// What holds at a place in the function.
struct state {
	uint64_t cfa_register;
	int64_t cfa_offset;
	bool cfa_by_word, cfa_is_odd;
	struct saved frame, code;
};

struct program {
	struct reader *reader;
	const struct common *common;
	uintptr_t place, address; // the program has come to; wanted
	struct state state, first, kept[KEPT_STATES];
	unsigned depth;
};

static void save(struct program *program, uint64_t which, enum where where, int64_t offset)
{
	if (which == FRAME_REGISTER)
		program->state.frame = (struct saved){ where, offset };
	else if (which == program->common->code_register)
		program->state.code = (struct saved){ where, offset };
}

static void restore(struct program *program, uint64_t which)
{
	if (which == FRAME_REGISTER)
		program->state.frame = program->first.frame;
	else if (which == program->common->code_register)
		program->state.code = program->first.code;
}

// An offset that is counted in units. Hostile ones may run over.
static int64_t units(const struct program *program, uint64_t count)
{
	return (int64_t)(count * (uint64_t)program->common->data_unit);
}

static void set_cfa(struct program *program, uint64_t which, int64_t offset)
{
	program->state.cfa_register = which;
	program->state.cfa_offset = offset;
	program->state.cfa_by_word = program->state.cfa_is_odd = false;
}

enum { OF_REGISTER_0 = 0x70, OF_REGISTER_31 = 0x8f, WORD_THERE = 0x06 }; // DW_OP_breg0 … DW_OP_breg31, DW_OP_deref

// An expression "register + offset", and perhaps "the word there". False: it is another one. The program goes on behind it.
static bool take_expression(struct reader *reader, uint64_t *which, int64_t *offset, bool *by_word)
{
	uint64_t bytes = take_uleb(reader), operation;
	uintptr_t end = reader->at + bytes;
	bool known;

	operation = take(reader, 1);
	*which = operation - OF_REGISTER_0;
	known = operation >= OF_REGISTER_0 && operation <= OF_REGISTER_31;
	*offset = known ? take_sleb(reader) : 0;
	*by_word = known && reader->at < end && take(reader, 1) == WORD_THERE;
	known = known && reader->at == end;
	reader->at = end;
	return known;
}

static void cfa_expression(struct program *program)
{
	uint64_t which;
	int64_t offset;
	bool by_word, known = take_expression(program->reader, &which, &offset, &by_word);

	set_cfa(program, which, offset);
	program->state.cfa_by_word = by_word;
	program->state.cfa_is_odd = !known;
}

static void saved_expression(struct program *program, uint64_t which)
{
	uint64_t from;
	int64_t offset;
	bool by_word, known = take_expression(program->reader, &from, &offset, &by_word);

	save(program, which, known && from == FRAME_REGISTER && !by_word ? ABOVE_FRAME : ELSEWHERE, offset);
}

static void pass_expression(struct reader *reader)
{
	uint64_t bytes = take_uleb(reader);

	reader->at += bytes;
}

static void keep(struct program *program)
{
	if (program->depth == KEPT_STATES)
		program->reader->failed = true;
	else
		program->kept[program->depth++] = program->state;
}

static void take_kept(struct program *program)
{
	if (program->depth == 0)
		program->reader->failed = true;
	else
		program->state = program->kept[--program->depth];
}

// DW_CFA_…, those of which the number is all of the first byte.
enum {
	NOP, SET_PLACE, ADVANCE_1, ADVANCE_2, ADVANCE_4, OFFSET_EXTENDED, RESTORE_EXTENDED, UNDEFINED, SAME_VALUE, REGISTER, REMEMBER,
	RESTORE_STATE, CFA, CFA_REGISTER, CFA_OFFSET, CFA_EXPRESSION, EXPRESSION, OFFSET_SIGNED, CFA_SIGNED, CFA_OFFSET_SIGNED, VALUE,
	VALUE_SIGNED, VALUE_EXPRESSION, SIGNED_ADDRESSES = 0x2d, ARGUMENTS = 0x2e, OFFSET_NEGATED = 0x2f,
	ADVANCE = 1, OFFSET = 2, RESTORE = 3 // in the two highest bits
};

// Moves the place. False: the wanted one comes before it.
static bool advance(struct program *program, uint64_t units)
{
	program->place += units * program->common->code_unit;
	return program->place <= program->address;
}

static void step_of_register(struct program *program, unsigned what)
{
	struct reader *reader = program->reader;
	uint64_t which = take_uleb(reader);

	switch (what) {
	case OFFSET_EXTENDED: save(program, which, ABOVE_CFA, units(program, take_uleb(reader))); break;
	case OFFSET_SIGNED: save(program, which, ABOVE_CFA, units(program, (uint64_t)take_sleb(reader))); break;
	case OFFSET_NEGATED: save(program, which, ABOVE_CFA, units(program, 0 - take_uleb(reader))); break;
	case RESTORE_EXTENDED: restore(program, which); break;
	case UNDEFINED: save(program, which, NOWHERE, 0); break;
	case SAME_VALUE: save(program, which, IN_REGISTER, 0); break;
	case REGISTER: case VALUE: take_uleb(reader); save(program, which, ELSEWHERE, 0); break;
	case VALUE_SIGNED: take_sleb(reader); save(program, which, ELSEWHERE, 0); break;
	case EXPRESSION: saved_expression(program, which); break;
	case VALUE_EXPRESSION: pass_expression(reader); save(program, which, ELSEWHERE, 0); break;
	case CFA: set_cfa(program, which, (int64_t)take_uleb(reader)); break;
	case CFA_SIGNED: set_cfa(program, which, units(program, (uint64_t)take_sleb(reader))); break;
	case CFA_REGISTER: program->state.cfa_register = which; break;
	default: reader->failed = true;
	}
}

// False: what holds at the wanted address is known.
static bool step(struct program *program)
{
	struct reader *reader = program->reader;
	unsigned byte = (unsigned)take(reader, 1), low = byte & 0x3f;

	switch (byte >> 6) {
	case ADVANCE: return advance(program, low);
	case OFFSET: save(program, low, ABOVE_CFA, units(program, take_uleb(reader))); return true;
	case RESTORE: restore(program, low); return true;
	}
	switch (byte) {
	case NOP: case SIGNED_ADDRESSES: break;
	case SET_PLACE: program->place = take_pointer(reader, program->common->pointers); return program->place <= program->address;
	case ADVANCE_1: return advance(program, take(reader, 1));
	case ADVANCE_2: return advance(program, take(reader, 2));
	case ADVANCE_4: return advance(program, take(reader, 4));
	case REMEMBER: keep(program); break;
	case RESTORE_STATE: take_kept(program); break;
	case CFA_OFFSET: program->state.cfa_offset = (int64_t)take_uleb(reader); break;
	case CFA_OFFSET_SIGNED: program->state.cfa_offset = units(program, (uint64_t)take_sleb(reader)); break;
	case CFA_EXPRESSION: cfa_expression(program); break;
	case ARGUMENTS: take_uleb(reader); break;
	default: step_of_register(program, byte);
	}
	return true;
}

static bool run(struct program *program, uintptr_t from, uintptr_t end)
{
	program->reader->at = from;
	for (unsigned steps = 0; program->reader->at < end && !program->reader->failed; steps++)
		if (steps == MOST_STEPS || !step(program))
			break;
	return !program->reader->failed;
}

static bool fits(int64_t offset)
{
	return offset % (int64_t)sizeof(uintptr_t) == 0 && offset / (int64_t)sizeof(uintptr_t) == (int16_t)(offset / (int64_t)sizeof(uintptr_t));
}

static struct os_frame_rule rule_of(const struct state *state)
{
	const struct os_frame_rule end = { .kind = FRAME_END };
	const struct saved *frame = &state->frame, *code = &state->code;

	if (state->cfa_is_odd || (state->cfa_register != FRAME_REGISTER && state->cfa_register != STACK_REGISTER))
		return end;
	if (state->cfa_offset < -(1 << 23) || state->cfa_offset >= 1 << 23 || !fits(frame->offset) || !fits(code->offset))
		return end;
	if (frame->where == ELSEWHERE || (code->where != ABOVE_CFA && code->where != IN_REGISTER))
		return end;
	return (struct os_frame_rule){
		.kind = FRAME_CALLED, .by_frame = state->cfa_register == FRAME_REGISTER, .by_word = state->cfa_by_word,
		.frame_is_saved = frame->where == ABOVE_CFA || frame->where == ABOVE_FRAME, .frame_by_frame = frame->where == ABOVE_FRAME,
		.code_is_saved = code->where == ABOVE_CFA, .cfa = state->cfa_offset,
		.frame = frame->offset / (int64_t)sizeof(uintptr_t), .code = code->offset / (int64_t)sizeof(uintptr_t),
	};
}

// From the function's entry.
static struct os_frame_rule read_rule(struct reader *reader, uintptr_t address)
{
	const struct os_frame_rule unknown = { .kind = FRAME_UNKNOWN }, end_of_stack = { .kind = FRAME_END };
	struct common common;
	struct program program = { .reader = reader, .common = &common, .address = address };
	uintptr_t entry = reader->at, end, bytes, start, at = entry + 4;
	uint64_t back = begin_entry(reader, &end);

	reader->at = at - back;
	if (back == 0 || !read_common(reader, &common))
		return unknown;
	reader->at = at + 4;
	start = take_pointer(reader, common.pointers);
	bytes = take_pointer(reader, common.pointers & 0x0f);
	if (reader->failed || address - start >= bytes)
		return unknown;
	if (common.is_signal)
		return (struct os_frame_rule){ .kind = FRAME_SIGNAL };
	if (common.has_extra)
		pass_expression(reader);
	at = reader->at;
	program.place = start;
	if (reader->failed || !run(&program, common.program, common.end))
		return end_of_stack;
	program.first = program.state;
	program.place = start;
	return run(&program, at, end) ? rule_of(&program.state) : end_of_stack;
}

struct os_frame_rule os_frame_rule_find(uintptr_t address)
{
	struct os_frame_rule rule = { .kind = FRAME_UNKNOWN };
	struct reader reader = { 0 };
	int saved = errno;

	if (os_module_find(address, &reader.module) && reader.module.unwind_table != 0) {
		reader.end = reader.module.end;
		if (seek_entry(&reader, address))
			rule = read_rule(&reader, address);
	}
	if (rule.kind == FRAME_UNKNOWN && (os_returns_from_handler(address) || os_returns_from_handler(address + 1)))
		rule.kind = FRAME_SIGNAL;
	errno = saved;
	return rule;
}
