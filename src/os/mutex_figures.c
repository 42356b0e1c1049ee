// Figures of mutexes: the table of waits.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/mutex_figures.h"

#include <stddef.h>

enum {
	PLACES = 512,
	STEPS = 8,
	LG_MUTEX = 3,
	LOOKS_A_WAIT = 512, // some microseconds in all
};

struct waits {
	const struct mutex *_Atomic mutex;
	_Atomic uint64_t waits, spins, wait_ns, most_wait_ns;
	_Atomic uint32_t waiting, most_waiting, ops_high, looks;
};

static struct waits table[PLACES];
static _Atomic uint64_t waits_ever;
static _Atomic bool anyone_waited;

static size_t place_of(const struct mutex *mutex)
{
	return (size_t)(hash_bits((uintptr_t)mutex >> LG_MUTEX, 32)) % PLACES;
}

// NULL: it never waited, or found no place. Places are not left again, so that an empty one ends the search.
static struct waits *find(const struct mutex *mutex)
{
	size_t place = place_of(mutex);

	if (!atomic_load_explicit(&anyone_waited, memory_order_relaxed))
		return NULL;
	for (unsigned step = 0; step < STEPS; step++) {
		struct waits *waits = &table[(place + step) % PLACES];
		const struct mutex *there = atomic_load_explicit(&waits->mutex, memory_order_relaxed);

		if (there == mutex)
			return waits;
		if (there == NULL)
			return NULL;
	}
	return NULL;
}

static struct waits *find_or_enter(const struct mutex *mutex)
{
	struct waits *waits = find(mutex);
	size_t place = place_of(mutex);

	atomic_store_explicit(&anyone_waited, true, memory_order_relaxed);
	for (unsigned step = 0; waits == NULL && step < STEPS; step++) {
		const struct mutex *none = NULL;
		struct waits *at = &table[(place + step) % PLACES];

		if (atomic_compare_exchange_strong(&at->mutex, &none, mutex) || none == mutex)
			waits = at;
	}
	return waits;
}

static void raise_to_u64(_Atomic uint64_t *most, uint64_t value)
{
	uint64_t seen = atomic_load_explicit(most, memory_order_relaxed);

	while (seen < value && !atomic_compare_exchange_weak_explicit(most, &seen, value, memory_order_relaxed, memory_order_relaxed))
		;
}

static void raise_to_u32(_Atomic uint32_t *most, uint32_t value)
{
	uint32_t seen = atomic_load_explicit(most, memory_order_relaxed);

	while (seen < value && !atomic_compare_exchange_weak_explicit(most, &seen, value, memory_order_relaxed, memory_order_relaxed))
		;
}

// Added up for each mutex, not in the line that all would have in common.
static void add_looks(struct waits *waits, unsigned more)
{
	uint32_t before = atomic_fetch_add_explicit(&waits->looks, more, memory_order_relaxed);

	if ((before ^ (before + more)) & -LOOKS_A_WAIT)
		atomic_fetch_add_explicit(&waits_ever, 1, memory_order_relaxed);
}

void mutex_spun(const struct mutex *mutex, unsigned looks)
{
	struct waits *waits = find_or_enter(mutex);

	if (waits == NULL)
		return;
	atomic_fetch_add_explicit(&waits->spins, 1, memory_order_relaxed);
	add_looks(waits, looks);
}

void mutex_wait_begins(const struct mutex *mutex)
{
	struct waits *waits = find_or_enter(mutex);

	atomic_fetch_add_explicit(&waits_ever, 1, memory_order_relaxed);
	if (waits != NULL)
		raise_to_u32(&waits->most_waiting, atomic_fetch_add_explicit(&waits->waiting, 1, memory_order_relaxed) + 1);
}

uint64_t mutex_waits_ever(void)
{
	return atomic_load_explicit(&waits_ever, memory_order_relaxed);
}

void mutex_wait_ends(const struct mutex *mutex, uint64_t ns)
{
	struct waits *waits = find(mutex);

	if (waits == NULL)
		return;
	atomic_fetch_sub_explicit(&waits->waiting, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&waits->waits, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&waits->wait_ns, ns, memory_order_relaxed);
	raise_to_u64(&waits->most_wait_ns, ns);
}

void mutex_ops_run_over(const struct mutex *mutex)
{
	struct waits *waits = find_or_enter(mutex);

	if (waits != NULL)
		atomic_fetch_add_explicit(&waits->ops_high, 1, memory_order_relaxed);
}

void mutex_figures_add(struct mutex_figures *to, const struct mutex *mutex)
{
	const struct waits *waits = find(mutex);
	struct mutex_figures figures = { 0 };

	to->ops += __atomic_load_n(&mutex->ops, __ATOMIC_RELAXED);
	if (waits == NULL)
		return;
	figures.ops = (uint64_t)atomic_load_explicit(&waits->ops_high, memory_order_relaxed) << 32;
	figures.waits = atomic_load_explicit(&waits->waits, memory_order_relaxed);
	figures.spins = atomic_load_explicit(&waits->spins, memory_order_relaxed);
	figures.wait_ns = atomic_load_explicit(&waits->wait_ns, memory_order_relaxed);
	figures.most_wait_ns = atomic_load_explicit(&waits->most_wait_ns, memory_order_relaxed);
	figures.most_waiting = atomic_load_explicit(&waits->most_waiting, memory_order_relaxed);
	mutex_figures_join(to, &figures);
}

void mutex_figures_join(struct mutex_figures *to, const struct mutex_figures *from)
{
	to->ops += from->ops;
	if (from->waits + from->spins == 0)
		return;
	to->waits += from->waits;
	to->spins += from->spins;
	to->wait_ns += from->wait_ns;
	to->most_wait_ns = from->most_wait_ns > to->most_wait_ns ? from->most_wait_ns : to->most_wait_ns;
	to->most_waiting = from->most_waiting > to->most_waiting ? from->most_waiting : to->most_waiting;
}

// Those who wait now go on waiting.
void mutex_figures_forget(const struct mutex *mutex)
{
	struct waits *waits = find(mutex);

	if (waits == NULL)
		return;
	atomic_store_explicit(&waits->ops_high, 0, memory_order_relaxed);
	atomic_store_explicit(&waits->waits, 0, memory_order_relaxed);
	atomic_store_explicit(&waits->spins, 0, memory_order_relaxed);
	atomic_store_explicit(&waits->wait_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&waits->most_wait_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&waits->most_waiting, 0, memory_order_relaxed);
}

void mutex_figures_reset(struct mutex *mutex)
{
	mutex_lock(mutex);
	__atomic_store_n(&mutex->ops, 0, __ATOMIC_RELAXED);
	mutex_unlock(mutex);
	mutex_figures_forget(mutex);
}

void mutex_figures_fork_child(void)
{
	for (size_t i = 0; atomic_load_explicit(&anyone_waited, memory_order_relaxed) && i < PLACES; i++)
		if (atomic_load_explicit(&table[i].mutex, memory_order_relaxed) != NULL)
			atomic_store_explicit(&table[i].waiting, 0, memory_order_relaxed);
}
