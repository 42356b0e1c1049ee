// Samples: small objects that were sampled.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/samples.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "guard/report.h"
#include "os/probe.h"
#include "os/unseen.h"
#include "watch/tally.h"

static const uint32_t NO_TALLY = UINT32_MAX;
static const unsigned char fence[FENCE_BYTES] = {
	0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc, 0xbc,
};

void sample_set_fence(void *object, size_t size)
{
	memcpy((char *)object + size, fence, sizeof fence);
}

// Nothing of ours lies there: when the program's hook has been told, it may go on.
void sample_check_fence(const void *object, size_t size, const char *call)
{
	if (LIKELY(memcmp((const char *)object + size, fence, sizeof fence) == 0))
		return;
	guard_warn(call, object, "written beyond its end: it is an object of %zu bytes", size);
	if (guard_told == NULL)
		os_abort();
}

// Of an object and its fence, a multiple of what the size is a multiple of.
static size_t buffer_bytes(size_t size)
{
	return round_up(size + FENCE_BYTES, size & -size);
}

static struct samples *create(struct arena *arena)
{
	struct samples *samples = base_alloc_table(sizeof *samples);

	for (unsigned class = 1; samples != NULL && class < SMALL_CLASSES; class++)
		bin_init(&samples->bins[class], slab_shape_noted(buffer_bytes(class_size(class))), &arena->pages, (uint16_t)arena->id,
			 (uint16_t)arena_word(arena->id, 0));
	return samples;
}

// Fork holds the lock of the arena's first bin, so that there are as many locks before it as behind it.
static __attribute__((noinline)) struct samples *make(struct arena *arena)
{
	struct samples *fresh = create(arena), *samples;

	mutex_lock(&arena->bins[1].lock);
	samples = atomic_load_explicit(&arena->samples, memory_order_relaxed);
	if (samples == NULL)
		atomic_store_explicit(&arena->samples, fresh, memory_order_release);
	mutex_unlock(&arena->bins[1].lock);
	if (samples == NULL)
		return fresh;
	if (fresh != NULL)
		base_free_table(fresh, sizeof *fresh);
	return samples;
}

static struct samples *samples_of(struct arena *arena)
{
	return atomic_load_explicit(&arena->samples, memory_order_acquire);
}

struct bin *samples_bin_of(struct arena *arena, unsigned class)
{
	struct samples *samples = samples_of(arena);

	return samples == NULL || class >= SMALL_CLASSES ? NULL : &samples->bins[class];
}

static __attribute__((noinline)) void *take(struct arena *arena, unsigned class)
{
	struct samples *samples = samples_of(arena) != NULL ? samples_of(arena) : make(arena);
	void *buffer = NULL;

	while (samples != NULL && bin_fill(&samples->bins[class], &buffer, 1) == 0)
		if (!bin_grow(&samples->bins[class]))
			return NULL;
	return buffer;
}

static void put(struct bin *bin, void *buffer, const char *call)
{
	size_t done;

	if (bin_drain(bin, &buffer, 1, &done) != BIN_OK)
		guard_report(call, buffer, "not the start of a live object: freed already, or inside one", 0);
}

static inline struct slab *slab_of(struct run *run)
{
	return (struct slab *)(void *)run;
}

// NULL: no object can begin there.
static inline _Atomic uint32_t *note_of(struct run *run, const void *object)
{
	const struct slab_shape *shape = &run->bin->shape;
	long index = slab_index(slab_of(run), shape, object);

	return index < 0 ? NULL : &slab_notes(slab_of(run), shape)[index];
}

static inline unsigned class_of(const struct run *run)
{
	return (unsigned)(run->bin - samples_of(arena_of(run->arena))->bins);
}

size_t samples_bytes(const struct bin *bin)
{
	return class_size((unsigned)(bin - samples_of(arena_of(bin->arena))->bins));
}

void *samples_alloc(struct arena *arena, unsigned class, uint32_t tally)
{
	struct front *front = words.front;
	void *object = LIKELY(front->arena == arena) ? front->samples[class] : NULL;

	if (LIKELY(object != NULL))
		front->samples[class] = NULL;
	else
		object = take(arena, class);
	if (UNLIKELY(object == NULL))
		return NULL;
	sample_set_fence(object, size_class_bytes[class]);
	atomic_store_explicit(note_of(page_map_known_run(object), object), tally != 0 ? tally : NO_TALLY, memory_order_release);
	return object;
}

static void tell_freed(uint32_t note)
{
	if (note != NO_TALLY)
		tally_freed(note);
}

// An explicit arena's objects all go home at once, lest a reset miss one.
static inline bool keep(struct front *front, const struct run *run, unsigned class, void *object)
{
	if (UNLIKELY(front == NULL) || front->arena->id != run->arena || front->arena->is_explicit || front->samples[class] != NULL)
		return false;
	front->samples[class] = object;
	front->has_samples = front->used_samples = true;
	return true;
}

void samples_free(struct run *run, void *object, const char *call)
{
	_Atomic uint32_t *at = note_of(run, object);
	uint32_t note = at == NULL ? 0 : atomic_exchange_explicit(at, 0, memory_order_acq_rel);
	unsigned class = class_of(run);

	if (UNLIKELY(note == 0))
		guard_report(call, object, "not the start of a live object: freed already, or inside one", 0);
	os_probe_free(object);
	tell_freed(note);
	sample_check_fence(object, size_class_bytes[class], "free");
	if (!keep(words.front, run, class, object))
		put(run->bin, object, call);
}

void samples_end_one(struct run *run, const void *object)
{
	_Atomic uint32_t *at = note_of(run, object);

	if (at != NULL && *at != 0)
		tell_freed(atomic_exchange(at, NO_TALLY));
}

size_t samples_size(struct run *run, const void *object)
{
	_Atomic uint32_t *at = note_of(run, object);

	return at == NULL || atomic_load_explicit(at, memory_order_relaxed) == 0 ? 0 : size_class_bytes[class_of(run)];
}

void samples_end(struct run *run)
{
	const struct slab_shape *shape = &run->bin->shape;
	_Atomic uint32_t *notes = slab_notes(slab_of(run), shape);

	for (uint32_t i = 0; i < shape->buffers; i++)
		if (notes[i] != 0) {
			os_probe_free(slab_buffer(slab_of(run), shape, i));
			tell_freed(notes[i]);
		}
}

struct bin *samples_bin(const struct run *run)
{
	struct bin *bin = run == NULL ? NULL : __atomic_load_n(&run->bin, __ATOMIC_RELAXED);
	struct arena *arena = bin == NULL ? NULL : arena_of(__atomic_load_n(&run->arena, __ATOMIC_RELAXED));
	const struct samples *samples = arena == NULL ? NULL : samples_of(arena);

	return samples != NULL && (uintptr_t)bin - (uintptr_t)samples < sizeof *samples ? bin : NULL;
}

void samples_forget(struct arena *arena)
{
	struct samples *samples = samples_of(arena);

	for (unsigned class = 1; samples != NULL && class < SMALL_CLASSES; class++)
		bin_forget(&samples->bins[class]);
}

void samples_give_some(struct front *front)
{
	front->has_samples = false;
	for (unsigned class = 1; class < SMALL_CLASSES; class++) {
		void *buffer = front->samples[class];

		front->samples[class] = NULL;
		if (buffer != NULL)
			put(page_map_known_run(buffer)->bin, buffer, "free");
	}
}

void samples_trim(struct samples *samples, bool always)
{
	for (unsigned class = 1; class < SMALL_CLASSES; class++)
		bin_trim(&samples->bins[class], always);
}

void samples_fork_lock(struct arena *arena)
{
	struct samples *samples = samples_of(arena);

	for (unsigned class = 1; samples != NULL && class < SMALL_CLASSES; class++)
		mutex_fork_lock(&samples->bins[class].lock);
}

void samples_fork_unlock(struct arena *arena)
{
	struct samples *samples = samples_of(arena);

	for (unsigned class = 1; samples != NULL && class < SMALL_CLASSES; class++)
		mutex_fork_unlock(&samples->bins[class].lock);
}
