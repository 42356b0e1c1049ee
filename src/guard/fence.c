// Fences: red zones, and firewalls of unreachable pages.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/fence.h"

#include "conf/umem_options.h"
#include "guard/pattern.h"
#include "os/pages.h"
#include "util/bits.h"

static bool firewall_raise(struct guarded *record, size_t align)
{
	size_t page = os_page_size(), bytes = round_up(record->size, page);
	char *block = align > page || record->size > PTRDIFF_MAX - 2 * page ? NULL : os_pages_map_for_program(bytes + page);

	if (block == NULL)
		return false;
	if (!os_pages_close(block + bytes, page)) {
		os_pages_unmap(block, bytes + page);
		return false;
	}
	record->block = (uintptr_t)block;
	record->block_bytes = bytes + page;
	record->address = (uintptr_t)block + bytes - round_up(record->size, align);
	record->fenced = true;
	return true;
}

static bool memory_raise(struct guarded *record, size_t align)
{
	struct guard_cache *cache = record->cache;
	size_t bytes = cache->untouched ? record->size : red_zone_bytes(record->size);
	void *block = cache->alloc(cache->source, bytes, align);

	record->address = record->block = (uintptr_t)block;
	record->block_bytes = bytes;
	return block != NULL;
}

bool fence_raise(struct guarded *record, size_t align)
{
	bool walled = umem_options.firewall_bytes != 0 && record->size >= umem_options.firewall_bytes &&
		      !record->cache->untouched && !record->cache->sourced;

	return (walled && firewall_raise(record, align)) || memory_raise(record, align);
}

void fence_lower(const struct guarded *record)
{
	if (record->fenced)
		os_pages_unmap((void *)record->block, record->block_bytes);
	else
		record->cache->free(record->cache->source, (void *)record->block, record->block_bytes);
}

// Between the data and the page that must not be touched.
static size_t firewall_gap(const struct guarded *record)
{
	return record->block + record->block_bytes - os_page_size() - record->address - record->size;
}

static const uint64_t end_pattern = 0x0101010101010101ull * PATTERN_END;

void fence_paint_end(const struct guarded *record)
{
	char *data = (char *)record->address;

	if (!record->cache->painted)
		return;
	if (record->fenced)
		pattern_fill(data + record->size, firewall_gap(record), end_pattern);
	else
		red_zone_write(data, record->size);
}

void fence_paint_fresh(const struct guarded *record)
{
	if (record->cache->painted)
		pattern_fill((void *)record->address, min_size(record->size, umem_options.verify_most), PATTERN_FRESH);
	fence_paint_end(record);
}

void fence_paint_freed(const struct guarded *record)
{
	if (record->fenced)
		os_pages_close((void *)record->block, record->block_bytes);
	else if (record->cache->painted) {
		pattern_fill((void *)record->address, min_size(record->size, umem_options.verify_most), PATTERN_FREE);
		red_zone_write((void *)record->address, record->size);
	}
}

static long broken_red_zone(const struct guarded *record, uint8_t *should)
{
	long offset = red_zone_broken((const char *)record->address, record->size);

	*should = offset >= (long)round_up(record->size + 1, 8) ? (uint8_t)(PATTERN_RED >> offset % 8 * 8) : PATTERN_END;
	return offset;
}

long fence_broken_live(const struct guarded *record, uint8_t *should)
{
	const char *data = (const char *)record->address;
	long offset;

	*should = PATTERN_END;
	if (!record->cache->painted)
		return PATTERN_WHOLE;
	if (record->fenced) {
		offset = pattern_broken(data + record->size, firewall_gap(record), end_pattern);
		return offset == PATTERN_WHOLE ? offset : offset + (long)record->size;
	}
	return broken_red_zone(record, should);
}

long fence_broken_freed(const struct guarded *record, uint8_t *should)
{
	long offset;

	if (!record->cache->painted || record->fenced)
		return PATTERN_WHOLE;
	offset = pattern_broken((const void *)record->address, min_size(record->size, umem_options.verify_most), PATTERN_FREE);
	*should = (uint8_t)(PATTERN_FREE >> (offset & 7) * 8);
	return offset != PATTERN_WHOLE ? offset : broken_red_zone(record, should);
}
