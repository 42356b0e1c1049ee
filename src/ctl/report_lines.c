// Report for people: the tables of the 2006 paper, with jemalloc's lines around them; then the arenas of vmem and object caches.
// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "cache/cache.h"
#include "cache/table.h"
#include "conf/options.h"
#include "ctl/control.h"
#include "ctl/report.h"
#include "ctl/snapshot.h"
#include "heap/explicit.h"
#include "heap/heap.h"
#include "jemalloc/jemalloc.h"
#include "os/cpu.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "vmem/resource.h"

enum { QUANTUM = 16, LG_QUANTUM = 4 };

static void general(struct report *report)
{
	report_add(report, "Version: \"%s\"\n", JEMALLOC_VERSION);
	report_add(report, "Number of CPUs: %u\nNumber of arenas: %u\n", os_cpus_affine(), arenas_numbers());
	report_add(report, "Chunk size: %zu (2^%u)\nPage size: %zu\n", CHUNK_BYTES, LG_CHUNK, os_page_size());
	report_add(report, "Quantum size: %u (2^%u)\nMax small size: %u\nMax size in magazines: %u\n", QUANTUM, LG_QUANTUM, SLAB_MOST,
		   MAGAZINE_MOST);
	report_add(report, "Options:\n");
	for (size_t i = 0; i < option_count; i++) {
		char value[288];
		struct text text = text_into(value, sizeof value - 1);

		option_print(&text, &option_table[i]);
		*text.at = '\0';
		report_add(report, "  opt.%s: %s (%s)\n", option_table[i].name, value, option_source(&option_table[i]));
	}
}

static void mutex_line(struct report *report, const char *name, const struct mutex_figures *of)
{
	report_add(report, "%-16s %12lu %12lu %12lu %16lu %16lu %8lu\n", name, of->ops, of->waits, of->spins, of->wait_ns,
		   of->most_wait_ns, of->most_waiting);
}

static void mutexes_head(struct report *report)
{
	report_add(report, "mutexes:                  ops        slept         spun         slept ns       longest ns     most\n");
}

static void total_mutexes(struct report *report, const struct totals *totals)
{
	mutexes_head(report);
	mutex_line(report, "ctl", &totals->ctl);
	mutex_line(report, "prof", &totals->prof);
}

static void arena_mutexes(struct report *report, const struct arena_figures *figures)
{
	struct mutex_figures bins = { 0 };

	for (unsigned i = 0; i < BINS; i++)
		mutex_figures_join(&bins, &figures->bins[i].mutex);
	mutexes_head(report);
	mutex_line(report, "bins", &bins);
	mutex_line(report, "large", &figures->mutexes.large);
	mutex_line(report, "extents_dirty", &figures->mutexes.extents_dirty);
	mutex_line(report, "extents_retained", &figures->mutexes.extents_retained);
	mutex_line(report, "base", &figures->mutexes.base);
	mutex_line(report, "tcache_list", &figures->mutexes.tcache_list);
}

static void totals(struct report *report)
{
	const struct totals *totals = snapshot_totals();

	report_add(report, "Allocated: %zu, active: %zu, metadata: %zu (n_thp 0), resident: %zu, mapped: %zu, retained: %zu\n",
		   totals->allocated, totals->active, totals->metadata, totals->resident, totals->mapped, totals->retained);
	report_add(report, "Count of realloc(non-null-ptr, 0) calls: %zu\n", (size_t)heap_zero_reallocs);
	report_add(report, "Background threads: %zu, num_runs: %lu, run_interval: %lu ns\n", totals->background_threads,
		   totals->background_runs, totals->background_interval_ns);
	if (report->mutexes)
		total_mutexes(report, totals);
}

static void kind_line(struct report *report, const char *name, const struct kind_figures *kind)
{
	report_add(report, "%-8s %14zu %12lu %12lu %12lu %10lu %10lu\n", name, kind->allocated, kind->nmalloc, kind->ndalloc,
		   kind->nrequests, kind->nfills, kind->nflushes);
}

// The columns of 2006 first: a run is a slab here; hiruns: the most that there were.
static void bins_table(struct report *report, const struct arena_figures *figures)
{
	report_add(report, "bins:    bin    size nregs  run_sz    nrequests        nruns   hiruns  curruns      curregs  nonfull       nfills     nflushes\n");
	for (unsigned i = 0; i < BINS; i++) {
		const struct bin_figures *bin = &figures->bins[i];
		struct slab_shape shape = slab_shape_for(class_size(i + 1));

		if (bin->nslabs > 0)
			report_add(report, "         %3u %7zu %5zu %7zu %12lu %12lu %8zu %8zu %12zu %8zu %12lu %12lu\n", i, (size_t)shape.size,
				   (size_t)shape.buffers, (size_t)shape.slab_bytes, bin->nrequests, bin->nslabs, bin->most_slabs,
				   bin->curslabs, bin->curregs, bin->nonfull_slabs, bin->nfills, bin->nflushes);
	}
	report_add(report, "         (curregs times size is what the program holds and what magazines do: tcache_bytes)\n");
}

static void large_table(struct report *report, const struct arena_figures *figures)
{
	report_add(report, "large:   ind           size    nrequests      nmalloc      ndalloc  curlextents\n");
	for (unsigned i = 0; i < LARGE_CLASSES; i++) {
		const struct lextent_figures *lextent = &figures->lextents[i];

		if (lextent->nmalloc > 0)
			report_add(report, "         %3u %14zu %12lu %12lu %12lu %12zu\n", i + BINS, class_size(i + SLAB_CLASSES),
				   lextent->nrequests, lextent->nmalloc, lextent->ndalloc, lextent->curlextents);
	}
}

static void arena_lines(struct report *report, unsigned id, const char *name, const struct arena_figures *figures)
{
	if (id < CONTROL_ALL)
		report_add(report, "\narenas[%s] statistics:\n", name);
	else
		report_add(report, "\n%s arenas statistics:\n", id == CONTROL_ALL ? "Merged" : "Destroyed");
	report_add(report, "assigned threads: %u, uptime: %lu ns\n", figures->nthreads, figures->uptime);
	report_add(report, "decaying:     time       npages       sweeps     madvises       purged\n");
	report_add(report, "   dirty: %8ld %12zu %12lu %12lu %12lu\n", (long)figures->dirty_decay_ms, figures->pdirty,
		   figures->dirty_npurge, figures->dirty_nmadvise, figures->dirty_purged);
	report_add(report, "   muzzy: %8ld %12zu %12lu %12lu %12lu\n", (long)figures->muzzy_decay_ms, figures->pmuzzy,
		   figures->muzzy_npurge, figures->muzzy_nmadvise, figures->muzzy_purged);
	report_add(report, "              allocated      nmalloc      ndalloc    nrequests     nfills   nflushes\n");
	kind_line(report, "small:", &figures->small);
	kind_line(report, "large:", &figures->large);
	report_add(report, "active: %zu, dirty: %zu, mapped: %zu, retained: %zu, base: %zu, internal: %zu, tcache_bytes: %zu, resident: %zu\n",
		   figures->active, figures->dirty, figures->mapped, figures->retained, figures->base, figures->internal,
		   figures->tcache_bytes, figures->resident);
	if (report->bins)
		bins_table(report, figures);
	if (report->large)
		large_table(report, figures);
	if (report->mutexes)
		arena_mutexes(report, figures);
}

static void resource_line(void *argument, struct vmag_vmem *arena)
{
	struct report *report = argument;
	struct vmag_vmem_stats stats;

	resource_stats(arena, &stats);
	report_add(report, "%-32s %14zu %14zu %14zu %10zu %12lu %12lu %8lu\n", vmag_vmem_name(arena), stats.in_use_bytes,
		   stats.total_bytes, stats.imported_bytes, stats.segments, stats.allocs, stats.frees, stats.fails);
}

static void cache_line(void *argument, struct vmag_cache *cache)
{
	struct report *report = argument;
	struct vmag_cache_stats stats;

	cache_stats(cache, &stats);
	report_add(report, "%-32s %8zu %10zu %10zu %8zu %8zu %12lu %12lu %8lu\n", cache->name, stats.object_bytes, stats.in_use,
		   stats.cached, stats.slabs, stats.magazine_rounds, stats.slab_allocs, stats.depot_takes, stats.alloc_failures);
}

static void machines(struct report *report)
{
	report_add(report, "\nvmem arenas:\nname                                     in use          total       imported   segments        alloc         free     fail\n");
	resource_each(resource_line, report);
	report_add(report, "\nobject caches:\nname                                 size     in use     cached    slabs   rounds  slab allocs  depot takes     fail\n");
	caches_each(cache_line, report);
}

void report_lines(struct report *report)
{
	report_add(report, "___ Begin jemalloc statistics ___\n");
	if (report->general)
		general(report);
	totals(report);
	report_arenas(report, arena_lines);
	if (report->general)
		machines(report);
	report_add(report, "--- End jemalloc statistics ---\n");
}
