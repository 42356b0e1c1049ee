// Report on an address: the buffer in which it lies with its history, or what else is there.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "cache/table.h"
#include "conf/umem_options.h"
#include "guard/fault.h"
#include "heap/debug.h"
#include "heap/heap.h"
#include "os/areas.h"
#include "pages/page_map.h"
#include "slab/bin.h"
#include "umem/report.h"
#include "util/number.h"

static const char state_names[][12] = { "live", "being freed", "freed" };

// What names an address: cache, buffer, history, as JSON's fields of an object or as lines.
static void add_buffer(struct out *out, const struct guarded_copy *buffer)
{
	const struct guarded *record = &buffer->record;
	char lines[8192];
	struct text text = text_into(lines, sizeof lines - 1);

	if (out->json) {
		out_address(out, "buffer", record->address);
		out_number(out, "size", record->size);
		out_string(out, "cache", record->cache->name);
		out_string(out, "state", state_names[record->state]);
		out_number(out, "allocated_by_thread", (uint64_t)record->allocated.thread);
		out_stack(out, "allocated", buffer->frames, record->allocated.frames);
		out_number(out, "freed_by_thread", (uint64_t)record->freed.thread);
		out_stack(out, "freed", buffer->frames + umem_options.audit_frames, record->freed.frames);
		return;
	}
	out_add(out, "0x%lx, %zu bytes, cache %s, %s\n", (unsigned long)record->address, record->size, record->cache->name,
		state_names[record->state]);
	guard_add_history(&text, buffer);
	*text.at = '\0';
	for (const char *line = lines; *line != '\0';) {
		size_t length = strcspn(line, "\n");

		for (size_t i = 0; i <= length; i++)
			out_add(out, "%c", line[i]);
		line += length + 1;
	}
}

static bool read_address(const char *text, uintptr_t *address)
{
	const char *digits = text[0] == '0' && text[1] == 'x' ? text + 2 : text, *end = digits;

	*address = number_take(&end, 16);
	return end > digits && *end == '\0';
}

static void say_is(struct out *out, const char *what)
{
	if (out->json)
		out_string(out, "is", what);
	else
		out_add(out, "%s\n", what);
}

// The run around an address, of which the page map knows the beginning when it is a large object's; NULL: none.
static struct run *run_around(uintptr_t address)
{
	enum { GRANULES_MOST = 1 << 20 };
	struct run *run = page_map_run((void *)address);
	uintptr_t at = address;

	for (int i = 0; run == NULL && i < GRANULES_MOST && at >= GRANULE_BYTES; i++)
		run = page_map_run((void *)(at -= GRANULE_BYTES));
	return run == NULL || at == address || (run->bin == NULL && address - run_start(run) < run->bytes) ? run : NULL;
}

struct cache_of {
	const struct bin *bin;
	struct out *out;
};

static void add_cache_of(void *wanted_, struct vmag_cache *cache)
{
	const struct cache_of *wanted = wanted_;

	if (&cache->bin != wanted->bin)
		return;
	if (wanted->out->json)
		out_string(wanted->out, "cache", cache->name);
	else
		out_add(wanted->out, ", cache %s", cache->name);
}

// An address of the heap that no record knows: an object of malloc without debugging, or memory of the library.
static void write_heap_object(struct out *out, const struct run *run, uintptr_t address)
{
	size_t size = run->bin != NULL ? run->bin->shape.size : run->bytes;
	uintptr_t start = run_start(run) + (run->bin != NULL ? (address - run_start(run)) / size * size : 0);
	bool cached = run->bin != NULL && run->bin->source != NULL;

	say_is(out, run->bin != NULL ? "in a slab of the heap" : "in a large object of the heap");
	if (out->json) {
		out_address(out, "buffer", start);
		out_number(out, "size", size);
	} else
		out_add(out, "buffer 0x%lx of %zu bytes", (unsigned long)start, size);
	if (cached)
		caches_each(add_cache_of, &(struct cache_of){ .bin = run->bin, .out = out });
	else if (out->json)
		out_number(out, "arena", run->arena);
	else
		out_add(out, ", arena %u", (unsigned)run->arena);
	if (!out->json)
		out_add(out, "\n");
}

static bool is_heap(uintptr_t address)
{
	return page_map != NULL && address >= page_map_first_chunk() && address - page_map_first_chunk() < page_map_chunk_bytes();
}

static void write_area(struct out *out, uintptr_t address)
{
	static const char names[][36] = { "part of the program or a library", "a mapped file", "shared memory", "a stack",
					  "memory of brk", "anonymous memory, not of the heap", "memory of the kernel" };
	const char *what = "nothing: no memory is there";
	struct os_areas areas;
	struct os_area area;

	if (os_areas_begin(&areas)) {
		while (os_areas_next(&areas, &area))
			if (address >= area.start && address < area.end)
				what = is_heap(address) ? "free memory of the heap" : names[area.kind];
		os_areas_end(&areas);
	}
	say_is(out, what);
}

int report_whatis(struct out *out, const char *rest)
{
	struct report_word word = report_next_word(&rest);
	struct guarded_copy buffer;
	struct run *run = NULL;
	uintptr_t address;

	if (!read_address(word.text, &address))
		return EINVAL;
	if (out->json)
		out_address(out, "address", address);
	else
		out_add(out, "0x%lx is ", (unsigned long)address);
	if (debugging() && guard_find(address, &buffer)) {
		say_is(out, "in a buffer");
		add_buffer(out, &buffer);
	} else if (heap_ready() && (run = run_around(address)) != NULL)
		write_heap_object(out, run, address);
	else
		write_area(out, address);
	return 0;
}
