// Walks by unwind tables: a look into the table of rules a frame, and as a rule one word of the stack.
//
// Where the caller's frame pointer is, is known of each frame, but it is read only where a frame is found by it.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/rules.h"

#include <string.h>
#include <ucontext.h>

#include "os/frame_rule.h"
#include "os/module.h"
#include "os/stack_range.h"
#include "os/walk.h"
#include "util/bits.h"

// The kernel's frame, above the stack pointer at a handler's return.
#if defined(__x86_64__)
enum {
	CONTEXT = 0,
	CONTEXT_CODE = offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]),
	CONTEXT_STACK = offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]),
	CONTEXT_FRAME = offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]),
	CONTEXT_LINK = 0, // there is none
};
#else
enum {
	CONTEXT = 128, // behind siginfo_t
	CONTEXT_CODE = offsetof(ucontext_t, uc_mcontext.pc),
	CONTEXT_STACK = offsetof(ucontext_t, uc_mcontext.sp),
	CONTEXT_FRAME = offsetof(ucontext_t, uc_mcontext.regs[29]),
	CONTEXT_LINK = offsetof(ucontext_t, uc_mcontext.regs[30]),
};
#endif

enum { UNTOLD_MOST = 10000 }; // questions without an answer: where nobody ever tells, they are too dear to be asked at each walk

struct place {
	uintptr_t code;     // a return address,
	bool is_exact;      // or that of the next instruction
	uintptr_t stack;
	uintptr_t frame;    // the frame pointer,
	uintptr_t frame_at; // or where it is; 0: it was read
	uintptr_t link;     // of an exact place: where the return address is if it is not saved; 0: nowhere
};

struct walker {
	struct os_rules *rules;
	uint64_t generation;
	uintptr_t low, top; // what of the stack is readable
	uintptr_t own;      // and from where on of it what need not be a frame
	struct walking walking;
	uintptr_t page; // the last that was found readable
	struct os_piece *piece;
	uintptr_t begin; // of what is the thread's own, from wherever the walk began; and whether it came there by small steps
	bool has_leapt, has_arrived;
	bool guesses;   // went by a frame pointer that need not be one: what comes may be left-overs, of what others take away meanwhile
	struct place place;
};

// Where a rule's address is looked for first, and then in the other places of the line.
struct home {
	struct os_rule_line *line;
	unsigned at;
};

static inline struct home home_of(struct os_rules *rules, uintptr_t address)
{
	uint64_t mixed = hash_bits(address, LG_RULE_LINES + LG_RULES_A_LINE);

	return (struct home){ &rules->line[mixed >> LG_RULES_A_LINE], mixed % RULES_A_LINE };
}

static inline bool is_of(const struct os_rule_line *line, unsigned at, uint64_t key, uint64_t *word)
{
	*word = atomic_load_explicit(&line->place[at].rule, memory_order_relaxed);
	return (atomic_load_explicit(&line->place[at].check, memory_order_relaxed) ^ *word) == key;
}

// Where it is looked for first; what was there moves on, and of a full line the last is forgotten.
static void keep(struct home home, uint64_t key, uint64_t word)
{
	for (unsigned i = 0; i < RULES_A_LINE; i++) {
		unsigned at = home.at ^ i;
		uint64_t rule = atomic_load_explicit(&home.line->place[at].rule, memory_order_relaxed);
		uint64_t other = atomic_load_explicit(&home.line->place[at].check, memory_order_relaxed) ^ rule;

		atomic_store_explicit(&home.line->place[at].rule, word, memory_order_relaxed);
		atomic_store_explicit(&home.line->place[at].check, word ^ key, memory_order_relaxed);
		if (other == key || other == 0)
			return;
		key = other;
		word = rule;
	}
}

static __attribute__((noinline)) uint64_t find(struct home home, uintptr_t address, uint64_t key, bool is_on_stack)
{
	struct os_frame_rule rule;
	static _Atomic uint32_t untold;
	uint64_t word;
	bool told;

	for (unsigned i = 1; i < RULES_A_LINE; i++)
		if (is_of(home.line, home.at ^ i, key, &word))
			return word;
	rule = os_frame_rule_find(address, is_on_stack, &told);
	memcpy(&word, &rule, sizeof word);
	// Else the next may be told more, by a walk that knows its frames to be some.
	if (told || atomic_fetch_add_explicit(&untold, 1, memory_order_relaxed) >= UNTOLD_MOST)
		keep(home, key, word);
	return word;
}

// A call may be the last of its function: the address behind it is then another's.
static inline struct os_frame_rule rule_at(struct walker *walker)
{
	uintptr_t address = walker->place.code - !walker->place.is_exact;
	uint64_t key = address | walker->generation << 48, word;
	struct home home = home_of(walker->rules, address);
	struct os_frame_rule rule;

	if (UNLIKELY(!is_of(home.line, home.at, key, &word)))
		word = find(home, address, key, !walker->guesses);
	memcpy(&rule, &word, sizeof rule);
	return rule;
}

// A word that is not in the range: of a coroutine's stack, say.
__attribute__((noinline, no_sanitize("address"))) static bool load_elsewhere(struct walker *walker, uintptr_t at, uintptr_t *value)
{
	walker->walking.lost = true;
	if (walker->guesses)
		return os_word_copy(walker->piece, at, &walker->page, value);
	if (!os_word_is_readable(at, &walker->page))
		return false;
	*value = *(const uintptr_t *)at;
	return true;
}

// False: it cannot be read.
__attribute__((no_sanitize("address"))) static inline bool load(struct walker *walker, uintptr_t at, uintptr_t *value)
{
	if (UNLIKELY(at % sizeof at != 0))
		return false;
	if (UNLIKELY(!os_stack_has(walker->low, walker->top, at)))
		return load_elsewhere(walker, at, value);
	*value = *(const uintptr_t *)at;
	walking_note(&walker->walking, at, *value);
	return true;
}

static inline bool read_frame_pointer(struct walker *walker)
{
	struct place *place = &walker->place;

	walking_frame_used(&walker->walking);
	if (place->frame_at != 0 && !load(walker, place->frame_at, &place->frame))
		return false;
	place->frame_at = 0;
	return true;
}

// Before it leaves a place by what may lead anywhere.
static void note_arrival(struct walker *walker)
{
	walker->has_arrived |= !walker->has_leapt && os_stack_has(walker->begin, walker->top, walker->place.stack);
}

static bool go_to_signal(struct walker *walker)
{
	struct place *place = &walker->place;
	uintptr_t context = place->stack + CONTEXT;

	note_arrival(walker);
	walker->has_leapt = true; // the handler may have a stack of its own
	walking_frame_unused(&walker->walking);
	place->frame_at = context + CONTEXT_FRAME;
	place->link = CONTEXT_LINK == 0 ? 0 : context + CONTEXT_LINK;
	place->is_exact = true;
	return load(walker, context + CONTEXT_STACK, &place->stack) && load(walker, context + CONTEXT_CODE, &place->code);
}

static __attribute__((noinline)) bool is_above_by(struct walker *walker, uintptr_t step)
{
	if (step == 0)
		return walker->place.is_exact;
	note_arrival(walker);
	walker->has_leapt = true;
	return step <= FRAME_MOST;
}

// Outwards, and not absurdly far. Only a function that was interrupted at its beginning has nothing on the stack.
static inline bool is_above(struct walker *walker, uintptr_t cfa)
{
	uintptr_t step = cfa - walker->place.stack;

	return LIKELY(step - 1 < FRAME_STEP) || is_above_by(walker, step);
}

// To the caller, whose stack pointer is the CFA; its return address is at `code_at`.
static inline bool go_to(struct walker *walker, uintptr_t cfa, uintptr_t code_at)
{
	struct place *place = &walker->place;

	if (!is_above(walker, cfa) || !load(walker, code_at, &place->code))
		return false;
	place->stack = cfa;
	place->is_exact = false;
	return true;
}

// Code without tables, as far as the frame pointer is one.
static bool go_by_frame(struct walker *walker)
{
	struct place *place = &walker->place;
	uintptr_t cfa;

	note_arrival(walker);
	walker->guesses = true;
	walker->low = walker->own;
	if (!read_frame_pointer(walker))
		return false;
	cfa = place->frame + FRAME_BYTES;
	if (place->frame == 0 || cfa <= place->stack)
		return false;
	place->frame_at = cfa - FRAME_BYTES;
	return go_to(walker, cfa, cfa - sizeof cfa);
}

static inline bool go_by_rule(struct walker *walker, struct os_frame_rule rule)
{
	struct place *place = &walker->place;
	uintptr_t cfa, code_at;

	if (rule.frame_is_saved && !rule.by_frame && !rule.frame_by_frame)
		walking_frame_unused(&walker->walking);
	if (rule.by_frame || rule.frame_by_frame)
		if (!read_frame_pointer(walker))
			return false;
	cfa = (rule.by_frame ? place->frame : place->stack) + (uintptr_t)(intptr_t)rule.cfa;
	if (UNLIKELY(rule.by_word) && !load(walker, cfa, &cfa))
		return false;
	code_at = rule.code_is_saved ? cfa + (uintptr_t)(intptr_t)rule.code * sizeof cfa : place->is_exact ? place->link : 0;
	if (rule.frame_is_saved)
		place->frame_at = (rule.frame_by_frame ? place->frame : cfa) + (uintptr_t)(intptr_t)rule.frame * sizeof cfa;
	return code_at != 0 && go_to(walker, cfa, code_at);
}

// As go_by_rule.
static inline bool go_by_plain_rule(struct walker *walker, struct os_frame_rule rule)
{
	uintptr_t cfa = walker->place.stack + (uintptr_t)(intptr_t)rule.cfa;

	if (rule.frame_is_saved) {
		walking_frame_unused(&walker->walking);
		walker->place.frame_at = cfa + (uintptr_t)(intptr_t)rule.frame * sizeof cfa;
	}
	return go_to(walker, cfa, cfa - sizeof cfa);
}

static inline bool go_out(struct walker *walker)
{
	struct os_frame_rule rule = rule_at(walker);

	if (LIKELY(rule.is_plain))
		return go_by_plain_rule(walker, rule);
	if (rule.kind == FRAME_CALLED)
		return go_by_rule(walker, rule);
	if (rule.kind == FRAME_SIGNAL)
		return go_to_signal(walker);
	return rule.kind == FRAME_UNKNOWN && go_by_frame(walker);
}

// The state of a walk is known by where the return address was and where the frame pointer is; behind a handler's return it is not.
static inline bool meets(struct walker *walker)
{
	const struct place *place = &walker->place;
	bool is_plain = !place->is_exact && place->frame_at != 0;

	return walking_meets(&walker->walking, place->stack - sizeof place->stack, is_plain ? place->frame_at : WORD_FRAME_ALONE);
}

size_t os_rules_walk(struct os_rules *rules, uintptr_t *frames, size_t depth, uintptr_t frame, struct os_stack_range *range, struct os_walk *walk,
		     size_t *kept)
{
	struct os_piece piece;
	struct walker walker = {
		.piece = &piece, .rules = rules, .generation = atomic_load_explicit(&os_modules_generation, memory_order_relaxed),
		.page = round_down((uintptr_t)__builtin_frame_address(0), PROBE_PAGE), .place = { .stack = frame + FRAME_BYTES, .frame_at = frame },
	};
	bool met = false, more;
	size_t count = 0;

	if (UNLIKELY(frame < range->own || range->low == 0))
		os_stack_range_extend(range, frame);
	walker.low = range->low;
	walker.top = range->top;
	walker.begin = range->own;
	walker.own = frame < range->own ? range->top : range->own;
	piece.start = NO_PIECE;
	walking_begin(&walker.walking, walk, (uint32_t)walker.generation, frame);
	more = load(&walker, frame + sizeof frame, &walker.place.code);
	while (more && count < depth && (walker.place.code = os_code_address(walker.place.code)) >= FIRST_CODE && !(met = meets(&walker))) {
		frames[count++] = walker.place.code;
		more = go_out(&walker);
	}
	note_arrival(&walker);
	if (UNLIKELY(frame < range->own) && walker.has_arrived)
		os_stack_range_arrived(range, frame);
	walker.walking.lost |= count == depth && !met;
	*kept = walking_end(&walker.walking, met);
	return count;
}
