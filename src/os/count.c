// Counting build: cells of threads, the last owner of each line, and the sums as JSON.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/count.h"

#include "os/mutex.h"
#include "util/bits.h"
#include "util/format.h"

enum { SLOTS = 256, LG_LINES = 18, LG_THREADS = 16 };

_Static_assert((int)RANK_COUNT <= (int)COUNT_RANKS, "a cell for every rank");

// Of more threads than slots some share one and may lose a count; nothing here is shared by two lines of threads below that.
static struct {
	struct count_cells by_kind[COUNT_KINDS];
} __attribute__((aligned(CACHE_LINE))) slots[SLOTS];

static uint64_t last_owner[1 << LG_LINES]; // line << LG_THREADS | thread; lines with one place in the table forget each other
static uint32_t threads;
static __thread uint32_t self;
static __thread enum count_kind current;

static uint32_t own_number(void)
{
	if (UNLIKELY(self == 0))
		self = (uint32_t)__atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
	return self;
}

struct count_cells *count_own(void)
{
	return &slots[own_number() % SLOTS].by_kind[current];
}

static void count_line(uintptr_t line)
{
	uint64_t *owner = &last_owner[hash_bits(line, LG_LINES)];
	uint64_t mine = (uint64_t)line << LG_THREADS | (own_number() & ((1u << LG_THREADS) - 1));
	uint64_t before = __atomic_load_n(owner, __ATOMIC_RELAXED);

	if (before == mine)
		return;
	if (before >> LG_THREADS == line)
		count_own()->lines++;
	__atomic_store_n(owner, mine, __ATOMIC_RELAXED);
}

void count_lines(const void *start, size_t bytes)
{
	for (uintptr_t line = (uintptr_t)start / CACHE_LINE; line * CACHE_LINE < (uintptr_t)start + bytes; line++)
		count_line(line);
}

void count_atomic(const volatile void *address)
{
	count_own()->atomics++;
	count_line((uintptr_t)address / CACHE_LINE);
}

enum count_kind count_begin(enum count_kind kind)
{
	enum count_kind outer = current;

	if (outer == COUNT_OTHER || kind == COUNT_FREE_FOREIGN) {
		current = kind;
		COUNT(misses);
	}
	return outer;
}

void count_end(const enum count_kind *outer)
{
	current = *outer;
}

EXPORT void vmag_count_reset(void)
{
	__builtin_memset(slots, 0, sizeof slots);
}

static uint64_t sum(size_t kind, size_t offset)
{
	uint64_t sum = 0;

	for (size_t slot = 0; slot < SLOTS; slot++)
		sum += *(uint64_t *)((char *)&slots[slot].by_kind[kind] + offset);
	return sum;
}

static void add_cell(struct text *text, const char *name, size_t kind, size_t offset)
{
	text_add(text, "\"%s\":%zu,", name, (size_t)sum(kind, offset));
}

static void add_ranks(struct text *text, const char *name, size_t kind, size_t offset)
{
	text_add(text, "\"%s\":[", name);
	for (size_t rank = 0; rank < RANK_COUNT; rank++)
		text_add(text, "%s%zu", rank == 0 ? "" : ",", (size_t)sum(kind, offset + rank * sizeof(uint64_t)));
	text_add(text, "]");
}

EXPORT void vmag_count_json(char *into, size_t size)
{
	static const char *const names[COUNT_KINDS] = { "other", "malloc", "free", "free_foreign" };
	struct text text = text_into(into, size - 1);

	for (size_t kind = 0; kind < COUNT_KINDS; kind++) {
		text_add(&text, "%s\"%s\":{", kind == 0 ? "{" : ",", names[kind]);
		add_cell(&text, "misses", kind, offsetof(struct count_cells, misses));
		add_cell(&text, "atomics", kind, offsetof(struct count_cells, atomics));
		add_cell(&text, "lines", kind, offsetof(struct count_cells, lines));
		add_cell(&text, "exchanges", kind, offsetof(struct count_cells, exchanges));
		add_cell(&text, "magazines", kind, offsetof(struct count_cells, magazines));
		add_cell(&text, "contentions", kind, offsetof(struct count_cells, contentions));
		add_ranks(&text, "locks", kind, offsetof(struct count_cells, locks));
		text_add(&text, ",");
		add_ranks(&text, "waits", kind, offsetof(struct count_cells, waits));
		text_add(&text, "}");
	}
	text_add(&text, "}");
	*text.at = 0;
}
