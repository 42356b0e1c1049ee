// Holes: finding them in a slab's bitmap, and giving them back.
// SPDX-License-Identifier: BSD-2-Clause
#include "slab/holes.h"

#include "os/pages.h"
#include "pages/page_map.h"
#include "util/assert.h"

enum { LG_HOLES_PROPORTION = 3, HOLES_FLOOR = 128 * 1024, ROUNDS = 64 };

bool bin_begin_walk(struct bin *bin)
{
	uint64_t fills = __atomic_load_n(&bin->fills, __ATOMIC_RELAXED);

	bin->rests = fills == bin->fills_at_walk;
	bin->fills_at_walk = fills;
	return !bin->rests && bin->free_buffers * bin->shape.size >= os_page_size();
}

bool bin_has_holes(const struct bin *bin, bool always)
{
	size_t in_use = (bin->slabs * bin->shape.slab_bytes >> LG_HOLES_PROPORTION) + HOLES_FLOOR;

	return bin->free_buffers * bin->shape.size > (always || bin->rests ? 0 : in_use);
}

// Buffers of a slab: [first, end).
struct buffers {
	size_t first, end;
};

static bool all_free(const struct slab *slab, struct buffers buffers)
{
	for (size_t i = buffers.first; i < buffers.end; i++)
		if (!(slab->bitmap[i / 64] >> i % 64 & 1))
			return false;
	return true;
}

// That lie on a page, or partly on it.
static struct buffers buffers_on(const struct slab *slab, const struct slab_shape *shape, size_t first_page, size_t end_page)
{
	size_t page = os_page_size();

	return (struct buffers){ first_page * page / shape->size,
				 min_size((end_page * page - 1) / shape->size + 1, slab_buffers(slab, shape)) };
}

// A bit for each page that could be given back.
static uint32_t holes_of(const struct slab *slab, const struct slab_shape *shape)
{
	size_t pages = slab_bytes(slab, shape) / os_page_size();
	uint32_t holes = 0;

	for (size_t page = 0; page < pages; page++)
		if (!(slab->run.given >> page & 1) && all_free(slab, buffers_on(slab, shape, page, page + 1)))
			holes |= 1u << page;
	return holes;
}

// The slab that begins there, if it is partial. Under the bin's lock, so that none of its slabs leaves the page map; one that is being made has all its
// buffers free.
static struct slab *partial_slab(const struct bin *bin, uintptr_t start)
{
	struct run *run = page_map_run((void *)start);
	struct slab *slab = (struct slab *)(void *)run;

	if (page_map_word((void *)start) != bin->word || run == NULL || __atomic_load_n(&run->bin, __ATOMIC_ACQUIRE) != bin || run_start(run) != start ||
	    run->free_count == 0 || run->free_count == slab_buffers(slab, &bin->shape))
		return NULL;
	return slab;
}

static void take_out(struct bin *bin, struct slab *slab, struct buffers buffers)
{
	size_t count = buffers.end - buffers.first;

	for (size_t i = buffers.first; i < buffers.end; i++)
		slab->bitmap[i / 64] &= ~(1ull << i % 64);
	slab->run.free_count -= (uint32_t)count;
	bin->free_buffers -= count;
	bin->filled += count;
	if (slab->run.free_count == 0) {
		heap_remove(&bin->partial, &slab->run.node);
		bin->partial_slabs -= (size_t)1 << slab->run.lg_times;
	}
}

static void put_back(struct bin *bin, uintptr_t start, struct buffers buffers)
{
	void *rounds[ROUNDS];
	size_t done;

	while (buffers.first < buffers.end) {
		size_t count = min_size(ROUNDS, buffers.end - buffers.first);

		for (size_t i = 0; i < count; i++)
			rounds[i] = (void *)(start + (buffers.first + i) * bin->shape.size);
		ALWAYS(bin_drain(bin, rounds, count, &done) == BIN_OK);
		buffers.first += count;
	}
}

// Takes the `*buffers` of the slab's lowest holes out, [*page, *end) of its pages. Returns false when there are none.
static bool take_holes(struct bin *bin, uintptr_t start, bool always, size_t *page, size_t *end, struct buffers *buffers,
		       bool *later)
{
	struct slab *slab;
	uint32_t holes = 0;

	mutex_lock(&bin->lock);
	slab = partial_slab(bin, start);
	if (slab != NULL)
		holes = holes_of(slab, &bin->shape);
	if (holes != 0 && slab->run.taken && !always) {
		slab->run.taken = false;
		*later = true;
		holes = 0;
	}
	if (holes != 0) {
		*page = first_bit(holes);
		*end = *page + first_bit(~((uint64_t)holes >> *page));
		slab->run.given |= (uint32_t)((1ull << *end) - (1ull << *page));
		*buffers = buffers_on(slab, &bin->shape, *page, *end);
		take_out(bin, slab, *buffers);
	}
	mutex_unlock(&bin->lock);
	return holes != 0;
}

size_t bin_give_holes(struct bin *bin, uintptr_t start, bool always, bool *later)
{
	size_t given = 0, page, end, page_bytes = os_page_size();
	struct buffers buffers;

	while (take_holes(bin, start, always, &page, &end, &buffers, later)) {
		size_t bytes = (end - page) * page_bytes;

		if (pages_give(bin->pages, start + page * page_bytes, bytes))
			given += bytes;
		put_back(bin, start, buffers);
	}
	return given;
}
