// Resource arenas: creation, flags, waiting, and misuse told.
// SPDX-License-Identifier: BSD-2-Clause
#include "vmem/resource.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "guard/report.h"
#include "os/clock.h"
#include "os/file.h"
#include "util/bits.h"

enum { FIRST_WAIT_MS = 10, LONGEST_WAIT_MS = 500 };

static struct {
	struct mutex lock;
	// Under lock.
	struct vmag_vmem *first, *last;
	uint64_t number;
	// Written by a fork's child, while it has one thread.
	unsigned forks; // that led here: whoever waited before is forgotten
} resources = { .lock = MUTEX_INIT(RANK_RESOURCES) };

void resource_publish(struct vmag_vmem *arena)
{
	mutex_lock(&resources.lock);
	arena->number = ++resources.number;
	arena->next = NULL;
	arena->previous = resources.last;
	if (resources.last != NULL)
		resources.last->next = arena;
	else
		resources.first = arena;
	resources.last = arena;
	mutex_unlock(&resources.lock);
}

static bool list_remove(struct vmag_vmem *arena)
{
	mutex_lock(&resources.lock);
	bool pinned = arena->pins > 0;
	if (!pinned && arena->number != 0) {
		*(arena->previous != NULL ? &arena->previous->next : &resources.first) = arena->next;
		*(arena->next != NULL ? &arena->next->previous : &resources.last) = arena->previous;
	}
	mutex_unlock(&resources.lock);
	return !pinned;
}

// Pins the arena behind this pinned one, which it unpins; NULL: the first, and none.
static struct vmag_vmem *pin_next(struct vmag_vmem *arena)
{
	struct vmag_vmem *next;

	mutex_lock(&resources.lock);
	next = arena != NULL ? arena->next : resources.first;
	if (arena != NULL && arena->pins > 0) // none in the child of a fork
		arena->pins--;
	if (next != NULL)
		next->pins++;
	mutex_unlock(&resources.lock);
	return next;
}

void resource_each(void (*function)(void *argument, struct vmag_vmem *arena), void *argument)
{
	for (struct vmag_vmem *arena = NULL; (arena = pin_next(arena)) != NULL;)
		function(argument, arena);
}

// Sleeps until the root's arenas change or some time has passed, more each time.
static void sleep_on(struct vmag_vmem *arena, uint32_t changes, uint64_t *wait_ms)
{
	os_word_wait(&arena->root->changes, changes, *wait_ms);
	*wait_ms = min_size(*wait_ms * 2, LONGEST_WAIT_MS);
}

void resource_tell(struct vmag_vmem *arena)
{
	if (LIKELY(!resource_is_awaited(arena)))
		return;
	atomic_fetch_add_explicit(&arena->root->changes, 1, memory_order_release);
	os_word_wake_all(&arena->root->changes);
}

static bool may_sleep(int flags)
{
	return (flags & (VMAG_VM_NOSLEEP | VMAG_VM_PANIC)) == 0;
}

static __thread unsigned importing; // how deep this thread is in imports

static void note_span(struct vmag_vmem *arena, uintptr_t start, size_t size)
{
	mutex_lock(&arena->segments.lock);
	if (arena->spans_to == 0 || start < arena->spans_from)
		arena->spans_from = start;
	arena->spans_to = max_size(arena->spans_to, start + size);
	mutex_unlock(&arena->segments.lock);
}

// Whether the arena has one of these integers. Who adds many spans does it in order of their addresses, mostly, and need not look at each before each.
static bool has_some_of(struct vmag_vmem *arena, uintptr_t start, size_t size)
{
	mutex_lock(&arena->segments.lock);
	bool apart = start >= arena->spans_to || start + size <= arena->spans_from;
	mutex_unlock(&arena->segments.lock);
	return !apart && vmem_overlaps(&arena->segments, start, size);
}

// The flags beyond the lowest byte are the policy of this arena alone.
static uintptr_t import(void *arena_, size_t size, int flags)
{
	struct vmag_vmem *arena = arena_;
	uintptr_t start;

	importing++;
	start = (uintptr_t)arena->import(arena->source, size, (flags & 0xff & ~VMAG_VM_PANIC) | VMAG_VM_NOSLEEP);
	importing--;

	if ((start & (((size_t)1 << arena->segments.lg_quantum) - 1)) != 0)
		guard_report_in("import", (void *)start, arena->name, "not aligned to the arena's quantum, %zu",
				(size_t)1 << arena->segments.lg_quantum);
	if (start > UINTPTR_MAX - size)
		guard_report_in("import", (void *)start, arena->name, "%zu bytes from there wrap around", size);
	if (start != 0)
		note_span(arena, start, size);
	return start;
}

static void release(void *arena_, uintptr_t start, size_t size)
{
	struct vmag_vmem *arena = arena_;

	arena->release(arena->source, (void *)start, size);
}

static bool is_span(uintptr_t start, size_t size, size_t quantum)
{
	return start != 0 && start <= UINTPTR_MAX - size && ((start | size) & (quantum - 1)) == 0;
}

// The name is copied without '%', for it becomes part of formats, and without what would end a line.
static void set_name(struct vmag_vmem *arena, const char *name)
{
	size_t length = strnlen(name, RESOURCE_NAME_BYTES - 1);

	for (size_t i = 0; i < length; i++)
		arena->name[i] = name[i] == '%' || (unsigned char)name[i] < ' ' ? '_' : name[i];
	arena->name[length] = 0;
}

static struct vmag_vmem *new_arena(int flags)
{
	struct vmag_vmem *arena;
	_Atomic uint32_t never = 0;

	while ((arena = base_alloc(sizeof *arena)) == NULL && may_sleep(flags))
		os_word_wait(&never, 0, FIRST_WAIT_MS);
	if (arena == NULL)
		errno = ENOMEM;
	else
		memset(arena, 0, sizeof *arena);
	return arena;
}

struct vmag_vmem *resource_create(const char *name, uintptr_t base, size_t size, size_t quantum, vmag_vmem_alloc_t *import_,
				  vmag_vmem_free_t *release_, struct vmag_vmem *source, size_t qcache_max, int flags)
{
	struct vmag_vmem *arena;
	size_t unit;

	if (name == NULL || !is_power_of_two(quantum) || (size != 0 && !is_span(base, size, quantum)) ||
	    (import_ == NULL && release_ != NULL)) {
		errno = EINVAL;
		return NULL;
	}
	if ((arena = new_arena(flags)) == NULL)
		return NULL;
	set_name(arena, name);
	vmem_init(&arena->segments, arena->name, lg_floor(quantum), VMEM_INSTANTFIT, RANK_RESOURCE);
	unit = source == NULL ? quantum : max_size(quantum, (size_t)1 << source->segments.lg_quantum);
	if (import_ != NULL)
		vmem_import_from(&arena->segments, arena, import, release_ != NULL ? release : NULL, unit, quantum);
	arena->lg_quantum = lg_floor(quantum);
	arena->import = import_;
	arena->release = release_;
	arena->source = source;
	arena->root = source == NULL ? arena : source->root;
	arena->qcache_max = min_size(qcache_max / quantum, RESOURCE_QUANTUM_CACHES) * quantum;
	arena->short_free_max = arena->qcache_max;
	if (size != 0 && !resource_add(arena, base, size, flags, "vmag_vmem_create")) {
		vmem_fini(&arena->segments);
		base_free(arena, sizeof *arena);
		errno = ENOMEM;
		return NULL;
	}
	return arena;
}

static void tell_leak(const struct vmag_vmem *arena, size_t segments)
{
	os_stderr_say("vmag: vmag_vmem_destroy: arena \"%s\": %zu bytes in %zu segments are still allocated", arena->name,
		      atomic_load_explicit(&arena->in_use, memory_order_relaxed), segments);
}

void resource_destroy(struct vmag_vmem *arena)
{
	uint64_t wait_ms = 1;

	while (!list_remove(arena)) // somebody looks at it
		sleep_on(arena, atomic_load(&arena->root->changes), &wait_ms);
	if (arena->segments.segments_allocated > 0)
		tell_leak(arena, arena->segments.segments_allocated);
	vmem_fini(&arena->segments);
	base_free(arena, sizeof *arena);
}

// As in illumos the spans of an arena are by address, unless it imports.
static bool add_span(struct vmem *segments, uintptr_t start, size_t size)
{
	return segments->import == NULL ? vmem_span_add_in_order(segments, start, size) : vmem_span_add(segments, start, size);
}

bool resource_add(struct vmag_vmem *arena, uintptr_t start, size_t size, int flags, const char *call)
{
	uint64_t wait_ms = FIRST_WAIT_MS;

	if (size == 0 || !is_span(start, size, (size_t)1 << arena->segments.lg_quantum))
		guard_report_in(call, (void *)start, arena->name, "not a span of the arena's quantum: %zu bytes", size);
	if (has_some_of(arena, start, size))
		guard_report_in(call, (void *)start, arena->name, "the arena has some of these %zu integers already", size);
	note_span(arena, start, size);
	while (!add_span(&arena->segments, start, size)) {
		if (!may_sleep(flags)) {
			errno = ENOMEM;
			return false;
		}
		sleep_on(arena, atomic_load(&arena->root->changes), &wait_ms);
	}
	resource_tell(arena);
	return true;
}

static enum vmem_policy policy_of(const struct vmag_vmem *arena, int flags)
{
	if ((flags & (VMAG_VM_NEXTFIT | VMAG_VM_BESTFIT | VMAG_VM_FIRSTFIT)) == 0)
		flags = arena->policy;
	if (flags & VMAG_VM_NEXTFIT)
		return VMEM_NEXTFIT;
	if (flags & VMAG_VM_BESTFIT)
		return VMEM_BESTFIT;
	return flags & VMAG_VM_FIRSTFIT ? VMEM_FIRSTFIT : VMEM_INSTANTFIT;
}

struct request {
	struct vmag_vmem *arena;
	size_t size;
	const struct vmem_constraint *constraint;
	int flags;
};

// Of the last quantum.
static size_t unused_of(const struct vmag_vmem *arena, size_t size)
{
	return -size & (((size_t)1 << arena->lg_quantum) - 1);
}

static uintptr_t attempt(void *request_)
{
	const struct request *request = request_;
	struct vmag_vmem *arena = request->arena;
	uintptr_t start = vmem_segment_xalloc(&arena->segments, request->size, request->constraint, policy_of(arena, request->flags),
					      request->flags).start;

	if (start == 0)
		return 0;
	atomic_fetch_add_explicit(&arena->in_use, request->size, memory_order_relaxed);
	if (UNLIKELY(unused_of(arena, request->size) != 0)) {
		vmem_segment_set_unused(&arena->segments, start, unused_of(arena, request->size));
		atomic_fetch_add(&arena->uneven, 1);
	}
	return start;
}

void (*resource_shortage)(struct vmag_vmem *root);

// Whether more may be there now. Of a request that is an import for another arena that one sees to it, once for all below.
static bool others_gave(struct vmag_vmem *arena, size_t size, int flags)
{
	void (*shortage)(struct vmag_vmem *) = __atomic_load_n(&resource_shortage, __ATOMIC_RELAXED);

	if (shortage == NULL || (importing > 0 && !may_sleep(flags)))
		return false;
	if (arena->import == NULL && size > __atomic_load_n(&arena->segments.total_bytes, __ATOMIC_RELAXED))
		return false;
	shortage(arena->root);
	return true;
}

uintptr_t resource_try(struct vmag_vmem *arena, size_t size, int flags)
{
	struct request request = { arena, size, NULL, flags };

	return attempt(&request);
}

// Under the arena's lock, so that the two go together.
void resource_take_care(struct vmag_vmem *arena, int by)
{
	mutex_lock(&arena->segments.lock);
	uint32_t care = atomic_fetch_add(&arena->care, (uint32_t)by) + (uint32_t)by;

	__atomic_store_n(&arena->short_free_max, care == 0 ? arena->qcache_max : 0, __ATOMIC_SEQ_CST);
	mutex_unlock(&arena->segments.lock);
}

static void count_waiter(struct vmag_vmem *arena, int by)
{
	for (; arena != NULL; arena = arena->source) {
		atomic_fetch_add(&arena->waiters, (uint32_t)by);
		resource_take_care(arena, by);
	}
}

// Until it is there.
static uintptr_t wait_for(struct vmag_vmem *arena, uintptr_t (*try)(void *context), void *context, size_t size)
{
	uint64_t wait_ms = FIRST_WAIT_MS;
	unsigned forks = resources.forks;
	uintptr_t start;

	count_waiter(arena, 1);
	for (;;) {
		uint32_t changes = atomic_load(&arena->root->changes);

		start = try(context);
		if (start == 0 && others_gave(arena, size, VMAG_VM_SLEEP)) {
			changes = atomic_load(&arena->root->changes); // not what this thread itself has given meanwhile
			start = try(context);
		}
		if (UNLIKELY(forks != resources.forks)) { // an import forked, and this is the child
			forks = resources.forks;
			count_waiter(arena, 1);
		}
		if (start != 0)
			break;
		atomic_fetch_add_explicit(&arena->waits, 1, memory_order_relaxed);
		sleep_on(arena, changes, &wait_ms);
	}
	count_waiter(arena, -1);
	return start;
}

uintptr_t resource_obtain(struct vmag_vmem *arena, uintptr_t (*try)(void *context), void *context, size_t size, int flags,
			  const char *call)
{
	int saved = errno;
	uintptr_t start = try(context);

	if (LIKELY(start != 0))
		return start;
	if (others_gave(arena, size, flags))
		start = try(context);
	if (start == 0 && may_sleep(flags))
		start = wait_for(arena, try, context, size);
	if (start != 0)
		errno = saved;
	else {
		atomic_fetch_add_explicit(&arena->fails, 1, memory_order_relaxed);
		if (flags & VMAG_VM_PANIC)
			guard_report_in(call, GUARD_NOWHERE, arena->name, "no room for %zu bytes, and the flags say VM_PANIC", size);
		errno = ENOMEM;
	}
	return start;
}

uintptr_t resource_xalloc(struct vmag_vmem *arena, size_t size, const struct vmem_constraint *constraint, int flags,
			  const char *call)
{
	struct request request = { arena, size, constraint, flags };

	if (size == 0)
		guard_report_in(call, GUARD_NOWHERE, arena->name, "size 0", 0);
	return resource_obtain(arena, attempt, &request, size, flags, call);
}

uintptr_t resource_alloc(struct vmag_vmem *arena, size_t size, int flags, const char *call)
{
	return resource_xalloc(arena, size, NULL, flags, call);
}

_Noreturn static void tell_wrong_free(struct vmag_vmem *arena, uintptr_t start, size_t size, const char *call)
{
	size_t actual = vmem_segment_asked(&arena->segments, start);

	if (actual != 0)
		guard_report_in(call, (void *)start, arena->name, "freed with another size than the segment's, %zu bytes", actual);
	if (vmem_covers(&arena->segments, start, 1))
		guard_report_in(call, (void *)start, arena->name, "no segment of %zu bytes is allocated there", size);
	guard_report_in(call, (void *)start, arena->name, "not an integer of this arena (%zu bytes)", size);
}

void resource_free(struct vmag_vmem *arena, uintptr_t start, size_t size, const char *call)
{
	if (UNLIKELY(atomic_load(&arena->uneven) > 0) || UNLIKELY(unused_of(arena, size) != 0)) {
		if (vmem_segment_asked(&arena->segments, start) != size)
			tell_wrong_free(arena, start, size, call);
		if (unused_of(arena, size) != 0)
			atomic_fetch_sub(&arena->uneven, 1);
	}
	atomic_fetch_sub_explicit(&arena->in_use, size, memory_order_relaxed);
	if (size == 0 || !vmem_segment_free(&arena->segments, start, size, VMEM_CLEAN))
		tell_wrong_free(arena, start, size, call);
	resource_tell(arena);
}

void resources_fork_prepare(void)
{
	mutex_fork_lock(&resources.lock);
	for (struct vmag_vmem *arena = resources.first; arena != NULL; arena = arena->next)
		mutex_fork_lock(&arena->segments.lock);
}

// Other threads, and so all waiters and callbacks, are gone in the child; what they were allocating is lost there.
void resources_fork_done(bool child)
{
	resources.forks += child;
	for (struct vmag_vmem *arena = resources.first; arena != NULL; arena = arena->next) {
		if (child) {
			vmem_cursors_forget_others(&arena->segments);
			atomic_store(&arena->waiters, 0);
			atomic_store(&arena->care, atomic_load(&arena->direct));
			arena->short_free_max = atomic_load(&arena->direct) == 0 ? arena->qcache_max : 0;
			arena->pins = 0;
		}
		mutex_fork_unlock(&arena->segments.lock);
	}
	mutex_fork_unlock(&resources.lock);
}
