// The exported root: where a reader in another process finds the heap's structures.
// SPDX-License-Identifier: BSD-2-Clause
#include "api/root.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "heap/size_class.h"
#include "magazine/magazine.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "slab/bin.h"
#include "vmag/format.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT struct vmag_root vmag_root;

static uint64_t address(const volatile void *variable)
{
	return (uint64_t)(uintptr_t)variable;
}

void root_publish(void)
{
	struct vmag_root root = {
		.version = VMAG_ROOT_VERSION,
		.bytes = sizeof root,
		.lg_granule = LG_GRANULE,
		.lg_chunk = LG_CHUNK,
		.classes = CLASSES,
		.slab_classes = SLAB_CLASSES,
		.page_map = address(&page_map),
		.page_map_end = address(page_map_region_end_at()),
		.run_tables = address(&page_map_tables),
		.first_chunk = address(page_map_first_chunk_at()),
		.mappings = address(os_mappings),
		.mappings_count = address(&os_mappings_count),
		.magazine_bins = address(magazines_bins_at()),
		.magazine_bins_end = address(magazines_bins_at() + MAGAZINE_SIZES),
		.run_start = offsetof(struct run, node.key),
		.run_bin = offsetof(struct run, bin),
		.run_bytes = offsetof(struct run, bytes),
		.slab_bitmap = offsetof(struct slab, bitmap),
		.bin_size = offsetof(struct bin, shape.size),
		.bin_slab_bytes = offsetof(struct bin, shape.slab_bytes),
		.bin_buffers = offsetof(struct bin, shape.buffers),
		.magazine_capacity = offsetof(struct magazine, capacity),
		.magazine_slots = offsetof(struct magazine, round),
		.library_version = VMAG_VERSION,
	};

	vmag_root = root;
	atomic_thread_fence(memory_order_release);
	memcpy(vmag_root.magic, VMAG_ROOT_MAGIC, sizeof vmag_root.magic);
}
