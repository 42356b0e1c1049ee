// Bin: filling magazines from slabs and draining them back.
// SPDX-License-Identifier: BSD-2-Clause
#include "slab/bin.h"

#include <string.h>

#include "base/base.h"
#include "guard/log.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "util/assert.h"

enum {
	LG_SLABS_A_DOUBLING = 5, // a slab is at most a 32nd of what its bin has, or as small as can be
	NEIGHBOURS = 8,          // buffers that fill a cache line at least, whose bits are a byte of the bitmap
	STRETCH = 8,             // buffers side by side that are taken as one
	FEW = 64,                // buffers at most that are taken apart from one another,
	LINES_APART = 2,         // cache lines
};

void bin_init(struct bin *bin, struct slab_shape shape, struct pages *pages, uint16_t arena, uint16_t word)
{
	ASSERT(pages == NULL || shape.slab_bytes / os_page_size() <= 32); // a bit each (struct run, given)
	memset(bin, 0, sizeof *bin);
	bin->shape = shape;
	bin->pages = pages;
	bin->arena = arena;
	bin->word = word;
	mutex_init(&bin->lock, RANK_BIN);
}

void bin_init_from(struct bin *bin, struct slab_shape shape, const struct slab_source *source)
{
	bin_init(bin, shape, NULL, 0, 0);
	bin->source = source;
}

static size_t bitmap_words(const struct bin *bin, const struct slab *slab)
{
	return ((size_t)slab_buffers(slab, &bin->shape) + 63) / 64;
}

// The heap's node and the run are the first members of a slab.
static struct slab *slab_of_node(struct heap_node *node)
{
	return (struct slab *)(void *)node;
}

// How many slabs of the bin's shape one is.
static size_t times(const struct slab *slab)
{
	return (size_t)1 << slab->run.lg_times;
}

static __attribute__((noinline)) void become_partial(struct bin *bin, struct slab *slab)
{
	heap_insert(&bin->partial, &slab->run.node);
	bin->partial_slabs += times(slab);
}

static __attribute__((noinline)) void leave_partial(struct bin *bin, struct slab *slab)
{
	heap_remove(&bin->partial, &slab->run.node);
	bin->partial_slabs -= times(slab);
}

static inline bool lies_in(const struct slab *slab, const struct slab_shape *shape, const void *address)
{
	return (uintptr_t)address - run_start(&slab->run) < slab_bytes(slab, shape);
}

// Buffers come into use: their pages will be resident again.
static __attribute__((noinline)) void pages_come_back(struct slab *slab, size_t size, void *const *buffers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uintptr_t offset = (uintptr_t)buffers[i] - run_start(&slab->run);
		size_t from = offset / os_page_size(), to = (offset + size - 1) / os_page_size();

		slab->run.given &= ~(uint32_t)((2ull << to) - (1ull << from));
	}
}

// Takes up to `count` of the buffers of one word of the bitmap, those of the bits from `from` to `to`, which are all it has. The first of the word lies at `first`.
// The processor fetches them as they are used.
static inline size_t take_stretch(uint64_t *word, unsigned from, unsigned to, uintptr_t first, size_t size, void **end, size_t count)
{
	uintptr_t buffer = first + from * size;
	size_t got = 0;

	count = min_size(count, to - from);
#pragma GCC unroll 4
	for (; got < count; buffer += size)
		end[-(ptrdiff_t)++got] = (void *)buffer;
	*word = got == to - from ? 0 : *word >> (from + got) << (from + got);
	return got;
}

// The same of any bits. Where many free ones lie side by side, as in a slab that was not used yet, their addresses are counted up and not looked for bit by
// bit. Others, which nobody has touched lately, are on their way to the cache before the program writes to them. Returns how many.
static inline size_t take_of_word(uint64_t *word, uintptr_t first, size_t size, void **end, size_t count)
{
	uint64_t bits = *word, behind = bits + (bits & -bits);
	unsigned from = bits == 0 ? 0 : first_bit(bits), to = behind == 0 ? 64 : first_bit(behind);
	size_t got = 0;

	if ((bits & behind) == 0 && bits != 0 && to - from >= STRETCH)
		return take_stretch(word, from, to, first, size, end, count);
	for (; bits != 0 && got < count; bits &= bits - 1) {
		end[-(ptrdiff_t)++got] = (void *)(first + first_bit(bits) * size);
		__builtin_prefetch(end[-(ptrdiff_t)got], 1);
	}
	*word = bits;
	return got;
}

// Takes `count` buffers, at least one and no more than are free, written downwards from `end`; returns where the last one stands. Of each two cache lines, or
// 96 bytes where buffers have 48, one comes before the next of these lines: first of the lowest 4 KiB, or 3, that have any free, then of what follows. Where
// AVX-512 is, glibc's memset of 12 bytes is one masked store, and what is read of the 64 bytes that it could have written, the next buffers among them, must
// wait for it (docs/decisions/0059). Not seldom, but compiled for size, for every process has these pages.
static COLD __attribute__((noinline)) void **take_apart(struct slab *slab, const struct slab_shape *shape, void **end, size_t count)
{
	unsigned stride = LINES_APART * CACHE_LINE / (unsigned)shape->size;
	uint64_t one_of_stride = UINT64_MAX / ((1ull << stride) - 1);
	uint32_t together = stride / 2; // words of the bitmap: 1, 2, 4 or 8. A slab of pages has whole such groups
	uint32_t word = slab->run.first_word;

	for (;; word += together) {
		while (slab->bitmap[word] == 0)
			word++;
		word &= -together;
		for (unsigned first = 0; first < stride; first++)
			for (uint32_t i = word; i < word + together; i++)
				for (uint64_t bits = slab->bitmap[i] & one_of_stride << first; bits != 0; bits &= bits - 1) {
					slab->bitmap[i] ^= bits & -bits;
					*--end = slab_buffer(slab, shape, i * 64 + first_bit(bits));
					if (--count == 0) {
						slab->run.first_word = word;
						return end;
					}
				}
	}
}

// Takes up to `count` buffers, written downwards from `end`: in address order of the lowest words of the bitmap, or apart. Returns how many.
static size_t slab_take(struct slab *slab, const struct slab_shape *shape, void **end, size_t count, bool apart)
{
	size_t word = slab->run.first_word, left = min_size(count, slab->run.free_count);

	COUNT_LINES(slab, sizeof *slab);
	slab->run.free_count -= (uint32_t)left;
	slab->run.taken = true;
	count = left;
	if (apart)
		end = take_apart(slab, shape, end, count);
	for (; !apart && left > 0; word++) {
		size_t got = take_of_word(&slab->bitmap[word], run_start(&slab->run) + word * 64 * shape->size, shape->size, end, left);

		end -= got;
		left -= got;
		slab->run.first_word = (uint32_t)word;
	}
	if (UNLIKELY(slab->run.given != 0))
		pages_come_back(slab, shape->size, end, count);
	return count;
}

// The slab that serves next. NULL: there is none.
static struct slab *serving(struct bin *bin)
{
	struct slab *slab = bin->partial == NULL ? bin->empty : slab_of_node(bin->partial);

	if (slab != NULL && slab == bin->empty) {
		bin->empty = NULL;
		become_partial(bin, slab);
	}
	return slab;
}

static void note_taken(struct bin *bin, struct slab *slab)
{
	if (slab->run.free_count == 0) {
		leave_partial(bin, slab);
		bin->slabs_used_up += times(slab);
	}
}

static void note_filled(struct bin *bin, size_t got)
{
	bin->free_buffers -= got;
	bin->filled += got;
	bin->fills += got > 0;
}

static __attribute__((noinline)) size_t fill(struct bin *bin, void **rounds, size_t count, bool apart)
{
	size_t got = 0;

	mutex_lock(&bin->lock);
	COUNT_LINES(bin, sizeof *bin);
	while (got < count) {
		struct slab *slab = serving(bin);

		if (slab == NULL)
			break;
		got += slab_take(slab, &bin->shape, rounds + count - got, count - got, apart);
		note_taken(bin, slab);
	}
	note_filled(bin, got);
	mutex_unlock(&bin->lock);
	return got;
}

size_t bin_fill(struct bin *bin, void **rounds, size_t count)
{
	return fill(bin, rounds, count, false);
}

size_t bin_fill_apart(struct bin *bin, void **rounds, size_t count)
{
	return fill(bin, rounds, count, bin->shape.size <= CACHE_LINE && count <= FEW);
}

// The bits of the neighbours of a buffer, itself among them. 0: it is not one of the slab's.
static uint64_t neighbours(const struct slab *slab, const struct slab_shape *shape, const void *buffer)
{
	long index = lies_in(slab, shape, buffer) ? slab_index(slab, shape, buffer) : -1;

	return index < 0 ? 0 : (uint64_t)0xff << (index & 63 & -NEIGHBOURS);
}

// The lowest bit of the first eight neighbours that are all set, 0: there are none.
static uint64_t eight_free(uint64_t bits)
{
	uint64_t used = ~bits, ones = 0x0101010101010101u;

	bits = (used - ones) & ~used & ones << 7;
	return (bits & -bits) >> 7;
}

// Clears the bit of the chosen buffer, of a slab that has a free one, and returns its number.
static size_t choose(struct slab *slab, const struct slab_shape *shape, const void *near)
{
	uint64_t around = neighbours(slab, shape, near), bit = 0;
	size_t words = ((size_t)slab_buffers(slab, shape) + 63) / 64, word = 0;

	if (around != 0) {
		word = (size_t)slab_index(slab, shape, near) / 64;
		bit = slab->bitmap[word] & around;
	}
	for (size_t i = slab->run.first_word; bit == 0 && i < words; i++)
		bit = eight_free(slab->bitmap[word = i]);
	for (size_t i = slab->run.first_word; bit == 0; i++)
		bit = slab->bitmap[word = i];
	bit &= -bit;
	slab->bitmap[word] &= ~bit;
	return word * 64 + first_bit(bit);
}

void *bin_take(struct bin *bin, const void *near)
{
	struct slab *slab;
	void *buffer = NULL;

	mutex_lock(&bin->lock);
	slab = serving(bin);
	if (slab != NULL) {
		buffer = slab_buffer(slab, &bin->shape, choose(slab, &bin->shape, near));
		slab->run.free_count--;
		slab->run.taken = true;
		if (UNLIKELY(slab->run.given != 0))
			pages_come_back(slab, bin->shape.size, &buffer, 1);
		note_taken(bin, slab);
		note_filled(bin, 1);
	}
	mutex_unlock(&bin->lock);
	return buffer;
}

void slab_init(struct slab *slab, struct bin *bin, uintptr_t start, unsigned lg_times)
{
	size_t words;

	memset(slab, 0, sizeof *slab);
	slab->run.lg_times = (uint8_t)lg_times;
	slab->run.node.key = start;
	slab->run.arena = bin->arena;
	slab->run.free_count = slab_buffers(slab, &bin->shape);
	words = bitmap_words(bin, slab);
	memset(slab->bitmap, 0xff, words * sizeof slab->bitmap[0]);
	if (slab->run.free_count % 64 != 0)
		slab->bitmap[words - 1] = (1ull << slab->run.free_count % 64) - 1;
	if (bin->shape.noted)
		memset(slab_notes(slab, &bin->shape), 0, bin->shape.buffers * sizeof(uint32_t));
	__atomic_store_n(&slab->run.bin, bin, __ATOMIC_RELEASE); // last: who still has the header of a slab that was here before looks at this first
}

// A slab may be a part of what the bin has, so that what is unused of it does not matter.
static unsigned lg_times_wanted(const struct bin *bin)
{
	size_t slabs = __atomic_load_n(&bin->slabs, __ATOMIC_RELAXED) >> LG_SLABS_A_DOUBLING;
	unsigned lg = 0;

	while (!bin->shape.noted && slabs >> (lg + 1) > 0 && bin->shape.slab_bytes << (lg + 1) <= LARGEST_SLAB)
		lg++;
	return lg;
}

static struct slab *slab_create(struct bin *bin)
{
	unsigned lg_times = lg_times_wanted(bin);
	struct slab *slab;
	uintptr_t start;

	if (bin->source != NULL)
		return bin->source->create(bin);
	start = pages_alloc_slab(bin->pages, bin->shape.slab_bytes, &lg_times);
	if (start == 0)
		return NULL;
	slab = base_alloc(slab_header_bytes(&bin->shape, lg_times));
	if (slab == NULL) {
		pages_free(bin->pages, start, bin->shape.slab_bytes << lg_times);
		return NULL;
	}
	slab_init(slab, bin, start, lg_times);
	if (!page_map_set(start, slab_bytes(slab, &bin->shape), bin->word, &slab->run)) {
		pages_free(bin->pages, start, slab_bytes(slab, &bin->shape));
		base_free(slab, slab_header_bytes(&bin->shape, lg_times));
		return NULL;
	}
	return slab;
}

static void slab_destroy(struct bin *bin, struct slab *slab)
{
	uintptr_t start = run_start(&slab->run);
	size_t bytes = slab_bytes(slab, &bin->shape);

	if (UNLIKELY(guard_logs_slabs))
		guard_log_slab(EVENT_SLAB_DESTROYED, start, bytes, bin->shape.size);
	if (bin->source != NULL) {
		bin->source->destroy(bin, slab);
		return;
	}
	base_free(slab, slab_header_bytes(&bin->shape, slab->run.lg_times));
	pages_free(bin->pages, start, bytes);
}

bool bin_grow(struct bin *bin)
{
	struct slab *slab = slab_create(bin);

	if (slab == NULL)
		return false;
	if (UNLIKELY(guard_logs_slabs))
		guard_log_slab(EVENT_SLAB_MADE, run_start(&slab->run), slab_bytes(slab, &bin->shape), bin->shape.size);
	mutex_lock(&bin->lock);
	become_partial(bin, slab);
	bin->slabs += times(slab);
	bin->slabs_made += times(slab);
	if (bin->slabs > bin->slabs_most)
		bin->slabs_most = bin->slabs;
	bin->free_buffers += slab_buffers(slab, &bin->shape);
	if (bin->source != NULL)
		bin->source->join(bin, slab);
	mutex_unlock(&bin->lock);
	return true;
}

// Under the lock, so that who has it and looks an address up (slab/holes.c) finds no header that is about to become something else's.
static void leave_page_map(const struct bin *bin, const struct slab *slab)
{
	if (bin->source == NULL)
		page_map_clear(run_start(&slab->run), slab_bytes(slab, &bin->shape));
}

static void slab_leaves(struct bin *bin, struct slab *slab)
{
	bin->slabs -= times(slab);
	bin->free_buffers -= slab_buffers(slab, &bin->shape);
	if (bin->source != NULL)
		bin->source->leave(bin, slab);
}

// The slab has become empty. Returns the one to destroy: the higher of two, so that the heap shrinks from above.
static struct slab *keep_one_empty(struct bin *bin, struct slab *slab)
{
	struct slab *other = bin->empty;

	leave_partial(bin, slab);
	if (other != NULL && run_start(&other->run) < run_start(&slab->run)) {
		struct slab *swap = slab;
		slab = other;
		other = swap;
	}
	bin->empty = slab;
	if (other != NULL)
		slab_leaves(bin, other);
	return other;
}

// The slab has no used buffer left: it is kept, or chained to be destroyed once the lock is dropped.
static void slab_emptied(struct bin *bin, struct slab *slab, struct heap_node **emptied)
{
	struct slab *excess = keep_one_empty(bin, slab);

	if (excess != NULL) {
		excess->run.node.next = *emptied;
		*emptied = &excess->run.node;
	}
}

// Sets the buffer's bit; the caller counts it.
static inline enum bin_finding set_bit(struct slab *slab, long index)
{
	uint64_t *word, bit = 1ull << (index & 63);

	if (UNLIKELY(index < 0))
		return BIN_NOT_A_START;
	word = &slab->bitmap[(size_t)index / 64];
	if (UNLIKELY((*word & bit) != 0))
		return BIN_FREE_ALREADY;
	*word |= bit;
	return BIN_OK;
}

static inline uint32_t lower(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline enum bin_finding set_free(struct bin *bin, struct slab *slab, long index, struct heap_node **emptied)
{
	enum bin_finding finding = set_bit(slab, index);
	uint32_t free_count = slab->run.free_count;

	if (UNLIKELY(finding != BIN_OK))
		return finding;
	slab->run.first_word = lower(slab->run.first_word, (uint32_t)index / 64);
	slab->run.free_count = free_count + 1;
	if (UNLIKELY(free_count == 0))
		become_partial(bin, slab);
	if (UNLIKELY(free_count + 1 == slab_buffers(slab, &bin->shape)))
		slab_emptied(bin, slab, emptied);
	return BIN_OK;
}

// How many of the rounds, from the first on, lie one buffer apart, upwards or downwards (`apart` bytes), of `most` that may.
static inline size_t side_by_side(void *const *rounds, size_t most, uintptr_t apart)
{
	uintptr_t expected = (uintptr_t)rounds[0] + apart;
	size_t count = 1;

	for (; count < most && (uintptr_t)rounds[count] == expected; count++)
		expected += apart;
	return count;
}

// Sets the bits of the buffers from the first round on that lie side by side and in one word of the bitmap, or that of the first: what was
// allocated one after the other is often freed so. Returns how many; 0: the first is no live buffer. `index`: its number, or −1.
static inline size_t set_bits(struct slab *slab, const struct slab_shape *shape, long index, void *const *rounds, size_t count)
{
	uintptr_t apart = count > 1 ? (uintptr_t)rounds[1] - (uintptr_t)rounds[0] : 0;
	bool down = apart == -shape->size;

	if (index < 0 || (apart != shape->size && !down))
		return set_bit(slab, index) == BIN_OK;
	unsigned bit = index & 63;
	size_t room = down ? bit + 1 : min_size(64 - bit, slab_buffers(slab, shape) - (size_t)index);
	size_t together = side_by_side(rounds, min_size(count, room), apart);
	uint64_t *word = &slab->bitmap[index / 64], bits = ~0ull >> (64 - together) << (down ? bit + 1 - together : bit);

	if (UNLIKELY((*word & bits) != 0))
		return set_bit(slab, index) == BIN_OK;
	*word |= bits;
	return together;
}

// Puts back those of the rounds, from the first on, that lie in a slab which has free buffers already. Returns how many;
// stops as well at what is no live buffer.
static __attribute__((noinline)) size_t put_back_more(struct bin *bin, struct slab *slab, void *const *rounds, size_t count,
						      struct heap_node **emptied)
{
	uint32_t least = slab->run.first_word;
	size_t done = 0, set;

	for (; done < count && lies_in(slab, &bin->shape, rounds[done]); done += set) {
		long index = slab_index(slab, &bin->shape, rounds[done]);

		set = set_bits(slab, &bin->shape, index, rounds + done, count - done);
		if (UNLIKELY(set == 0))
			break;
		least = lower(least, (uint32_t)index / 64);
	}
	slab->run.first_word = least;
	slab->run.free_count += (uint32_t)done;
	if (done > 0 && slab->run.free_count == slab_buffers(slab, &bin->shape))
		slab_emptied(bin, slab, emptied);
	return done;
}

// Up to the first round that is no live buffer of the bin's slabs, or NULL. `*done`: how many came before it.
static enum bin_finding put_back(struct bin *bin, void *const *rounds, size_t count, size_t *done, struct heap_node **emptied)
{
	enum bin_finding finding = BIN_OK;
	size_t i = 0;

	while (i < count) {
		// A bin without a word of its own holds magazines, which come from nobody but us.
		if (UNLIKELY(page_map_word(rounds[i]) != bin->word)) {
			finding = BIN_NOT_HERE;
			break;
		}
		struct slab *slab = (struct slab *)(void *)page_map_known_run(rounds[i]);

		COUNT_LINES(slab, sizeof *slab);
		finding = set_free(bin, slab, slab_index(slab, &bin->shape, rounds[i]), emptied);
		if (UNLIKELY(finding != BIN_OK))
			break;
		if (++i < count && lies_in(slab, &bin->shape, rounds[i]))
			i += put_back_more(bin, slab, rounds + i, count - i, emptied);
	}
	*done = i;
	return finding;
}

static __attribute__((noinline)) enum bin_finding put_back_to_source(struct bin *bin, void *const *rounds, size_t count, size_t *done, struct heap_node **emptied)
{
	enum bin_finding finding = BIN_OK;

	for (*done = 0; *done < count && finding == BIN_OK; *done += finding == BIN_OK) {
		long index;
		struct slab *slab = bin->source->find(bin, rounds[*done], &index);

		finding = slab == NULL ? BIN_NOT_HERE : set_free(bin, slab, index, emptied);
	}
	return finding;
}

enum bin_finding bin_probe(struct bin *bin, const void *address)
{
	enum bin_finding finding = BIN_OK;
	struct slab *slab;
	long index;

	mutex_lock(&bin->lock);
	slab = bin->source->find(bin, address, &index);
	if (slab == NULL)
		finding = BIN_NOT_HERE;
	else if (index < 0)
		finding = BIN_NOT_A_START;
	else if (slab->bitmap[index / 64] >> index % 64 & 1)
		finding = BIN_FREE_ALREADY;
	mutex_unlock(&bin->lock);
	return finding;
}

static __attribute__((noinline)) void unlock_and_destroy(struct bin *bin, struct heap_node *emptied)
{
	for (struct heap_node *node = emptied; node != NULL; node = node->next)
		leave_page_map(bin, slab_of_node(node));
	mutex_unlock(&bin->lock);
	while (emptied != NULL) {
		struct slab *slab = slab_of_node(emptied);

		emptied = emptied->next;
		slab_destroy(bin, slab);
	}
}

enum bin_finding bin_drain(struct bin *bin, void *const *rounds, size_t count, size_t *done)
{
	struct heap_node *emptied = NULL;
	enum bin_finding finding;
	size_t put = 0, nulls = 0, step;

	mutex_lock(&bin->lock);
	COUNT_LINES(bin, sizeof *bin);
	for (;;) {
		size_t from = put + nulls;

		finding = bin->source == NULL ? put_back(bin, rounds + from, count - from, &step, &emptied) :
						put_back_to_source(bin, rounds + from, count - from, &step, &emptied);
		put += step;
		if (LIKELY(finding == BIN_OK) || rounds[put + nulls] != NULL)
			break;
		nulls++;
	}
	bin->free_buffers += put;
	bin->drained += put;
	bin->drains += put > 0;
	if (LIKELY(emptied == NULL))
		mutex_unlock(&bin->lock);
	else
		unlock_and_destroy(bin, emptied);
	*done = put + nulls;
	return finding;
}

COLD void bin_trim(struct bin *bin, bool always)
{
	struct slab *slab;

	if (__atomic_load_n(&bin->empty, __ATOMIC_RELAXED) == NULL)
		return;
	mutex_lock(&bin->lock);
	slab = always || bin->filled == bin->filled_at_trim ? bin->empty : NULL;
	bin->filled_at_trim = bin->filled;
	if (slab != NULL) {
		bin->empty = NULL;
		slab_leaves(bin, slab);
		leave_page_map(bin, slab);
	}
	mutex_unlock(&bin->lock);
	if (slab != NULL)
		slab_destroy(bin, slab);
}

void bin_forget(struct bin *bin)
{
	mutex_lock(&bin->lock);
	bin->partial = NULL;
	bin->empty = NULL;
	bin->slabs = bin->free_buffers = bin->partial_slabs = 0;
	bin->drained = bin->filled;
	mutex_unlock(&bin->lock);
}

static void check_slab(struct bin *bin, const struct slab *slab)
{
	size_t free_count = 0;

	for (size_t word = 0; word < bitmap_words(bin, slab); word++) {
		free_count += (size_t)__builtin_popcountl(slab->bitmap[word]);
		ALWAYS(word >= slab->run.first_word || slab->bitmap[word] == 0);
	}
	ALWAYS(free_count == slab->run.free_count && slab->run.bin == bin);
	ALWAYS(bin->source != NULL || page_map_run((void *)run_start(&slab->run)) == &slab->run);
}

static size_t check_nodes(struct bin *bin, const struct heap_node *node, uintptr_t least, size_t *slabs)
{
	size_t free_buffers = 0;

	for (; node != NULL; node = node->next) {
		const struct slab *slab = (const struct slab *)(const void *)node;

		ALWAYS(node->key >= least);
		check_slab(bin, slab);
		ALWAYS(slab->run.free_count > 0);
		*slabs += times(slab);
		free_buffers += slab->run.free_count + check_nodes(bin, node->child, node->key, slabs);
	}
	return free_buffers;
}

void bin_check(struct bin *bin)
{
	mutex_lock(&bin->lock);
	size_t partial = 0, free_buffers = check_nodes(bin, bin->partial, 0, &partial);

	if (bin->empty != NULL) {
		check_slab(bin, bin->empty);
		ALWAYS(bin->empty->run.free_count == slab_buffers(bin->empty, &bin->shape));
		free_buffers += bin->empty->run.free_count;
	}
	ALWAYS(free_buffers == bin->free_buffers && partial == bin->partial_slabs);
	mutex_unlock(&bin->lock);
}
