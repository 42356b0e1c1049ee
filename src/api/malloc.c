// Exported: the C allocation functions and what glibc adds to them.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "api/glibc.h"
#include "api/reallocarray.h"
#include "api/root.h"
#include "cache/table.h"
#include "ctl/stats.h"
#include "heap/cpu_fast.h"
#include "heap/debug.h"
#include "heap/fast.h"
#include "heap/missed.h"
#include "life/life.h"
#include "os/file.h"
#include "os/pages.h"
#include "util/bits.h"
#include "util/format.h"

__attribute__((constructor(101))) static void loaded(void)
{
	root_publish();
	life_begin();
}

__attribute__((destructor(101))) static void exiting(void)
{
	life_end();
}

static __attribute__((noinline)) void *malloc_rest(size_t size)
{
	void *object = missed_malloc(size);

	return object != NULL ? object : heap_malloc(size);
}

static __attribute__((noinline)) void *malloc_slow(size_t size)
{
	return medium_or(size, malloc_rest);
}

// These are reached by jumps: the return address is that of the program's call. Each saves no more registers than it needs.
static __attribute__((noinline)) void free_rest(void *object)
{
	const void *outer;

	if (exchanged_free(object) || traced_free(object))
		return;
	outer = front_free_begins(__builtin_return_address(0));
	heap_free(object, "free");
	front_free_ends(outer);
}

static __attribute__((noinline)) void free_at_hand(void *object)
{
	if (!medium_keep(object, __builtin_return_address(0)))
		free_rest(object);
}

static __attribute__((noinline)) void free_slow(void *object)
{
	if (object == NULL)
		return;
	if (medium_may_keep(object))
		free_at_hand(object);
	else if (!front_free_outbound(object))
		free_rest(object);
}

static __attribute__((noinline)) void free_sized_slow(void *object, size_t size)
{
	if (!traced_free(object))
		heap_free_sized(object, 0, size, "free_sized");
}

CPU_FAST void *malloc_sampled(size_t size)
{
	return sampled_malloc(size, malloc_slow, heap_malloc);
}

CPU_FAST void *malloc_miss(size_t size)
{
	return cpu_fast_malloc(size, malloc_sampled, malloc_slow);
}

CPU_FAST void free_miss(void *object)
{
	cpu_fast_free(object, free_slow);
}

static __attribute__((noinline)) void free_sized_uncounted(void *object, size_t size)
{
	cpu_fast_free_sized(object, size, free_sized_slow);
}

CPU_FAST void free_sized_miss(void *object, size_t size)
{
	if (!counted_push_sized(object, size) && !sampled_push(object))
		free_sized_uncounted(object, size);
}

// Both begin a line of the processor's instruction cache: without, whatever is linked before them moves 5 % of their time.
EXPORT __attribute__((aligned(64))) void *malloc(size_t size)
{
	return fast_malloc(size, malloc_miss);
}

EXPORT __attribute__((aligned(64))) void free(void *object)
{
	fast_free(object, free_miss);
}

// C23 7.24.3.4.
EXPORT void free_sized(void *object, size_t size)
{
	fast_free_sized(object, size, free_sized_miss);
}

EXPORT void free_aligned_sized(void *object, size_t align, size_t size)
{
	heap_free_sized(object, align, size, "free_aligned_sized");
}

EXPORT void *calloc(size_t count, size_t size)
{
	return heap_calloc(count, size);
}

// Of NULL without a call: interpreters that have one function for all, as Lua's, allocate with it.
EXPORT void *realloc(void *object, size_t size)
{
	return object == NULL ? fast_malloc(size, heap_malloc_missed) : heap_realloc(object, size, "realloc");
}

static realloc_function *programs_realloc; // NULL: ours serves

void reallocarray_by(realloc_function *function)
{
	programs_realloc = function;
}

// By its address: what takes the place of our functions when they are called, as valgrind does, does not know this one.
static __attribute__((noinline)) void *realloc_as_called(void *object, size_t size)
{
	realloc_function *volatile ours = realloc;

	return ours(object, size);
}

// As the C library's, by whatever realloc the program has: one that brings its own malloc, calloc, realloc and free seldom has this, too, and would be
// given objects that its free knows nothing of.
EXPORT void *reallocarray(void *object, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return programs_realloc != NULL ? programs_realloc(object, bytes) : realloc_as_called(object, bytes);
}

static void *aligned_or_invalid(size_t align, size_t size)
{
	if (!is_power_of_two(align)) {
		errno = EINVAL;
		return NULL;
	}
	return heap_aligned(align, size);
}

// The size need not be a multiple of the alignment (C17).
EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return aligned_or_invalid(align, size);
}

// As in glibc, whose manual names no error: an odd alignment becomes the next power of two.
EXPORT void *memalign(size_t align, size_t size)
{
	return aligned_or_invalid(align > SIZE_MAX / 2 + 1 ? align : (size_t)1 << lg_ceil(align), size);
}

// Without memory errno is ENOMEM, too, as in glibc and musl.
EXPORT int posix_memalign(void **result, size_t align, size_t size)
{
	void *object;

	if (!is_power_of_two(align) || align % sizeof(void *) != 0)
		return EINVAL;
	object = heap_aligned(align, size);
	if (object == NULL)
		return ENOMEM;
	*result = object;
	return 0;
}

EXPORT void *valloc(size_t size)
{
	return heap_aligned(os_page_size(), size);
}

EXPORT void *pvalloc(size_t size)
{
	size_t page = os_page_size();

	return heap_aligned(page, size > PTRDIFF_MAX ? size : max_size(round_up(size, page), page));
}

// Of a small object by the page map alone: Redis asks many times a request.
EXPORT size_t malloc_usable_size(void *object)
{
	unsigned class = word_class(page_map_word(object));

	if (LIKELY(class - 1 < SLAB_CLASSES - 1) && LIKELY(heap_debug == DEBUG_OFF))
		return size_class_bytes[class];
	return heap_usable_size(object, "malloc_usable_size");
}

// `pad` is glibc's: bytes to keep at the top of its heap; there is no such top here.
EXPORT int malloc_trim(size_t pad)
{
	int saved = errno, given;

	(void)pad;
	given = heap_trim();
	given |= caches_reap(true, NULL);
	errno = saved;
	return given;
}

// The parameters tune glibc's mechanisms, which are not ours. As in glibc a number that is no parameter is accepted, too: only what M_MXFAST cannot be is refused.
EXPORT int mallopt(int parameter, int value)
{
	return parameter != M_MXFAST || (value >= 0 && (size_t)value <= 80 * sizeof(size_t) / 4);
}

// What glibc has mappings for are objects too large for magazines: their bytes are in `hblkhd`, and in it only.
EXPORT struct mallinfo2 mallinfo2(void)
{
	struct stats stats = stats_snapshot();
	size_t arena = stats.mapped - min_size(stats.mapped, stats.alone_bytes);
	size_t used = stats.allocated - min_size(stats.allocated, stats.alone_bytes);

	return (struct mallinfo2){
		.arena = arena,
		.ordblks = stats.arenas,
		.hblks = stats.alone,
		.hblkhd = stats.alone_bytes,
		.uordblks = used,
		.fordblks = arena - min_size(arena, used),
		.keepcost = stats.dirty,
	};
}

static int saturated(size_t value)
{
	return value > INT_MAX ? INT_MAX : (int)value;
}

EXPORT struct mallinfo mallinfo(void)
{
	struct mallinfo2 wide = mallinfo2();

	return (struct mallinfo){
		.arena = saturated(wide.arena),
		.ordblks = saturated(wide.ordblks),
		.hblks = saturated(wide.hblks),
		.hblkhd = saturated(wide.hblkhd),
		.uordblks = saturated(wide.uordblks),
		.fordblks = saturated(wide.fordblks),
		.keepcost = saturated(wide.keepcost),
	};
}

EXPORT int malloc_info(int options, FILE *file)
{
	struct stats stats;

	if (options != 0) {
		errno = EINVAL;
		return -1;
	}
	stats = stats_snapshot();
	fprintf(file,
		"<malloc version=\"1\">\n"
		"<total type=\"allocated\" size=\"%zu\"/>\n<total type=\"active\" size=\"%zu\"/>\n"
		"<total type=\"cached\" size=\"%zu\"/>\n<total type=\"dirty\" size=\"%zu\"/>\n"
		"<total type=\"metadata\" size=\"%zu\"/>\n<system type=\"current\" size=\"%zu\"/>\n"
		"</malloc>\n",
		stats.allocated, stats.active, stats.cached, stats.dirty, stats.metadata, stats.mapped);
	return 0;
}

EXPORT void malloc_stats(void)
{
	struct stats stats = stats_snapshot();
	char lines[1024];
	struct text text = text_into(lines, sizeof lines);

	stats_lines(&text, &stats);
	os_stderr_write(lines, (size_t)(text.at - lines));
}
