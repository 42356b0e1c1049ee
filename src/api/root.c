// The exported root: where a reader in another process finds the heap's structures.
// SPDX-License-Identifier: BSD-2-Clause
#include "api/root.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/base.h"
#include "cache/table.h"
#include "conf/options.h"
#include "heap/arena.h"
#include "heap/cpu_front.h"
#include "heap/front.h"
#include "heap/fronts.h"
#include "heap/size_class.h"
#include "magazine/magazine.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "slab/bin.h"
#include "util/bits.h"
#include "vmag/format.h"
#include "watch/profile.h"
#include "watch/request.h"

EXPORT struct vmag_root vmag_root;

static uint64_t address(const volatile void *variable)
{
	return (uint64_t)(uintptr_t)variable;
}

static void tell_heap(struct vmag_root *root)
{
	uint64_t magazine_bins = address(magazines_bins_at());

	*root = (struct vmag_root){
		.version = VMAG_ROOT_VERSION,
		.bytes = sizeof *root,
		.lg_granule = LG_GRANULE,
		.lg_table = LG_TABLE,
		.classes = CLASSES,
		.slab_classes = SLAB_CLASSES,
		.page_map = address(&page_map),
		.page_map_end = address(page_map_region_end_at()),
		.run_tables = address(&page_map_tables),
		.first_chunk = address(page_map_first_chunk_at()),
		.mappings = address(os_mappings),
		.mappings_count = address(&os_mappings_count),
		.magazine_bins = magazine_bins,
		.magazine_bins_end = magazine_bins + MAGAZINE_SIZES * sizeof(struct bin),
		.run_start = offsetof(struct run, node.key),
		.run_bin = offsetof(struct run, bin),
		.run_bytes = offsetof(struct run, bytes),
		.slab_bitmap = offsetof(struct slab, bitmap),
		.slab_lg_times = offsetof(struct slab, run.lg_times),
		.bin_size = offsetof(struct bin, shape.size),
		.bin_slab_bytes = offsetof(struct bin, shape.slab_bytes),
		.bin_buffers = offsetof(struct bin, shape.buffers),
		.magazine_capacity = offsetof(struct magazine, capacity),
		.magazine_rounds = offsetof(struct magazine, rounds),
		.magazine_slots = offsetof(struct magazine, round),
		.library_version = VMAG_VERSION,
		.options = address(&options),
		.options_bytes = sizeof options,
		.option_sources = address(option_sources),
		.publish = address(&options.publish),
		.base_mapped = address(base_bytes_at()),
		.magazine_pages = address(magazines_pages_at()),
		.run_sample = offsetof(struct run, sample),
		.request = address(&request_word),
	};
}

static void tell_arenas(struct vmag_root *root)
{
	root->pages_mapped = offsetof(struct pages, runs.total_bytes);
	root->pages_free = offsetof(struct pages, runs.bytes);
	root->pages_dirty = offsetof(struct pages, runs.dirty_bytes);
	root->arena_bytes = sizeof(struct arena);
	root->arena_threads = offsetof(struct arena, threads);
	root->arena_state = offsetof(struct arena, state);
	root->arena_pages = offsetof(struct arena, pages);
	root->arena_bins = offsetof(struct arena, bins);
	root->arena_depots = offsetof(struct arena, depots);
	root->arena_large = offsetof(struct arena, large);
	root->arena_large_count = LARGE_CLASSES + 1;
	root->bin_bytes = sizeof(struct bin);
	root->bin_slabs = offsetof(struct bin, slabs);
	root->bin_free_buffers = offsetof(struct bin, free_buffers);
	root->bin_partial_slabs = offsetof(struct bin, partial_slabs);
	root->bin_filled = offsetof(struct bin, filled);
	root->bin_drained = offsetof(struct bin, drained);
	root->depot_bytes = sizeof(struct depot);
	root->depot_rounds = offsetof(struct depot, rounds);
	root->arena_samples = offsetof(struct arena, samples);
	root->samples_classes = SMALL_CLASSES;
	root->arena_sampled_runs = offsetof(struct arena, large[LARGE_CLASSES]);
	root->pages_kept = offsetof(struct pages, kept_bytes);
	arenas_tell(root);
}

static void tell_fronts(struct vmag_root *root)
{
	root->front_next = offsetof(struct front, next);
	root->front_arena = offsetof(struct front, arena);
	root->front_loaded = offsetof(struct front, loaded);
	root->front_previous = offsetof(struct front, previous);
	root->front_common = offsetof(struct front, common);
	root->common_classes = LINE_CLASSES;
	root->front_words = offsetof(struct front, words);
	root->words_ahead = offsetof(struct front_words, ahead);
	root->ahead_classes = SMALL_CLASSES;
	fronts_tell(root);
	root->processors_word = address(&cpu_word);
	root->processor_object_slots = CPU_SLOTS;
	processors_tell(root);
}

void root_publish(void)
{
	struct vmag_root root;

	if (getauxval(AT_SECURE) != 0)
		return;
	tell_heap(&root);
	tell_arenas(&root);
	tell_fronts(&root);
	caches_tell(&root);
	profile_tell(&root);
	vmag_root = root;
	atomic_thread_fence(memory_order_release);
	memcpy(vmag_root.magic, VMAG_ROOT_MAGIC, sizeof vmag_root.magic);
}
