// Reports on caches and arenas: umastat, umem_cache, vmem.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "ctl/figures.h"
#include "ctl/stats.h"
#include "heap/debug.h"
#include "heap/front.h"
#include "heap/fronts.h"
#include "heap/heap.h"
#include "umem/cache.h"
#include "umem/report.h"

// A row of umastat.
struct row {
	const char *name;
	size_t size, in_use, total, memory;
	uint64_t allocs, failures;
	bool counts; // allocations one by one, failures too
};

static void write_row(struct out *out, const struct row *row)
{
	if (!out->json) {
		out_add(out, "%-31s %8zu %10zu %10zu %12zu %12lu %8lu\n", row->name, row->size, row->in_use, row->total, row->memory,
			(unsigned long)row->allocs, (unsigned long)row->failures);
		return;
	}
	out_open(out, NULL, '{');
	out_string(out, "name", row->name);
	out_number(out, "buffer_bytes", row->size);
	out_number(out, "in_use", row->in_use);
	out_number(out, "buffers", row->total);
	out_number(out, "memory_bytes", row->memory);
	out_number(out, "allocs", row->allocs);
	out_number(out, "failures", row->failures);
	out_close(out, '}');
}

// malloc's classes, summed over arenas. What magazines hold is not in use; other threads' are estimated.
static void write_class(struct out *out, unsigned class, size_t cached)
{
	struct row row = { .size = class_size(class) };
	struct bin_figures figures = { 0 };
	char name[32];

	text_print(name, sizeof name, "umem_alloc_%zu", row.size);
	row.name = name;
	for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;)
		figures_add_slabs(&figures, arena, class);
	row.total = figures.curregs + figures.free_buffers;
	row.in_use = figures.curregs - min_size(figures.curregs, cached);
	row.memory = figures.slab_bytes;
	row.allocs = figures.nmalloc;
	if (row.total > 0)
		write_row(out, &row);
}

static void write_heap(struct out *out)
{
	size_t rounds[CLASSES];
	struct stats stats = stats_snapshot();

	fronts_and_depots_count(rounds);
	for (unsigned class = 1; class < SLAB_CLASSES; class++)
		write_class(out, class, rounds[class]);
	write_row(out, &(struct row){ .name = "umem_oversize", .memory = stats.large });
}

static void write_guarded(struct out *out)
{
	for (struct guard_cache *cache = guard_caches(); cache != NULL; cache = cache->next) {
		struct row row = { .name = cache->name, .size = cache->object_bytes, .in_use = cache->live, .total = cache->live,
				   .memory = cache->live_bytes, .allocs = cache->allocs, .failures = cache->failures };

		bool shown = umem_cache_guards(cache) ? row.in_use > 0 || !atomic_load(&cache->destroyed) : row.allocs > 0 || row.failures > 0;

		if (shown)
			write_row(out, &row);
	}
}

static void write_cache_row(void *argument, vmag_cache_t *cache)
{
	struct vmag_cache_stats stats;

	if (debugging() && umem_cache_is_below(cache))
		return; // in the row above
	vmag_cache_stats(cache, &stats, sizeof stats);
	write_row(argument, &(struct row){ .name = vmag_cache_name(cache), .size = stats.object_bytes, .in_use = stats.in_use,
					   .total = stats.buffers, .memory = stats.slabs * stats.slab_bytes,
					   .allocs = stats.slab_allocs, .failures = stats.alloc_failures });
}

static unsigned depth_of(const vmag_vmem_t *arena)
{
	unsigned depth = 0;

	while ((arena = vmag_vmem_source(arena)) != NULL)
		depth++;
	return depth;
}

static void write_arena(void *argument, vmag_vmem_t *arena)
{
	struct out *out = argument;
	struct vmag_vmem_stats stats;
	unsigned depth = depth_of(arena);
	const vmag_vmem_t *source = vmag_vmem_source(arena);

	vmag_vmem_stats(arena, &stats, sizeof stats);
	if (!out->json) {
		out_add(out, depth == 0 ? "%s" : "%s  ", "");
		out_add(out, "%-29s %14zu %14zu %12zu %10lu %8lu\n", vmag_vmem_name(arena), stats.in_use_bytes, stats.total_bytes,
			stats.imported_bytes, (unsigned long)stats.allocs, (unsigned long)stats.fails);
		return;
	}
	out_open(out, NULL, '{');
	out_string(out, "name", vmag_vmem_name(arena));
	out_string(out, "source", source == NULL ? "" : vmag_vmem_name(source));
	out_number(out, "in_use_bytes", stats.in_use_bytes);
	out_number(out, "total_bytes", stats.total_bytes);
	out_number(out, "imported_bytes", stats.imported_bytes);
	out_number(out, "segments", stats.segments);
	out_number(out, "spans", stats.spans);
	out_number(out, "allocs", stats.allocs);
	out_number(out, "frees", stats.frees);
	out_number(out, "fails", stats.fails);
	out_number(out, "waits", stats.waits);
	out_number(out, "imports", stats.imports);
	out_number(out, "quantum", stats.quantum);
	out_close(out, '}');
}

static void write_arenas(struct out *out)
{
	if (!out->json)
		out_add(out, "%-31s %14s %14s %12s %10s %8s\n", "arena", "in use", "total", "imported", "allocs", "fails");
	out_open(out, "arenas", '[');
	vmag_vmem_each(write_arena, out);
	out_close(out, ']');
}

int report_umastat(struct out *out, const char *rest)
{
	(void)rest;
	if (!heap_ready())
		return ENOMEM;
	if (!out->json)
		out_add(out, "%-31s %8s %10s %10s %12s %12s %8s\n", "cache", "size", "in use", "buffers", "memory", "allocs", "fails");
	out_open(out, "caches", '[');
	if (debugging())
		write_guarded(out);
	else
		write_heap(out);
	vmag_cache_each(write_cache_row, out);
	out_close(out, ']');
	if (!out->json)
		out_add(out, "\n");
	write_arenas(out);
	return 0;
}

static void write_cache(void *argument, vmag_cache_t *cache)
{
	struct out *out = argument;
	struct vmag_cache_stats s;

	vmag_cache_stats(cache, &s, sizeof s);
	if (!out->json) {
		out_add(out, "%s: objects of %zu bytes, chunks of %zu, aligned to %zu\n"
			"  slabs      %zu of %zu bytes, %zu objects each, %zu colours; %lu made, %lu given back\n"
			"  objects    %zu in use, %zu in magazines, %zu in all slabs\n"
			"  magazines  %zu rounds; depot %zu full, %zu empty; %lu taken, %lu left, %lu contended, %lu resizes\n"
			"  failures   %lu of memory, %lu of the constructor; %lu reaps, %lu moves\n",
			vmag_cache_name(cache), s.object_bytes, s.chunk_bytes, s.align, s.slabs, s.slab_bytes, s.slab_objects,
			s.slab_colours, (unsigned long)s.slab_creates, (unsigned long)s.slab_destroys, s.in_use, s.cached, s.buffers,
			s.magazine_rounds, s.full_magazines, s.empty_magazines, (unsigned long)s.depot_takes,
			(unsigned long)s.depot_puts, (unsigned long)s.depot_contentions, (unsigned long)s.magazine_resizes,
			(unsigned long)s.alloc_failures, (unsigned long)s.constructor_failures, (unsigned long)s.reaps,
			(unsigned long)s.moves);
		return;
	}
	const struct {
		const char *name;
		uint64_t value;
	} fields[] = {
		{ "object_bytes", s.object_bytes }, { "chunk_bytes", s.chunk_bytes }, { "align", s.align },
		{ "slab_bytes", s.slab_bytes }, { "slab_objects", s.slab_objects }, { "slab_colours", s.slab_colours },
		{ "slabs", s.slabs }, { "buffers", s.buffers }, { "in_use", s.in_use }, { "cached", s.cached },
		{ "full_magazines", s.full_magazines }, { "empty_magazines", s.empty_magazines },
		{ "magazine_rounds", s.magazine_rounds }, { "depot_takes", s.depot_takes }, { "depot_puts", s.depot_puts },
		{ "depot_contentions", s.depot_contentions }, { "slab_allocs", s.slab_allocs }, { "slab_frees", s.slab_frees },
		{ "slab_creates", s.slab_creates }, { "slab_destroys", s.slab_destroys }, { "alloc_failures", s.alloc_failures },
		{ "constructor_failures", s.constructor_failures }, { "reaps", s.reaps }, { "moves", s.moves },
		{ "magazine_resizes", s.magazine_resizes },
	};
	out_open(out, NULL, '{');
	out_string(out, "name", vmag_cache_name(cache));
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
		out_number(out, fields[i].name, fields[i].value);
	out_close(out, '}');
}

// What debugging does in a cache, which UMEM_DEBUG=random leaves to chance.
static void write_aids(struct out *out, const struct guard_cache *cache)
{
	if (!out->json) {
		out_add(out, "%s: debugged:%s%s%s\n", cache->name, cache->painted ? " guards" : "", cache->audited ? " audit" : "",
			cache->contents ? " contents" : "");
		return;
	}
	out_open(out, NULL, '{');
	out_string(out, "name", cache->name);
	out_number(out, "guards", cache->painted);
	out_number(out, "audit", cache->audited);
	out_number(out, "contents", cache->contents);
	out_close(out, '}');
}

static void find_one(void *found, vmag_cache_t *cache)
{
	*(bool *)found = cache != NULL;
}

int report_caches(struct out *out, const char *rest)
{
	bool found;

	(void)rest;
	if (!heap_ready())
		return ENOMEM;
	found = guard_caches() != NULL;
	vmag_cache_each(find_one, &found);
	if (!out->json && !found)
		out_add(out, "there are no object caches\n");
	out_open(out, "caches", '[');
	vmag_cache_each(write_cache, out);
	out_close(out, ']');
	out_open(out, "debugged", '[');
	for (const struct guard_cache *cache = guard_caches(); cache != NULL; cache = cache->next)
		if (!atomic_load(&cache->destroyed))
			write_aids(out, cache);
	out_close(out, ']');
	return 0;
}

struct wanted {
	struct out *out;
	const char *name;
	const char *kind;
	bool found;
};

static void write_segment(void *argument, void *address, size_t size)
{
	struct wanted *wanted = argument;
	struct out *out = wanted->out;

	if (!out->json) {
		out_add(out, "%-5s 0x%lx  %zu\n", wanted->kind, (unsigned long)(uintptr_t)address, size);
		return;
	}
	out_open(out, NULL, '{');
	out_string(out, "kind", wanted->kind);
	out_address(out, "start", (uintptr_t)address);
	out_number(out, "size", size);
	out_close(out, '}');
}

static void write_segments(void *argument, vmag_vmem_t *arena)
{
	static const struct {
		const char *name;
		int mask;
	} kinds[] = { { "span", VMAG_VMEM_SPAN }, { "alloc", VMAG_VMEM_ALLOC }, { "free", VMAG_VMEM_FREE } };
	struct wanted *wanted = argument;

	if (strcmp(vmag_vmem_name(arena), wanted->name) != 0)
		return;
	wanted->found = true;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		wanted->kind = kinds[i].name;
		vmag_vmem_walk(arena, kinds[i].mask, write_segment, wanted);
	}
}

int report_vmem(struct out *out, const char *rest)
{
	struct report_word name = report_next_word(&rest);
	struct wanted wanted = { out, name.text, NULL, false };

	if (!heap_ready())
		return ENOMEM;
	if (name.text[0] == '\0') {
		write_arenas(out);
		return 0;
	}
	if (out->json)
		out_string(out, "arena", name.text);
	out_open(out, "segments", '[');
	vmag_vmem_each(write_segments, &wanted);
	out_close(out, ']');
	return wanted.found ? 0 : ENOENT;
}
