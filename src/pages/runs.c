// Page runs of one arena: allocation, and the decay of dirty pages.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/runs.h"

#include <stdatomic.h>
#include <string.h>

#include "conf/options.h"
#include "os/clock.h"
#include "os/pages.h"
#include "pages/chunks.h"
#include "pages/huge.h"
#include "pages/page_map.h"
#include "util/assert.h"
#include "util/bits.h"

enum {
	PAGES_APART = 1024 * 1024,     // bytes of a large run, whatever the page: what is purged of a larger one at least
	PURGE_MOST = 16 * 1024 * 1024, // bytes given back by one system call,
	LG_PURGE_CALLS = 6,            // or a 64th of the run, so that a huge one of which little was touched takes few
	DIRTY_FLOOR = 2 * 1024 * 1024, // bytes that may be dirty whatever the proportion
	LG_DIRTY_PROPORTION = 2,       // dirty to active: one to four
	LG_MAKE_UP_MOST = 4,           // where there are huge pages: 16 bytes at most are given for one that became resident elsewhere,
	PIECE_LEAST = 64 * 1024,       // and no smaller runs, which may be torn out of them
	IDLE_FLOOR = 512 * 1024, // bytes that may be dirty in a heap that grows in any case, and
	LG_IDLE_PROPORTION = 5,  // of it: one to 32, as in 2006
	REFUSED_MOST = 8,        // pieces that hooks refused, and are passed over
	MADE_UP_A_MS = 64 * 1024, // bytes given back for fresh pages in a millisecond,
	MADE_UP_MS = 128,         // of so many at once, and
	LG_MADE_UP_SHARE = 2,     // for fresh pages a fourth of them, whose own page faults take longer
};

static uintptr_t import(void *source, size_t size, int flags)
{
	struct pages *pages = source;

	(void)flags;
	return extents_are_ours(&pages->extents) && !extents_are_kept(&pages->extents) ? chunks_import(size, 0) : extents_import(&pages->extents, size);
}

static void release(void *source, uintptr_t start, size_t size)
{
	struct pages *pages = source;

	if (!extents_are_ours(&pages->extents) || !chunks_release(start, size))
		extents_release(&pages->extents, start, size);
}

COLD void pages_init(struct pages *pages, const char *name)
{
	vmem_begin(&pages->runs, name, lg_floor(os_page_size()), VMEM_BESTFIT, RANK_PAGES);
	vmem_import_from(&pages->runs, pages, import, release, CHUNK_BYTES, CHUNK_BYTES);
	pages->runs.apart = PAGES_APART;
	extents_init(&pages->extents);
	pages->dirty_decay_ms = DECAY_BY_OPTION;
}

// A whole span is not purged: it is returned, and its hooks give it back, or purge it then.
static bool purge_by_hooks(struct pages *pages, uintptr_t start, size_t size)
{
	size_t span_bytes = 0;
	uintptr_t span = vmem_span_around(&pages->runs, start, &span_bytes);

	return (start == span && size == span_bytes) || extents_purge(&pages->extents, span, span_bytes, start - span, size);
}

static bool has_huge(const struct pages *pages)
{
	return atomic_load_explicit(&pages->has_huge, memory_order_relaxed);
}

// In slices, so that the kernel holds the process's memory map for a short time only.
bool pages_clear(struct pages *pages, uintptr_t start, size_t size)
{
	uintptr_t first = round_down(start, CHUNK_BYTES), end = round_up(start + size, CHUNK_BYTES);
	size_t slice = max_size(PURGE_MOST, round_up(size >> LG_PURGE_CALLS, os_page_size()));

	if (!extents_are_ours(&pages->extents))
		return purge_by_hooks(pages, start, size);
	if (has_huge(pages))
		os_pages_huge((void *)first, end - first, false);
	for (size_t done = 0; done < size; done += slice) {
		if (!os_pages_purge((void *)(start + done), min_size(size - done, slice)))
			return false;
		atomic_fetch_add_explicit(&pages->purge_calls, 1, memory_order_relaxed);
	}
	atomic_fetch_add_explicit(&pages->purged_bytes, size, memory_order_relaxed);
	return true;
}

__attribute__((noinline)) bool pages_give(struct pages *pages, uintptr_t start, size_t size)
{
	bool given = pages_clear(pages, start, size);

	atomic_store_explicit(&pages->refused_bytes, given ? 0 : pages_dirty_bytes(pages) + size, memory_order_relaxed);
	return given;
}

ssize_t pages_decay_ms(const struct pages *pages)
{
	ssize_t ms = atomic_load_explicit(&pages->dirty_decay_ms, memory_order_relaxed);

	return ms == DECAY_BY_OPTION ? (ssize_t)options.dirty_decay_ms : ms;
}

static bool has_dirty_run(const struct pages *pages)
{
	return __atomic_load_n(&pages->runs.bytes[VMEM_DIRTY], __ATOMIC_RELAXED) > 0;
}

// What is in hand is allocated meanwhile, and not counted.
static COLD __attribute__((noinline)) uintptr_t take_more(struct pages *pages, size_t most, size_t in_hand, size_t *size)
{
	size_t dirty = __atomic_load_n(&pages->runs.dirty_bytes, __ATOMIC_RELAXED) + in_hand;

	return dirty > most ? vmem_take_dirty(&pages->runs, dirty - most, size).start : 0;
}

// Hooks may refuse some runs and give others back: a few that were refused stay in hand meanwhile, so that they are not taken again.
static COLD __attribute__((noinline)) bool purge_past_refused(struct pages *pages, size_t most, uintptr_t start, size_t size)
{
	struct {
		uintptr_t start;
		size_t size;
	} refused[REFUSED_MOST];
	size_t count = 0, bytes = 0;
	bool given = false;

	while (start != 0) {
		refused[count].start = start;
		refused[count++].size = size;
		bytes += size;
		while ((start = count == REFUSED_MOST ? 0 : take_more(pages, most, bytes, &size)) != 0 && pages_give(pages, start, size)) {
			vmem_segment_free(&pages->runs, start, size, VMEM_CLEAN);
			given = true;
		}
	}
	while (count-- > 0)
		vmem_segment_free(&pages->runs, refused[count].start, refused[count].size, VMEM_DIRTY);
	if (!given)
		atomic_store_explicit(&pages->refused_bytes, __atomic_load_n(&pages->runs.dirty_bytes, __ATOMIC_RELAXED), memory_order_relaxed);
	return given;
}

static bool purge_pieces(struct pages *pages, size_t most, size_t piece_least, size_t piece_most)
{
	bool given = false;

	while (pages_dirty_bytes(pages) > most || (most == 0 && has_dirty_run(pages))) {
		size_t size;
		size_t excess = pages_dirty_bytes(pages) - min_size(pages_dirty_bytes(pages), most);
		uintptr_t start = vmem_take_dirty(&pages->runs, excess, &size).start;
		bool fits = start != 0 && size >= piece_least && size <= piece_most, purged = fits && pages_give(pages, start, size);

		if (UNLIKELY(fits && !purged && !extents_are_ours(&pages->extents))) {
			given |= purge_past_refused(pages, most, start, size);
			break;
		}
		if (start != 0)
			vmem_segment_free(&pages->runs, start, size, purged ? VMEM_CLEAN : VMEM_DIRTY);
		if (!purged)
			break;
		given = true;
	}
	if (given)
		atomic_fetch_add_explicit(&pages->purges, 1, memory_order_relaxed);
	return given;
}

// Hooks may have no way to purge, but get back what is unused. To look at every span is too much for each run that is freed (free_with_span).
static __attribute__((noinline)) void return_unused(struct pages *pages)
{
	if (has_dirty_run(pages))
		vmem_return_spans(&pages->runs);
}

bool pages_purge(struct pages *pages, size_t most)
{
	if (UNLIKELY(most == 0 && !extents_are_ours(&pages->extents)))
		return_unused(pages);
	return purge_pieces(pages, most, 0, SIZE_MAX);
}

// What is given back at once is a MiB or a whole run (vmem_take_dirty), of `least` bytes or more. Where it may be a huge page's rest it waits
// until about as much is owed.
static void make_up(struct pages *pages, _Atomic size_t *sum, size_t bytes, size_t least)
{
	size_t dirty = pages_dirty_bytes(pages), owed = atomic_fetch_add_explicit(sum, bytes, memory_order_relaxed) + bytes;
	size_t rest = max_size(dirty - min_size(dirty, owed), 1); // 0 would be everything, spans of hooks as well
	size_t most = has_huge(pages) ? owed << LG_MAKE_UP_MOST : SIZE_MAX;

	if (pages_decay_ms(pages) >= 0 && purge_pieces(pages, rest, least, most))
		atomic_store_explicit(sum, 0, memory_order_relaxed);
}

void pages_make_up(struct pages *pages, size_t bytes)
{
	make_up(pages, &pages->owed_bytes, bytes, has_huge(pages) ? PIECE_LEAST : 0);
}

size_t pages_allowed_dirty(const struct pages *pages)
{
	return (pages_active_bytes(pages) >> LG_DIRTY_PROPORTION) + DIRTY_FLOOR;
}

static bool exceed_allowed(const struct pages *pages)
{
	return pages_dirty_bytes(pages) > pages_allowed_dirty(pages) && pages_decay_ms(pages) >= 0;
}

// `taken` bytes come into use that were not dirty. They are summed up: a run that is dirty but for a page takes a page, and
// what is purged is far more than that.
static __attribute__((noinline)) void keep_proportion(struct pages *pages, size_t taken)
{
	size_t allowed = pages_allowed_dirty(pages), dirty = pages_dirty_bytes(pages);
	size_t owed = atomic_fetch_add_explicit(&pages->owed_bytes, taken, memory_order_relaxed) + taken;

	if (owed < pages->runs.apart) // what vmem_take_dirty takes at least
		return;
	atomic_store_explicit(&pages->owed_bytes, 0, memory_order_relaxed);
	pages_purge(pages, max_size(allowed, dirty - min_size(dirty, owed)));
}

// Dirty runs that lie idle in a heap that grows were too small, and count at its new peak beside what it took. As many bytes go back, but beyond a fourth
// of what it took no more in a millisecond than take a fiftieth of it with the page faults for what is wanted again; of runs that may be torn out of huge
// pages those that are as large as one (docs/decisions/0064). Returns how many went.
static __attribute__((noinline)) size_t make_up_for_fresh(struct pages *pages, size_t taken)
{
	uint64_t now = os_clock_ms(), purged = atomic_load_explicit(&pages->purged_bytes, memory_order_relaxed);
	uint64_t at = atomic_load_explicit(&pages->made_up_at, memory_order_relaxed);
	int64_t ms = (int64_t)(now - at) < MADE_UP_MS ? (int64_t)(now - at) : MADE_UP_MS; // negative: more was given than that
	size_t owed = atomic_load_explicit(&pages->idle_bytes, memory_order_relaxed), share = taken >> LG_MADE_UP_SHARE, most;

	if ((ms <= 0 && share < PIECE_LEAST) || pages_dirty_bytes(pages) > pages_allowed_dirty(pages)) // nearly all is dirty: what is taken of the rest is no growth
		return 0;
	most = (ms > 0 ? (size_t)ms * MADE_UP_A_MS : 0) + share;
	make_up(pages, &pages->idle_bytes, min_size(taken, most - min_size(most, owed)), has_huge(pages) ? CHUNK_BYTES : PIECE_LEAST);
	purged = atomic_load_explicit(&pages->purged_bytes, memory_order_relaxed) - purged;
	if (purged > share)
		atomic_store_explicit(&pages->made_up_at, now - (uint64_t)ms + (purged - share) / MADE_UP_A_MS, memory_order_relaxed);
	return purged;
}

static __attribute__((noinline)) size_t resident_bytes(const struct pages *pages)
{
	return pages_active_bytes(pages) + pages_dirty_bytes(pages);
}

static bool is_peak(const struct pages *pages, size_t resident)
{
	size_t most = atomic_load_explicit(&pages->most_resident, memory_order_relaxed);

	return resident > most + (most >> LG_IDLE_PROPORTION);
}

// Under the lock the sums are exact: in between a run that is just being cut or joined is missing among the free ones.
static __attribute__((noinline)) void look_for_peak(struct pages *pages)
{
	size_t most = atomic_load_explicit(&pages->most_resident, memory_order_relaxed), resident;

	mutex_lock(&pages->runs.lock);
	resident = resident_bytes(pages);
	mutex_unlock(&pages->runs.lock);
	if (!is_peak(pages, resident))
		return;
	if (UNLIKELY(pages_dirty_bytes(pages) > (resident >> LG_IDLE_PROPORTION) + IDLE_FLOOR && extents_are_ours(&pages->extents)))
		resident -= min_size(resident, make_up_for_fresh(pages, resident - most));
	atomic_store_explicit(&pages->most_resident, max_size(most, resident), memory_order_relaxed);
}

static void note_taken(struct pages *pages, const struct vmem_piece *piece, size_t size)
{
	if (piece->start == 0 || piece->dirty >= size)
		return;
	if (exceed_allowed(pages))
		keep_proportion(pages, size - piece->dirty);
	else if (is_peak(pages, resident_bytes(pages)))
		look_for_peak(pages);
}

static uintptr_t begin(struct pages *pages, struct vmem_piece piece, size_t size, enum use use)
{
	note_taken(pages, &piece, size);
	if (piece.start != 0 && piece.kind == VMEM_CLEAN)
		huge_ask(pages, piece.start, size, use);
	return piece.start;
}

// The chunks that lie wholly between `filled` bytes and the end: the others have small pages in any case,
// but where the system gives huge ones unasked.
static void ask_for_rest(struct pages *pages, uintptr_t start, size_t filled, size_t size, enum use use)
{
	uintptr_t from = round_up(start + filled, CHUNK_BYTES), end = start + size;

	if (end > from && (end - from >= CHUNK_BYTES || options.thp == THP_NEVER))
		huge_ask(pages, from, end - from, use);
}

static bool is_zero(const struct pages *pages, enum vmem_kind kind)
{
	return kind == VMEM_CLEAN && extents_are_zero(&pages->extents);
}

static uintptr_t take(struct pages *pages, size_t size, size_t align, bool *zeroed, enum use use)
{
	struct vmem_piece piece = align <= os_page_size() ? vmem_segment_alloc(&pages->runs, size) :
							    vmem_segment_alloc_aligned(&pages->runs, size, align);

	if (zeroed != NULL)
		*zeroed = is_zero(pages, piece.kind);
	return begin(pages, piece, size, use);
}

uintptr_t pages_alloc_slab(struct pages *pages, size_t size, unsigned *lg_times)
{
	struct vmem_piece piece = vmem_segment_alloc_times(&pages->runs, size, lg_times);

	return begin(pages, piece, size << *lg_times, USE_SLAB);
}

uintptr_t pages_alloc(struct pages *pages, size_t size, size_t align, bool *zeroed)
{
	return take(pages, size, align, zeroed, USE_OBJECT);
}

uintptr_t pages_alloc_dense(struct pages *pages, size_t size, size_t align, bool *zeroed)
{
	return take(pages, size, align, zeroed, USE_SLAB);
}

uintptr_t pages_alloc_grown(struct pages *pages, size_t size, size_t moved, bool *zeroed)
{
	struct vmem_piece piece = vmem_segment_alloc(&pages->runs, size);

	*zeroed = is_zero(pages, piece.kind);
	note_taken(pages, &piece, size);
	if (piece.start != 0 && piece.kind == VMEM_CLEAN)
		ask_for_rest(pages, piece.start, moved, size, USE_GROWN);
	return piece.start;
}

bool pages_are_fresh(struct pages *pages, size_t size)
{
	return pages_dirty_bytes(pages) < size || vmem_expect_dirty(&pages->runs, size) < size;
}

bool pages_have_room(struct pages *pages, size_t size)
{
	return vmem_has_room(&pages->runs, size);
}

// The last run of a span that hooks gave goes back with it, and is not purged before.
static __attribute__((noinline)) bool free_with_span(struct pages *pages, uintptr_t start, size_t size)
{
	return !extents_are_ours(&pages->extents) && vmem_segment_free_last(&pages->runs, start, size);
}

void pages_free(struct pages *pages, uintptr_t start, size_t size)
{
	bool at_once = pages_decay_ms(pages) == 0;

	if (UNLIKELY(at_once) && free_with_span(pages, start, size))
		return;
	bool known = vmem_segment_free(&pages->runs, start, size, VMEM_DIRTY);

	ALWAYS(known);
	if (UNLIKELY(at_once))
		purge_pieces(pages, 0, 0, SIZE_MAX);
}

void pages_free_clean(struct pages *pages, uintptr_t start, size_t size)
{
	bool known = vmem_segment_free(&pages->runs, start, size, VMEM_CLEAN);

	ALWAYS(known);
}

bool pages_extend(struct pages *pages, uintptr_t start, size_t size, size_t new_size, bool *zeroed)
{
	struct vmem_piece piece = vmem_extend(&pages->runs, start, size, new_size);

	note_taken(pages, &piece, new_size - size);
	if (piece.start != 0)
		ask_for_rest(pages, start, size, new_size, piece.kind == VMEM_CLEAN ? USE_GROWN : USE_EXTENDED);
	*zeroed = is_zero(pages, piece.kind);
	return piece.start != 0;
}

bool pages_shrink(struct pages *pages, uintptr_t start, size_t size, size_t new_size)
{
	bool done = vmem_shrink(&pages->runs, start, size, new_size);

	if (done && pages_decay_ms(pages) == 0)
		purge_pieces(pages, 0, 0, SIZE_MAX);
	return done;
}

// What the backlog allows: a falling part of what each step brought, 15/16 of the newest.
static size_t backlog_limit(const struct pages *pages)
{
	size_t limit = 0;

	for (size_t i = 0; i < DECAY_STEPS; i++)
		limit += pages->backlog[i] / DECAY_STEPS * (DECAY_STEPS - 1 - i);
	return limit;
}

static void backlog_step(struct pages *pages, uint64_t steps)
{
	size_t dirty = pages_dirty_bytes(pages);
	size_t fresh = dirty > pages->dirty_before ? dirty - pages->dirty_before : 0;

	if (steps > DECAY_STEPS)
		steps = DECAY_STEPS;
	memmove(pages->backlog + steps, pages->backlog, (DECAY_STEPS - steps) * sizeof pages->backlog[0]);
	memset(pages->backlog, 0, steps * sizeof pages->backlog[0]);
	pages->backlog[0] = fresh;
}

// What the heap will have grown into before the next step if it goes on as since the last one: the rest of its newest huge page, a chunk at most.
// Given back it would be taken again at once, page by page.
static size_t growth(struct pages *pages, uint64_t steps)
{
	size_t active = pages_active_bytes(pages), before = pages->active_before;

	pages->active_before = active;
	return active > before ? min_size((active - before) / steps, CHUNK_BYTES) : 0;
}

static uint64_t step_ms(ssize_t decay_ms)
{
	return max_size((size_t)decay_ms / DECAY_STEPS, 1);
}

bool pages_decay_is_due(const struct pages *pages, uint64_t now_ms)
{
	uint64_t past = now_ms - atomic_load_explicit(&pages->step_at, memory_order_relaxed);
	ssize_t decay_ms = pages_decay_ms(pages);

	return decay_ms >= 0 && (int64_t)past >= (int64_t)step_ms(decay_ms);
}

// Of the time now, that of a step is read once: it may be set by another thread meanwhile. False: it is not due.
static bool take_step(struct pages *pages, uint64_t now_ms, uint64_t *steps)
{
	ssize_t decay_ms = pages_decay_ms(pages);
	uint64_t past = now_ms - atomic_load_explicit(&pages->step_at, memory_order_relaxed), step = step_ms(decay_ms);

	if (decay_ms < 0 || (int64_t)past < (int64_t)step)
		return false;
	*steps = past / step;
	atomic_store_explicit(&pages->step_at, now_ms - past % step, memory_order_relaxed); // the rest counts for the next
	return true;
}

COLD void pages_decay(struct pages *pages, uint64_t now_ms)
{
	uint64_t steps;

	if (!pages_decay_is_due(pages, now_ms) || atomic_exchange_explicit(&pages->decaying, true, memory_order_acquire))
		return;
	if (take_step(pages, now_ms, &steps)) { // nobody else took it meanwhile
		backlog_step(pages, steps);
		pages_purge(pages, max_size(backlog_limit(pages), growth(pages, steps)));
		pages->dirty_before = pages_dirty_bytes(pages);
		atomic_store_explicit(&pages->refused_bytes, min_size(atomic_load_explicit(&pages->refused_bytes, memory_order_relaxed), pages->dirty_before),
				      memory_order_relaxed);
	}
	atomic_store_explicit(&pages->decaying, false, memory_order_release);
}

void pages_reset(struct pages *pages, struct pages *heir)
{
	vmem_return_spans(&pages->runs);
	extents_destroy(&pages->extents, heir == NULL ? NULL : &heir->extents);
	atomic_store(&pages->dirty_decay_ms, DECAY_BY_OPTION);
	atomic_store(&pages->has_huge, false);
	memset(pages->backlog, 0, sizeof pages->backlog);
	pages->dirty_before = pages->active_before = 0;
	atomic_store(&pages->most_resident, 0);
	atomic_store(&pages->idle_bytes, 0);
	atomic_store(&pages->made_up_at, 0);
	atomic_store(&pages->refused_bytes, 0);
}
