// Sources: the hooks of files, of huge pages and of nodes.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/sources.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "jemalloc/jemalloc.h"
#include "os/backing.h"
#include "os/file.h"
#include "os/pages.h"
#include "os/thread.h"
#include "pages/chunks.h"
#include "pages/extents.h"
#include "pages/page_map.h"
#include "util/bits.h"

enum { LG_WINDOW_PART = 3 };
#define WINDOW_LEAST ((size_t)64 << 20)

// The hooks are the first member: they are what an arena knows of its source.
struct source {
	extent_hooks_t hooks;
	// Constant.
	struct source *next; // list of all, under its lock
	unsigned node;
	bool strict;
	int file; // −1: none
	struct os_backing_identity identity; // of the file
	bool whole_heap; // children after fork would share it, and allocate in it what their parents do
	int maker;       // the number of the process whose objects are in the file; 0 from a fork on, in the child: its parent's
	uintptr_t base;
	size_t window_bytes;
	uint64_t first; // offset of the window's start in the file
	// With its lock.
	struct vmem window; // addresses of the file's chunks
};

static struct {
	struct mutex lock;
	struct source *first;
} sources = { .lock = MUTEX_INIT(RANK_SOURCES) };

static struct source *source_of(extent_hooks_t *hooks)
{
	return (struct source *)(void *)hooks;
}

// NULL: hooks of the program, or of the data segment.
static struct source *find(const extent_hooks_t *hooks)
{
	struct source *source;

	mutex_lock(&sources.lock);
	for (source = sources.first; source != NULL && &source->hooks != hooks;)
		source = source->next;
	mutex_unlock(&sources.lock);
	return source;
}

static extent_hooks_t *source_link(struct source *source)
{
	mutex_lock(&sources.lock);
	source->next = sources.first;
	sources.first = source;
	mutex_unlock(&sources.lock);
	return &source->hooks;
}

static struct source *source_alloc(void)
{
	struct source *source = base_alloc(sizeof *source);

	if (source == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	memset(source, 0, sizeof *source);
	source->file = -1;
	return source;
}

// --- a file ---

static uint64_t offset_of(const struct source *source, const void *address)
{
	return (uintptr_t)address - source->base + source->first;
}

// A child of fork shares the file, in whatever way it was made: what it takes for free may be its parent's objects.
static bool is_own_file(const struct source *source)
{
	return source->maker == os_process_number() && os_backing_is(source->file, &source->identity);
}

static void *file_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t align, bool *zero, bool *commit, unsigned arena)
{
	struct source *source = source_of(hooks);
	void *start;

	(void)align, (void)arena;
	if (new_addr != NULL || !is_own_file(source))
		return NULL;
	start = (void *)vmem_segment_alloc(&source->window, size).start;
	if (start == NULL)
		return NULL;
	if (!page_map_commit_apart((uintptr_t)start, size) || !os_backing_extend(source->file, offset_of(source, start), size) ||
	    !os_backing_map_at(start, size, source->file, offset_of(source, start))) {
		vmem_segment_free(&source->window, (uintptr_t)start, size, VMEM_CLEAN);
		return NULL;
	}
	if (source->whole_heap)
		os_backing_keep_from_children(start, size);
	*zero = *commit = true;
	return start;
}

static bool file_dalloc(extent_hooks_t *hooks, void *start, size_t size, bool committed, unsigned arena)
{
	struct source *source = source_of(hooks);

	(void)committed, (void)arena;
	if (!os_pages_unmap(start, size)) // where the process has all its mappings; the place is kept, and used again
		return true;
	if (is_own_file(source))
		os_backing_punch(source->file, offset_of(source, start), size);
	vmem_segment_free(&source->window, (uintptr_t)start, size, VMEM_CLEAN);
	return false;
}

static bool file_purge(extent_hooks_t *hooks, void *start, size_t size, size_t offset, size_t length, unsigned arena)
{
	struct source *source = source_of(hooks);

	(void)size, (void)arena;
	return !is_own_file(source) ||
	       !os_backing_punch(source->file, offset_of(source, start) + offset, length);
}

// The highest free piece of the region of that size, at a multiple of it from the end.
static uintptr_t highest(size_t size)
{
	uintptr_t start = 0, end = page_map_first_chunk() + page_map_chunk_bytes();

	for (unsigned i = 1; i <= 1u << LG_WINDOW_PART && start == 0; i++) {
		struct vmem_constraint there = { .least = end - i * size, .most = end - (i - 1) * size };

		start = vmem_segment_xalloc(&heap_arena, size, &there, heap_arena.policy, 0).start;
	}
	return start;
}

// As large a part of the region as there is, up to an eighth, far above the chunks that come and go. False: not even the least.
static bool window_take(struct source *source)
{
	size_t size = round_down(page_map_chunk_bytes() >> LG_WINDOW_PART, CHUNK_BYTES);

	for (; size >= WINDOW_LEAST; size = round_down(size / 2, CHUNK_BYTES))
		if ((source->base = highest(size)) != 0) {
			source->window_bytes = size;
			return true;
		}
	errno = ENOMEM;
	return false;
}

extent_hooks_t *source_of_file(int file)
{
	struct os_backing_identity identity;
	struct source *source = os_backing_identify(file, &identity) ? source_alloc() : NULL;

	if (source != NULL && window_take(source)) {
		source->file = file;
		source->maker = os_process_number();
		source->identity = identity;
		source->first = round_up(os_backing_size(file), CHUNK_BYTES);
		source->hooks.alloc = file_alloc;
		source->hooks.dalloc = file_dalloc;
		source->hooks.purge_forced = file_purge;
		vmem_init(&source->window, "file", LG_CHUNK, VMEM_FIRSTFIT, RANK_WINDOW);
		if (vmem_span_add(&source->window, source->base, source->window_bytes))
			return source_link(source);
		vmem_segment_free(&heap_arena, source->base, source->window_bytes, VMEM_CLEAN);
		errno = ENOMEM;
	}
	if (source != NULL)
		base_free(source, sizeof *source);
	os_file_close(file);
	return NULL;
}

void source_of_heap(extent_hooks_t *hooks)
{
	struct source *source = find(hooks);

	if (source != NULL)
		source->whole_heap = true;
}

int source_file(const extent_hooks_t *hooks)
{
	const struct source *source = find(hooks);

	return source == NULL ? -1 : source->file;
}

int64_t sources_file_offset(const void *address)
{
	int64_t offset = -1;

	mutex_lock(&sources.lock);
	for (const struct source *source = sources.first; source != NULL; source = source->next)
		if (source->file >= 0 && (uintptr_t)address - source->base < source->window_bytes)
			offset = (int64_t)offset_of(source, address);
	mutex_unlock(&sources.lock);
	return offset;
}

// --- huge pages and nodes: chunks like others, mapped or bound in their own way ---

// Pages that are huge already in place of those just mapped; without any, ordinary ones that the kernel may make huge. Where the process has all its mappings
// those just mapped are these.
static void *huge_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t align, bool *zero, bool *commit, unsigned arena)
{
	void *start = new_addr != NULL ? NULL : (void *)chunks_import(size, align);

	(void)hooks, (void)arena;
	if (start == NULL)
		return NULL;
	if (!os_pages_unmap(start, size)) {
		os_pages_huge(start, size, true);
	} else if (!os_backing_map_huge_at(start, size)) {
		if (!os_pages_map_at(start, size)) {
			chunks_give_up((uintptr_t)start, size, errno == EEXIST);
			return NULL;
		}
		os_pages_huge(start, size, true);
	}
	*zero = *commit = true;
	return start;
}

static void *node_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t align, bool *zero, bool *commit, unsigned arena)
{
	struct source *source = source_of(hooks);
	void *start = new_addr != NULL ? NULL : (void *)chunks_import(size, align);

	(void)arena;
	if (start == NULL)
		return NULL;
	if (!os_backing_bind(start, size, source->node, source->strict) && source->strict) {
		chunks_release((uintptr_t)start, size); // where that fails, too, it is lost
		return NULL;
	}
	*zero = *commit = true;
	return start;
}

static extent_hooks_t *source_of_chunks(extent_alloc_t *alloc, unsigned node, bool strict)
{
	struct source *source = source_alloc();

	if (source == NULL)
		return NULL;
	source->node = node;
	source->strict = strict;
	source->hooks.alloc = alloc;
	source->hooks.dalloc = extents_default.dalloc;
	source->hooks.purge_forced = extents_default.purge_forced;
	return source_link(source);
}

extent_hooks_t *source_of_huge_pages(void)
{
	return source_of_chunks(huge_alloc, 0, false);
}

// Tried at once, so that a node that is not there is told now.
extent_hooks_t *source_of_node(unsigned node, bool strict)
{
	void *probe = os_pages_map(os_page_size());
	bool bound = probe != NULL && os_backing_bind(probe, os_page_size(), node, strict);
	int failure = errno;

	if (probe != NULL)
		os_pages_unmap(probe, os_page_size());
	errno = failure;
	return bound ? source_of_chunks(node_alloc, node, strict) : NULL;
}

void source_end(extent_hooks_t *hooks)
{
	struct source **at, *source;

	mutex_lock(&sources.lock);
	for (at = &sources.first; *at != NULL && &(*at)->hooks != hooks;)
		at = &(*at)->next;
	source = *at;
	if (source != NULL)
		*at = source->next;
	mutex_unlock(&sources.lock);
	if (source == NULL)
		return;
	if (source->file >= 0) {
		vmem_fini(&source->window);
		vmem_segment_free(&heap_arena, source->base, source->window_bytes, VMEM_CLEAN);
		os_file_close(source->file);
	}
	base_free(source, sizeof *source);
}

void sources_fork_prepare(void)
{
	mutex_fork_lock(&sources.lock);
	for (struct source *source = sources.first; source != NULL; source = source->next)
		if (source->file >= 0)
			mutex_fork_lock(&source->window.lock);
	source_break_fork_prepare();
}

void sources_fork_done(bool child)
{
	source_break_fork_done();
	for (struct source *source = sources.first; source != NULL; source = source->next)
		if (source->file >= 0) {
			if (child) // which may have its parent's number, in another namespace
				source->maker = 0;
			mutex_fork_unlock(&source->window.lock);
		}
	mutex_fork_unlock(&sources.lock);
}
