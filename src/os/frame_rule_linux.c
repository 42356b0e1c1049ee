// Unwind tables: the function's entry by binary search, and its program up to the address.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/frame_rule.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "os/module.h"
#include "os/stack_range.h"
#include "os/table_reader.h"

#if defined(__x86_64__)
enum { FRAME_REGISTER = 6, STACK_REGISTER = 7 };
#else
enum { FRAME_REGISTER = 29, STACK_REGISTER = 31 };
#endif

enum {
	KEPT_STATES = 8,
	PROGRAM_MOST = 128 * 1024, // bytes up to the address
	MOST_LETTERS = 16,
	SEARCH_TABLE = 0x3b // pairs of 4 bytes, from the header's beginning
};

// Moves to the entry of the function that has the address, as the sorted table of beginnings says; false: there is none.
static bool seek_entry(struct table_reader *reader, uintptr_t address)
{
	uintptr_t table;
	uint64_t low = 0, high;
	unsigned first, counted, pairs;

	if (table_take(reader, 1) != 1)
		return false;
	first = (unsigned)table_take(reader, 1);
	counted = (unsigned)table_take(reader, 1);
	pairs = (unsigned)table_take(reader, 1);
	if (counted == OMITTED || pairs != SEARCH_TABLE)
		return false;
	table_take_pointer(reader, first);
	high = table_take_pointer(reader, counted);
	table = reader->at;
	if (reader->failed || high > (reader->end - table) / 8)
		return false;
	while (high > low + 1) {
		uint64_t middle = low + (high - low) / 2;

		reader->at = table + middle * 8;
		if (reader->module.unwind_table + (uintptr_t)table_take_signed(reader, 4) <= address)
			low = middle;
		else
			high = middle;
	}
	reader->at = table + low * 8 + 4;
	reader->at = high == 0 ? 0 : reader->module.unwind_table + (uintptr_t)table_take_signed(reader, 4);
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
static uint64_t begin_entry(struct table_reader *reader, uintptr_t *end)
{
	uint64_t bytes = table_take(reader, 4);

	*end = reader->at + bytes;
	if (bytes < 4 || bytes >= 0xfffffff0 || *end > reader->end)
		table_fail(reader);
	return table_take(reader, 4);
}

static void read_extra(struct table_reader *reader, struct common *common, uintptr_t letters)
{
	uintptr_t extra = reader->at;
	char letter;

	do {
		reader->at = letters++;
		letter = (char)table_take(reader, 1);
		reader->at = extra;
		switch (letter) {
		case 'R': common->pointers = (unsigned)table_take(reader, 1); break;
		case 'P': extra = table_take(reader, 1); table_take_pointer(reader, (unsigned)extra & 0x0f); break;
		case 'L': table_take(reader, 1); break;
		case 'S': common->is_signal = true; break;
		default: break;
		}
		extra = reader->at;
	} while (letter != '\0' && !reader->failed);
}

static bool read_common(struct table_reader *reader, struct common *common)
{
	uintptr_t letters, extra;
	uint64_t version, bytes;

	*common = (struct common){ 0 };
	if (begin_entry(reader, &common->end) != 0)
		return false;
	version = table_take(reader, 1);
	letters = reader->at;
	common->has_extra = table_take(reader, 1) == 'z';
	reader->at = letters;
	do
		if (reader->at - letters > MOST_LETTERS)
			table_fail(reader);
	while (table_take(reader, 1) != 0);
	if ((version != 1 && version != 3) || (!common->has_extra && reader->at != letters + 1))
		return false;
	common->code_unit = table_take_uleb(reader);
	common->data_unit = table_take_sleb(reader);
	common->code_register = version == 1 ? table_take(reader, 1) : table_take_uleb(reader);
	common->program = reader->at;
	if (common->has_extra) {
		bytes = table_take_uleb(reader);
		extra = reader->at;
		table_pass(reader, bytes);
		common->program = reader->at;
		reader->at = extra;
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
	struct table_reader *reader;
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
static bool take_expression(struct table_reader *reader, uint64_t *which, int64_t *offset, bool *by_word)
{
	uint64_t bytes = table_take_uleb(reader), operation;
	uintptr_t start = reader->at, end;
	bool known;

	table_pass(reader, bytes);
	end = reader->at;
	reader->at = start;
	operation = table_take(reader, 1);
	*which = operation - OF_REGISTER_0;
	known = operation >= OF_REGISTER_0 && operation <= OF_REGISTER_31;
	*offset = known ? table_take_sleb(reader) : 0;
	*by_word = known && reader->at < end && table_take(reader, 1) == WORD_THERE;
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

static void pass_expression(struct table_reader *reader)
{
	table_pass(reader, table_take_uleb(reader));
}

static void keep(struct program *program)
{
	if (program->depth == KEPT_STATES)
		table_fail(program->reader);
	else
		program->kept[program->depth++] = program->state;
}

static void take_kept(struct program *program)
{
	if (program->depth == 0)
		table_fail(program->reader);
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
	struct table_reader *reader = program->reader;
	uint64_t which = table_take_uleb(reader);

	switch (what) {
	case OFFSET_EXTENDED: save(program, which, ABOVE_CFA, units(program, table_take_uleb(reader))); break;
	case OFFSET_SIGNED: save(program, which, ABOVE_CFA, units(program, (uint64_t)table_take_sleb(reader))); break;
	case OFFSET_NEGATED: save(program, which, ABOVE_CFA, units(program, 0 - table_take_uleb(reader))); break;
	case RESTORE_EXTENDED: restore(program, which); break;
	case UNDEFINED: save(program, which, NOWHERE, 0); break;
	case SAME_VALUE: save(program, which, IN_REGISTER, 0); break;
	case REGISTER: case VALUE: table_take_uleb(reader); save(program, which, ELSEWHERE, 0); break;
	case VALUE_SIGNED: table_take_sleb(reader); save(program, which, ELSEWHERE, 0); break;
	case EXPRESSION: saved_expression(program, which); break;
	case VALUE_EXPRESSION: pass_expression(reader); save(program, which, ELSEWHERE, 0); break;
	case CFA: set_cfa(program, which, (int64_t)table_take_uleb(reader)); break;
	case CFA_SIGNED: set_cfa(program, which, units(program, (uint64_t)table_take_sleb(reader))); break;
	case CFA_REGISTER: program->state.cfa_register = which; break;
	default: table_fail(reader);
	}
}

// False: what holds at the wanted address is known.
static inline bool step(struct program *program)
{
	struct table_reader *reader = program->reader;
	unsigned byte = (unsigned)table_take_byte(reader), low = byte & 0x3f;

	switch (byte >> 6) {
	case ADVANCE: return advance(program, low);
	case OFFSET: save(program, low, ABOVE_CFA, units(program, table_take_uleb(reader))); return true;
	case RESTORE: restore(program, low); return true;
	}
	switch (byte) {
	case NOP: case SIGNED_ADDRESSES: break;
	case SET_PLACE: program->place = table_take_pointer(reader, program->common->pointers); return program->place <= program->address;
	case ADVANCE_1: return advance(program, table_take_byte(reader));
	case ADVANCE_2: return advance(program, table_take(reader, 2));
	case ADVANCE_4: return advance(program, table_take(reader, 4));
	case REMEMBER: keep(program); break;
	case RESTORE_STATE: take_kept(program); break;
	case CFA_OFFSET: program->state.cfa_offset = (int64_t)table_take_uleb(reader); break;
	case CFA_OFFSET_SIGNED: program->state.cfa_offset = units(program, (uint64_t)table_take_sleb(reader)); break;
	case CFA_EXPRESSION: cfa_expression(program); break;
	case ARGUMENTS: table_take_uleb(reader); break;
	default: step_of_register(program, byte);
	}
	return true;
}

// What long programs consist of, as far as it is in the window: advances, small offsets of the CFA, and what is kept before a function's end and holds again
// behind it, of which only that offset can have changed. The same as `step` does with each. False: as there.
static inline bool pass_simple(struct program *program, uintptr_t end)
{
	struct table_reader *reader = program->reader;
	uintptr_t place = program->place, address = program->address, unit = program->common->code_unit;
	int64_t cfa_offset = program->state.cfa_offset, kept_offset = 0;
	const unsigned char *at, *last;
	bool is_kept = false;

	if (!table_has_byte(reader))
		return true;
	at = &reader->window[reader->at - reader->from];
	last = at + min_size(reader->held - (reader->at - reader->from), end - reader->at) - 1;
	while (at < last) {
		uint8_t byte = *at;

		if (byte == CFA_OFFSET && at[1] < 0x80) {
			cfa_offset = at[1];
			at += 2;
		} else if (byte >> 6 == ADVANCE) {
			at++;
			if ((place += (byte & 0x3f) * unit) > address)
				break;
		} else if (byte == ADVANCE_1) {
			at += 2;
			if ((place += at[-1] * unit) > address)
				break;
		} else if (byte == REMEMBER && !is_kept) {
			kept_offset = cfa_offset;
			is_kept = true;
			at++;
		} else if (byte == RESTORE_STATE && is_kept) {
			cfa_offset = kept_offset;
			is_kept = false;
			at++;
		} else
			break;
	}
	if (is_kept) {
		program->state.cfa_offset = kept_offset;
		keep(program);
	}
	program->place = place;
	program->state.cfa_offset = cfa_offset;
	reader->at = reader->from + (uintptr_t)(at - reader->window);
	return place <= address;
}

static __attribute__((noinline)) bool run(struct program *program, uintptr_t from, uintptr_t end)
{
	struct table_reader *reader = program->reader;

	reader->at = from;
	while (reader->at < end && !reader->failed) {
		if (reader->at - from >= PROGRAM_MOST)
			return false;
		if (!pass_simple(program, end) || (reader->at < end && !step(program)))
			break;
	}
	return !reader->failed;
}

static bool fits(int64_t offset)
{
	return offset % (int64_t)sizeof(uintptr_t) == 0 && offset / (int64_t)sizeof(uintptr_t) == (int16_t)(offset / (int64_t)sizeof(uintptr_t));
}

static struct os_frame_rule rule_of(const struct state *state)
{
	const struct os_frame_rule end = { .kind = FRAME_END };
	const struct saved *frame = &state->frame, *code = &state->code;
	struct os_frame_rule rule;

	if (state->cfa_is_odd || (state->cfa_register != FRAME_REGISTER && state->cfa_register != STACK_REGISTER))
		return end;
	if (state->cfa_offset < -(1 << 23) || state->cfa_offset >= 1 << 23 || !fits(frame->offset) || !fits(code->offset))
		return end;
	if (frame->where == ELSEWHERE || (code->where != ABOVE_CFA && code->where != IN_REGISTER))
		return end;
	rule = (struct os_frame_rule){
		.kind = FRAME_CALLED, .by_frame = state->cfa_register == FRAME_REGISTER, .by_word = state->cfa_by_word,
		.frame_is_saved = frame->where == ABOVE_CFA || frame->where == ABOVE_FRAME, .frame_by_frame = frame->where == ABOVE_FRAME,
		.code_is_saved = code->where == ABOVE_CFA, .cfa = state->cfa_offset,
		.frame = frame->offset / (int64_t)sizeof(uintptr_t), .code = code->offset / (int64_t)sizeof(uintptr_t),
	};
	rule.is_plain = !rule.by_frame && !rule.by_word && !rule.frame_by_frame && rule.code_is_saved && rule.code == -1;
	return rule;
}

// From the function's entry.
static struct os_frame_rule read_rule(struct table_reader *reader, uintptr_t address)
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
	start = table_take_pointer(reader, common.pointers);
	bytes = table_take_pointer(reader, common.pointers & 0x0f);
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

struct os_frame_rule os_frame_rule_find(uintptr_t address, bool is_on_stack, bool *told)
{
	struct os_frame_rule rule = { .kind = FRAME_UNKNOWN };
	struct table_reader reader;
	struct os_module module;
	int saved = errno;

	if (os_module_find(address, &module, told) && module.unwind_table != 0) {
		table_begin(&reader, &module, is_on_stack);
		if (seek_entry(&reader, address))
			rule = read_rule(&reader, address);
		*told = !reader.unread;
	}
	if (rule.kind == FRAME_UNKNOWN && (os_returns_from_handler(address) || os_returns_from_handler(address + 1)))
		rule.kind = FRAME_SIGNAL;
	errno = saved;
	return rule;
}
