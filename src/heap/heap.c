// The heap: first use, the slow side of malloc, calloc and aligned allocation, fork.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/heap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "cache/table.h"
#include "conf/options.h"
#include "conf/umem_options.h"
#include "guard/report.h"
#include "heap/bound.h"
#include "heap/cpu_fast.h"
#include "heap/cpu_front.h"
#include "heap/debug.h"
#include "heap/door.h"
#include "heap/explicit.h"
#include "heap/fast.h"
#include "heap/front.h"
#include "heap/fronts.h"
#include "heap/interval.h"
#include "heap/large.h"
#include "heap/loaded.h"
#include "heap/missed.h"
#include "heap/reclaim.h"
#include "heap/samples.h"
#include "heap/sampling.h"
#include "os/mutex_figures.h"
#include "os/pages.h"
#include "os/probe.h"
#include "os/thread.h"
#include "pages/chunks.h"
#include "pages/page_map.h"
#include "pages/sources.h"
#include "vmem/resource.h"
#include "watch/trace.h"

enum {
	RUN_LEAST = 16 * 1024,
	CLEAR_BY_PURGE = 32 * 1024 * 1024, // programs ask for such as zero when they will touch little of it, and glibc maps it anew
};

static struct mutex first_use = MUTEX_INIT(RANK_LIFE);
static _Atomic bool ready;

// Options that every operation must meet.
static void close_doors_by_options(void)
{
	if (options.front == FRONT_CPU && processors_init())
		doors_close(DOOR_CPU);
	if (options.junk != JUNK_NEVER || options.zero || options.zero_size_null)
		doors_close(DOOR_FILL);
	if (!options.tcache || umem_options.no_magazines)
		doors_close(DOOR_NOCACHE);
}

static void take_umem_options(void)
{
	umem_options_read();
	if (umem_options.concurrency != 0)
		options.narenas = (unsigned)umem_options.concurrency;
	if (umem_options.thread_cache == 0) {
		options.front = FRONT_CPU;
		umem_options.thread_cache = UMEM_UNBOUNDED;
	}
	options.magazine_bytes = (unsigned)min_size(options.magazine_bytes, umem_options.thread_cache >> LG_BOUND_PARTS);
	if (umem_options.sbrk && options.heap_source[0] == '\0')
		memcpy(options.heap_source, "sbrk", sizeof "sbrk");
}

// Under the lock of the first use.
static COLD bool make_ready(void)
{
	options_read();
	if (!page_map_init() || !chunks_init())
		return false;
	magazines_init();
	caches_init(heap_make_room, reclaim_expect_bytes, sampling_object_moved);
	os_process_begins();
	os_thread_exit_hook(OS_THREAD_END_HEAP, front_end);
	take_umem_options();
	if (options.heap_source[0] != '\0')
		arenas_set_source(source_of_words(options.heap_source));
	debug_begin();
	close_doors_by_options();
	sampling_init();
	fronts_watch_sizes();
	interval_init();
	atomic_store_explicit(&ready, true, memory_order_release);
	return true;
}

// What it asks of the program (_umem_debug_init) may allocate: there is no memory for that, as in libumem.
static COLD bool first_use_begins(void)
{
	static __thread bool begins;
	bool done;

	if (begins)
		return false;
	mutex_lock(&first_use);
	begins = true;
	done = atomic_load_explicit(&ready, memory_order_relaxed) || make_ready();
	begins = false;
	mutex_unlock(&first_use);
	if (done)
		sampling_look();
	return done;
}

bool heap_ready(void)
{
	return LIKELY(atomic_load_explicit(&ready, memory_order_acquire)) || first_use_begins();
}

void *heap_no_memory(void)
{
	if (options.xmalloc)
		guard_report("malloc", GUARD_NOWHERE, "no memory, and the option xmalloc is set", 0);
	errno = ENOMEM;
	return NULL;
}

// NULL in a hook of the program (door_around_hooks).
static struct front *front_outside_hooks(void)
{
	struct front *front = front_get();

	return UNLIKELY((words.door & DOOR_HOOKS) != 0) ? NULL : front;
}

// Where an operation goes whose thread has no front: past its end, in a hook, or no memory for one.
static struct arena *arena_without_front(void)
{
	if (!heap_ready())
		return NULL;
	return arena_make_automatic(0);
}

bool heap_trim(void)
{
	return atomic_load_explicit(&ready, memory_order_acquire) && reclaim_everything();
}

bool heap_make_room(void)
{
	return atomic_load_explicit(&ready, memory_order_acquire) && reclaim_room();
}

struct arena *heap_own_arena(void)
{
	struct front *front = front_outside_hooks();

	return front != NULL ? front->arena : arena_without_front();
}

struct arena *heap_run_arena(size_t size)
{
	struct front *front = front_outside_hooks();
	struct arena *arena;

	if (front == NULL || front->keeps || size <= MAGAZINE_MOST)
		return heap_own_arena();
	arena = front->arena;
	if (size > KEPT_MOST) {
		arenas_look();
		arena = arena_common(front->arena);
	}
	return arena_for_run(arena, size);
}

static void *alloc_one(unsigned class)
{
	struct front *front = front_outside_hooks();
	bool own = front != NULL && (words.door & DOOR_NOCACHE) != 0; // without magazines threads would wait for each other
	struct arena *arena = front == NULL ? arena_without_front() : own ? front->arena : front_arena(front, class);
	void *object;

	return arena != NULL && arena_fill(arena, class, &object, 1) == 1 ? object : NULL;
}

static void *alloc_by_thread(struct front *front, unsigned class)
{
	void *object = front_pop(front, class);

	while (object == NULL && front_refill(front, class))
		object = front_pop(front, class);
	return LIKELY(object != NULL) ? object : front_last(front, class);
}

// Before an allocation fails, all that can be given back is, and it is tried once more.
static void *alloc_class(unsigned class)
{
	struct front *front = door_front();
	void *object = NULL;

	if (LIKELY(front != NULL))
		object = door_leads_to_cpu() ? cpu_front_alloc(class) : alloc_by_thread(front, class);
	if (object == NULL)
		object = alloc_one(class);
	if (object == NULL && heap_make_room())
		object = alloc_one(class);
	return object;
}

static void *run_in(struct arena *arena, size_t size, size_t align, unsigned class, bool *zeroed)
{
	if (arena == NULL || !page_map_has_room(size, align))
		return NULL;
	sampling_look();
	return large_alloc(arena, size, align, class, zeroed);
}

// What there is no room for in any case is refused as it is: who asks for it shall not empty everybody's magazines.
static bool may_help(size_t size, size_t align)
{
	return page_map_has_room(size, align) && heap_make_room();
}

static void *alloc_run_in(struct arena *arena, size_t size, size_t align, unsigned class, bool *zeroed)
{
	void *object = run_in(arena, size, align, class, zeroed);

	return object == NULL && may_help(size, align) ? run_in(arena, size, align, class, zeroed) : object;
}

// What magazines keep comes from the arena whose objects they are, lest each free send it home. `class` 0: they keep none of it.
static struct arena *arena_of_run(size_t size, unsigned class)
{
	struct front *front = class == 0 ? NULL : door_front();

	return front != NULL ? front_arena(front, class) : heap_run_arena(size);
}

// When everything was given back nobody has pages to lend: what magazines do not keep is asked of the own arena then.
static void *alloc_run(size_t size, size_t align, unsigned class, bool *zeroed)
{
	void *object = run_in(arena_of_run(size, class), size, align, class, zeroed);

	return object == NULL && may_help(size, align) ? run_in(arena_of_run(size, class), size, align, class, zeroed) : object;
}

static inline __attribute__((always_inline)) bool is_sampled(unsigned line, size_t bytes)
{
	struct front *front = front_at_once();

	return UNLIKELY(atomic_load_explicit(&profile_settings.active, memory_order_relaxed)) && front != NULL &&
	       (words.door & DOOR_HOOKS) == 0 && profile_is_hit(&front->profile, words.until, line, bytes);
}

bool heap_is_sampled(size_t bytes)
{
	unsigned class = bytes <= SMALL_MOST ? size_class_small[bytes] : 0;

	return is_sampled(size_class_bytes[class] == bytes ? class : 0, bytes);
}

bool heap_is_sampled_on(unsigned line, size_t bytes)
{
	return is_sampled(line, bytes);
}

// A page run of its own.
static void *run_for_sample(struct arena *arena, size_t bytes, size_t align, uint32_t tally, bool *zeroed)
{
	void *object = alloc_run_in(arena, bytes, align, 0, zeroed);

	if (object != NULL)
		large_set_sample(object, tally);
	return object;
}

// What is a page run anyway comes out of its magazine.
static void *marked_for_sample(unsigned class, uint32_t tally)
{
	void *object = LIKELY(words.door == 0) ? front_pop(words.front, class) : NULL;

	if (object == NULL)
		object = alloc_class(class);
	if (object != NULL)
		large_mark(object, tally);
	return object;
}

// Small ones lie side by side.
static void *small_for_sample(struct arena *arena, size_t bytes, uint32_t tally, bool *zeroed)
{
	if (zeroed != NULL)
		*zeroed = false;
	sampling_look();
	return samples_alloc(arena, size_class_small[bytes], tally);
}

// Objects of a small class are as aligned as its size allows.
static bool is_small(size_t bytes, size_t align)
{
	return bytes <= SMALL_MOST && (align == 0 || (bytes & (align - 1)) == 0);
}

static bool is_medium(size_t bytes)
{
	return bytes - SLAB_MOST - 1 < MAGAZINE_MOST - SLAB_MOST;
}

// Every free of it comes by here, whatever its size.
void *heap_alloc_sampled(struct arena *arena, size_t bytes, size_t align, bool *zeroed)
{
	struct profile_thread *self = &words.front->profile;
	uint32_t tally = profile_record(self, bytes, arena->id);
	bool marked = is_medium(bytes) && align == 0 && zeroed == NULL && arena == words.front->arena;
	void *object = is_small(bytes, align) ? small_for_sample(arena, bytes, tally, zeroed) : NULL;

	if (object == NULL)
		object = marked ? marked_for_sample(size_class(bytes), tally) : run_for_sample(arena, bytes, align, tally, zeroed);

	if (object != NULL) {
		os_probe_alloc(object, bytes, tally_weighted_bytes(tally, bytes));
	} else if (tally != 0)
		tally_cancel(tally);
	profile_look(self, chunks_mapped_bytes());
	return object;
}

// What every allocation ends with.
static inline void *allocated(void *object, size_t bytes)
{
	if (UNLIKELY(object == NULL))
		return heap_no_memory();
	if (UNLIKELY((words.door & ~DOOR_CPU) != 0))
		door_allocated(words.front, object, bytes);
	return object;
}

void *heap_plain_malloc(size_t size)
{
	COUNT_SERVES(COUNT_MALLOC);
	void *object;
	unsigned class;

	if (UNLIKELY(size > PTRDIFF_MAX))
		return heap_no_memory();
	if (UNLIKELY(size == 0 && heap_ready() && options.zero_size_null))
		return NULL;
	class = size_class(size);
	if (is_sampled(class < SMALL_CLASSES ? class : 0, class_size(class)))
		object = heap_alloc_sampled(words.front->arena, class_size(class), 0, NULL);
	else
		object = class < CLASSES ? alloc_class(class) : alloc_run(class_size(class), 0, 0, NULL);
	return allocated(object, class_size(class));
}

void *heap_malloc(size_t size)
{
	return debugging() ? debug_alloc(GUARD_MALLOC, size, 0) : heap_plain_malloc(size);
}

void *heap_malloc_some(size_t size)
{
	bool would_be_null = UNLIKELY(size == 0) && heap_ready() && options.zero_size_null && !debugging();

	return heap_malloc(would_be_null ? 1 : size);
}

// The fast path once more, for calloc, realloc and aligned allocation; what it misses.
static __attribute__((noinline)) void *plain_malloc_missed(size_t size)
{
	void *object = missed_malloc(size);

	return object != NULL ? object : heap_plain_malloc(size);
}

static __attribute__((noinline)) void *malloc_missed_twice(size_t size)
{
	return debugging() ? debug_alloc(GUARD_MALLOC, size, 0) : plain_malloc_missed(size);
}

static __attribute__((noinline)) void *malloc_sampled(size_t size)
{
	return sampled_malloc(size, malloc_missed_twice, malloc_missed_twice);
}

__attribute__((noinline)) void *heap_malloc_missed(size_t size)
{
	return cpu_fast_malloc(size, malloc_sampled, malloc_missed_twice);
}

void heap_zero(void *object, size_t from, size_t to)
{
	if (to - from < CLEAR_BY_PURGE || !large_clear(object, from, to))
		memset((char *)object + from, 0, to - from);
}

static __attribute__((noinline)) void *calloc_run(size_t size, unsigned class)
{
	bool zeroed = false, sampled = heap_is_sampled(class_size(class));
	struct front *front = (words.door & DOOR_HOOKS) != 0 ? NULL : words.front;
	void *object = !sampled && class < CLASSES && front != NULL ? front_pop(front, class) : NULL;

	if (!sampled && class < CLASSES && UNLIKELY(door_leads_to_cpu()))
		object = cpu_front_take(class);
	if (sampled)
		object = heap_alloc_sampled(words.front->arena, class_size(class), 0, &zeroed);
	else if (object == NULL)
		object = alloc_run(class_size(class), 0, class < CLASSES ? class : 0, &zeroed);
	object = allocated(object, class_size(class));
	if (object != NULL && (!zeroed || options.junk != JUNK_NEVER))
		heap_zero(object, 0, size);
	return object;
}

static __attribute__((noinline)) void *calloc_missed(size_t bytes)
{
	void *object;

	if (bytes > PTRDIFF_MAX)
		return heap_no_memory();
	if (bytes > SLAB_MOST && !debugging())
		return calloc_run(bytes, size_class(bytes));
	object = heap_malloc_missed(bytes);
	return object == NULL ? NULL : memset(object, 0, debugging() ? bytes : class_round(bytes));
}

// Of an object in a slab all that malloc_usable_size tells is zero, as other allocators leave it; of a page run what was asked for, lest the rest become
// resident.
void *heap_calloc(size_t count, size_t size)
{
	size_t bytes;
	void *object;

	if (__builtin_mul_overflow(count, size, &bytes))
		bytes = SIZE_MAX;
	object = cpu_fast_pop(bytes);
	return UNLIKELY(object == NULL) ? calloc_missed(bytes) : memset(object, 0, size_class_bytes[size_class_small[bytes]]);
}

static size_t aligned_size(size_t align, size_t size)
{
	if (align <= os_page_size())
		return class_size(size_class(aligned_request(align, size)));
	return class_round(max_size(size, RUN_LEAST));
}

size_t heap_size_for(size_t align, size_t size)
{
	size_t bytes;

	if (align > PTRDIFF_MAX || size > PTRDIFF_MAX - align)
		return 0;
	bytes = align == 0 ? class_round(size) : aligned_size(align, size);
	return bytes > PTRDIFF_MAX ? 0 : bytes;
}

void *heap_plain_aligned(size_t align, size_t size)
{
	void *object;
	size_t bytes;
	unsigned class;

	if (align > PTRDIFF_MAX || size > PTRDIFF_MAX - align)
		return heap_no_memory();
	bytes = aligned_size(align, size);
	if (align <= os_page_size())
		return fast_malloc(bytes, plain_malloc_missed);
	class = size_class(bytes);
	if (heap_is_sampled(bytes))
		object = heap_alloc_sampled(words.front->arena, bytes, align, NULL);
	else
		object = alloc_run(bytes, align, class < CLASSES ? class : 0, NULL);
	return allocated(object, bytes);
}

static __attribute__((noinline)) void *aligned_missed(size_t align, size_t size)
{
	return debugging() ? debug_alloc(GUARD_MALLOC, size, align) : heap_plain_aligned(align, size);
}

enum { ALIGN_SERVED = 4096 }; // a page at least, at which slabs and page runs begin: it is a matter of the size

static __attribute__((noinline)) void *served_missed(size_t align, size_t size)
{
	return debugging() ? debug_alloc(GUARD_MALLOC, size, align) : plain_malloc_missed(aligned_request(align, size));
}

void *heap_aligned(size_t align, size_t size)
{
	void *object;

	if (UNLIKELY(align - 1 >= ALIGN_SERVED || size >= PTRDIFF_MAX))
		return aligned_missed(align, size);
	object = cpu_fast_pop(aligned_request(align, size));
	return UNLIKELY(object == NULL) ? served_missed(align, size) : object;
}

// All locks, in the order of their ranks.
void heap_fork_prepare(void)
{
	mutex_fork_lock(&first_use);
	os_thread_forks();
	reclaim_fork_prepare();
	mutex_fork_begin();
	guard_fork_prepare();
	explicit_caches_fork_prepare();
	fronts_fork_prepare();
	processors_fork_prepare();
	trace_fork_prepare();
	profile_fork_prepare();
	arenas_fork_prepare();
	mutex_fork_lock(&heap_arena.lock);
	resources_fork_prepare();
	page_map_fork_prepare();
	base_fork_prepare();
}

bool heap_fork_prepare_alone(void)
{
	return fronts_live() == (words.front != NULL) && reclaim_may_be_unseen() && reclaim_fork_prepare();
}

void heap_fork_done_alone(bool child)
{
	if (child)
		os_process_begins();
	if (child && words.front != NULL)
		words.front->thread = os_thread_in_process();
	reclaim_fork_done(child);
}

void heap_fork_done(bool child)
{
	base_fork_done();
	page_map_fork_done();
	resources_fork_done(child);
	mutex_fork_unlock(&heap_arena.lock);
	arenas_fork_done(child);
	profile_fork_done(child);
	trace_fork_done(child, words.front == NULL ? NULL : words.front->tracer);
	processors_fork_done(child);
	fronts_fork_done(child);
	if (child)
		fronts_watch_sizes(); // sampling may just have been switched
	explicit_caches_fork_done(child);
	guard_fork_done(child);
	mutex_fork_end();
	if (child)
		mutex_figures_fork_child();
	reclaim_fork_done(child);
	mutex_fork_unlock(&first_use);
}
