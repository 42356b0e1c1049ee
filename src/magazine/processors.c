// Fronts of processors: making them, exchanging magazines, stopping all of them.
// SPDX-License-Identifier: BSD-2-Clause
#include "magazine/processors.h"

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "vmag/format.h"

static void *const closed_magazine[2] = { NULL, MAGAZINE_FULL };
#define CLOSED ((void **)(uintptr_t)&closed_magazine[1])

// No processor has that number, and the kernel gives it to no thread that is not registered.
enum { NO_NUMBER = INT32_MIN };
static const struct {
	uint16_t kinds[PROCESSOR_CLASSES];
	int64_t number;
} nowhere = { .number = NO_NUMBER };

void ***cpu_nowhere;

static struct {
	struct mutex lock;
	// Constant after init.
	unsigned numbers;
	struct processor *_Atomic *of; // by number; NULL: not made yet. Written under lock.
	// Under lock.
	unsigned slots; // that may be in use: those below
	unsigned made;  // fronts
	bool stopped;   // all of them, for fork
} processors = { .lock = MUTEX_INIT(RANK_CPU_FRONTS) };

// ---- making

static void set_number(struct processor *processor, int64_t number)
{
	__atomic_store_n((int64_t *)(void *)&processor->tops[-1], number, __ATOMIC_RELEASE);
	__atomic_store_n((int64_t *)(void *)&processor->tops[PROCESSOR_CLASSES - 1], number, __ATOMIC_RELEASE);
}

static void close_slots(void ***tops, unsigned first, unsigned end)
{
	for (unsigned slot = first; slot < end; slot++)
		if (slot != PROCESSOR_CLASSES - 1)
			tops[slot] = CLOSED;
}

bool processors_init(void)
{
	unsigned numbers = os_rseq_numbers();

	if (!os_rseq_init() || rseq_number() >= (int)numbers)
		return false;
	processors.of = base_alloc_pages(numbers * sizeof *processors.of);
	if (processors.of == NULL)
		return false;
	processors.numbers = numbers;
	processors.slots = PROCESSOR_CLASSES;
	cpu_nowhere = (void ***)(uintptr_t)(&nowhere + 1);
	return true;
}

static struct processor *processor_of(unsigned number)
{
	return atomic_load_explicit(&processors.of[number], memory_order_acquire);
}

// All that were made, by number: the one after that, NULL: the first. NULL: no more.
static struct processor *next_made(const struct processor *before)
{
	struct processor *next = NULL;

	for (unsigned number = before == NULL ? 0 : (unsigned)before->number + 1; next == NULL && number < processors.numbers; number++)
		next = processor_of(number);
	return next;
}

void processors_open(unsigned slot)
{
	mutex_lock(&processors.lock);
	unsigned end = (unsigned)max_size(processors.slots, slot + 1);

	for (struct processor *processor = NULL; (processor = next_made(processor)) != NULL;)
		close_slots(processor->tops, processors.slots, end);
	processors.slots = end;
	mutex_unlock(&processors.lock);
}

enum {
	BEFORE_TOPS_BYTES = PROCESSOR_CLASSES * sizeof(uint16_t) + sizeof(void **), // kinds and number
	TOPS_BYTES = BEFORE_TOPS_BYTES + PROCESSOR_SLOTS * (sizeof(void **) + sizeof(struct processor_slot)),
};

static struct processor *create(unsigned number)
{
	struct processor *processor = base_alloc(sizeof *processor);
	char *table = processor == NULL ? NULL : base_alloc_table(TOPS_BYTES);

	if (table == NULL) {
		if (processor != NULL)
			base_free(processor, sizeof *processor);
		return NULL;
	}
	memset(processor, 0, sizeof *processor);
	processor->number = (int)number;
	processor->tops = (void ***)(void *)(table + BEFORE_TOPS_BYTES);
	processor->slots = (struct processor_slot *)(void *)(processor->tops + PROCESSOR_SLOTS);
	mutex_init(&processor->lock, RANK_CPU_FRONT);
	return processor;
}

// Under the lock of all fronts.
static void publish(struct processor *processor, unsigned number)
{
	close_slots(processor->tops, 0, processors.slots);
	processor->place = processors.made++;
	processor->stopped = processors.stopped;
	set_number(processor, processor->stopped ? NO_NUMBER : (int64_t)number);
	atomic_store_explicit(&processors.of[number], processor, memory_order_release);
}

static struct processor *make(unsigned number)
{
	struct processor *fresh = create(number);

	if (fresh == NULL)
		return NULL;
	mutex_lock(&processors.lock);
	bool late = processor_of(number) != NULL;
	if (!late)
		publish(fresh, number);
	mutex_unlock(&processors.lock);
	if (late) {
		base_free_table((char *)(void *)fresh->tops - BEFORE_TOPS_BYTES, TOPS_BYTES);
		base_free(fresh, sizeof *fresh);
	}
	return processor_of(number);
}

static inline struct processor *processor_here(void)
{
	int number = rseq_number();
	struct processor *processor;

	if (UNLIKELY((unsigned)number >= processors.numbers)) // none, or one that the system did not tell of (containers show what they like)
		return NULL;
	processor = processor_of((unsigned)number);
	return LIKELY(processor != NULL) ? processor : make((unsigned)number);
}

void ***processor_tops(void)
{
	struct processor *processor = processor_here();

	return LIKELY(processor != NULL) ? processor->tops : cpu_nowhere;
}

void ***processor_tops_of_caches(void)
{
	struct processor *processor = processor_here();

	return LIKELY(processor != NULL) ? processor->tops + PROCESSOR_CLASSES : cpu_nowhere;
}

// ---- reloading

struct processor *processor_enter(void)
{
	struct processor *processor = processor_here();

	if (processor == NULL)
		return NULL;
	mutex_lock(&processor->lock);
	if (LIKELY(!processor->stopped))
		return processor;
	mutex_unlock(&processor->lock);
	return NULL;
}

void processor_leave(struct processor *processor)
{
	mutex_unlock(&processor->lock);
}

// The slot is closed.
static void load(struct processor *processor, unsigned slot, struct magazine *magazine)
{
	processor->slots[slot].loaded = magazine;
	if (magazine != NULL)
		__atomic_store_n(&processor->tops[slot], magazine->round + magazine->rounds, __ATOMIC_RELEASE);
}

// Takes the loaded magazine out, its rounds counted; the slot is closed. False: this thread has left the processor.
static bool unload(struct processor *processor, unsigned slot, struct magazine **loaded)
{
	void **top;

	if (!rseq_exchange(processor->number, &processor->tops[slot], CLOSED, &top))
		return false;
	*loaded = processor->slots[slot].loaded;
	processor->slots[slot].loaded = NULL;
	if (*loaded != NULL)
		(*loaded)->rounds = (uint32_t)(top - (*loaded)->round);
	return true;
}

enum found processor_find_rounds(struct processor *processor, unsigned slot, unsigned wanted, struct magazine **hand)
{
	struct processor_slot *own = &processor->slots[slot];
	struct magazine *loaded, *previous = own->previous;

	*hand = NULL;
	processor->misses++;
	if (!unload(processor, slot, &loaded))
		return FOUND_MOVED;
	switch (magazine_with_rounds(loaded, previous)) {
	case RELOAD_LOADED: // somebody was faster
		load(processor, slot, loaded);
		return FOUND_RELOADED;
	case RELOAD_PREVIOUS:
		own->exchanges++;
		own->previous = loaded;
		if (loaded != NULL && loaded->capacity < wanted) {
			own->previous = NULL;
			*hand = loaded;
		}
		load(processor, slot, previous);
		return FOUND_RELOADED;
	default:
		*hand = loaded;
		return FOUND_NOTHING;
	}
}

enum found processor_find_slots(struct processor *processor, unsigned slot, struct magazine **hand)
{
	struct processor_slot *own = &processor->slots[slot];
	struct magazine *loaded, *previous = own->previous;

	*hand = NULL;
	processor->misses++;
	if (!unload(processor, slot, &loaded))
		return FOUND_MOVED;
	switch (magazine_with_room(loaded, previous)) {
	case RELOAD_LOADED:
		load(processor, slot, loaded);
		return FOUND_RELOADED;
	case RELOAD_PREVIOUS:
		own->previous = loaded;
		load(processor, slot, previous);
		return FOUND_RELOADED;
	default:
		if (loaded != NULL) {
			own->previous = loaded;
			*hand = previous;
		}
		return FOUND_NOTHING;
	}
}

struct magazine *processor_bring(struct processor *processor, unsigned slot, struct magazine *magazine)
{
	struct magazine *left = NULL;

	mutex_lock(&processor->lock);
	if (processor->stopped)
		left = magazine;
	else if (processor->slots[slot].loaded == NULL)
		load(processor, slot, magazine);
	else if (processor->slots[slot].previous == NULL)
		processor->slots[slot].previous = magazine;
	else
		left = magazine;
	processor_leave(processor);
	return left;
}

// ---- stopping all of them

static void set_all_stopped(bool stopped)
{
	for (struct processor *processor = NULL; (processor = next_made(processor)) != NULL;) {
		mutex_lock(&processor->lock);
		processor->stopped = stopped;
		set_number(processor, stopped ? NO_NUMBER : processor->number);
		mutex_unlock(&processor->lock);
	}
}

// Afterwards no sequence is under way on a front, and none begins. The caller holds the lock of all fronts.
static bool stop_all(void)
{
	set_all_stopped(true);
	return os_rseq_fence();
}

struct collection {
	processor_give *give;
	void *context;
};

static void give_previous(struct processor_slot *slot, unsigned number, const struct collection *collection)
{
	if (slot->previous != NULL && collection->give(collection->context, number, slot->previous))
		slot->previous = NULL;
}

// No sequence is under way on the slot.
static void give_loaded(struct processor *processor, unsigned slot, const struct collection *collection)
{
	struct magazine *loaded = processor->slots[slot].loaded;

	if (loaded == NULL)
		return;
	loaded->rounds = (uint32_t)(processor->tops[slot] - loaded->round);
	if (!collection->give(collection->context, slot, loaded))
		return;
	processor->slots[slot].loaded = NULL;
	processor->tops[slot] = CLOSED;
}

// What was not used since the last look: first the previous magazine, then the loaded one. True: something idle is left.
static bool give_idle(struct processor *processor, unsigned slot, const struct collection *collection)
{
	struct processor_slot *own = &processor->slots[slot];
	bool idle = processor->tops[slot] == own->seen;

	if (idle && own->previous != NULL)
		give_previous(own, slot, collection);
	else if (idle)
		give_loaded(processor, slot, collection);
	if (idle)
		own->batch = 0;
	own->seen = processor->tops[slot];
	return idle && own->loaded != NULL;
}

static bool holds(const struct processor *processor, unsigned slot)
{
	return processor->slots[slot].loaded != NULL || processor->slots[slot].previous != NULL;
}

static bool collect_from(struct processor *processor, unsigned first, unsigned end, bool everything,
			 const struct collection *collection)
{
	bool left = false;

	mutex_lock(&processor->lock);
	for (unsigned slot = first; slot < end; slot++)
		if (!holds(processor, slot))
			continue;
		else if (everything) {
			give_previous(&processor->slots[slot], slot, collection);
			give_loaded(processor, slot, collection);
		} else
			left |= give_idle(processor, slot, collection);
	mutex_unlock(&processor->lock);
	return left;
}

static bool any_holds(unsigned first, unsigned end)
{
	bool any = false;

	for (struct processor *processor = NULL; !any && (processor = next_made(processor)) != NULL;) {
		mutex_lock(&processor->lock);
		for (unsigned slot = first; slot < end && !any; slot++)
			any = holds(processor, slot);
		mutex_unlock(&processor->lock);
	}
	return any;
}

static bool collect_from_all(unsigned first, unsigned end, bool everything, const struct collection *collection)
{
	bool left = false;

	for (struct processor *processor = NULL; (processor = next_made(processor)) != NULL;)
		left |= collect_from(processor, first, end, everything, collection);
	return left;
}

// No top from before may be found with the number.
static bool must_stay(void)
{
	return !RSEQ_READS_IN_ORDER && !os_rseq_fence();
}

bool processors_collect(unsigned first, unsigned end, bool everything, processor_give *give, void *context)
{
	struct collection collection = { give, context };
	bool left = false;

	mutex_lock(&processors.lock);
	end = (unsigned)min_size(end, processors.slots);
	if (!processors.stopped && os_rseq_may_fence() && any_holds(first, end)) { // stopped: this thread forks
		if (stop_all())
			left = collect_from_all(first, end, everything, &collection);
		set_all_stopped(must_stay());
	}
	mutex_unlock(&processors.lock);
	return left;
}

static bool chain(void *first, unsigned slot, struct magazine *magazine)
{
	struct magazine **chained = first;

	(void)slot;
	magazine->next = *chained;
	*chained = magazine;
	return true;
}

struct magazine *processors_take(unsigned slot)
{
	struct magazine *taken = NULL;
	struct collection collection = { chain, &taken };

	mutex_lock(&processors.lock);
	collect_from_all(slot, slot + 1, true, &collection);
	for (struct processor *processor = NULL; (processor = next_made(processor)) != NULL;)
		processor->slots[slot] = (struct processor_slot){ 0 };
	mutex_unlock(&processors.lock);
	return taken;
}

// A loaded magazine stays what it is while the lock is held; only its top moves.
static void look_at(struct processor *processor, unsigned slot, processor_look *look, void *context)
{
	const struct magazine *loaded = processor->slots[slot].loaded, *previous = processor->slots[slot].previous;

	if (loaded != NULL)
		look(context, slot, loaded, (size_t)(__atomic_load_n(&processor->tops[slot], __ATOMIC_RELAXED) - loaded->round));
	if (previous != NULL)
		look(context, slot, previous, previous->rounds);
}

void processors_look(unsigned first, unsigned end, processor_look *look, void *context)
{
	mutex_lock(&processors.lock); // none is on its way elsewhere
	for (struct processor *processor = NULL; (processor = next_made(processor)) != NULL;) {
		mutex_lock(&processor->lock);
		for (unsigned slot = first; slot < end; slot++)
			look_at(processor, slot, look, context);
		mutex_unlock(&processor->lock);
	}
	mutex_unlock(&processors.lock);
}

COLD void processors_tell(struct vmag_root *root)
{
	root->processors = (uintptr_t)&processors.of;
	root->processors_count = (uintptr_t)&processors.numbers;
	root->processor_slots = offsetof(struct processor, slots);
	root->processor_tops = offsetof(struct processor, tops);
	root->slot_bytes = sizeof(struct processor_slot);
	root->slot_loaded = offsetof(struct processor_slot, loaded);
	root->slot_previous = offsetof(struct processor_slot, previous);
}

// ---- fork

static bool whole; // the fronts were stopped before the fork

void processors_fork_prepare(void)
{
	if (cpu_nowhere == NULL)
		return;
	mutex_fork_lock(&processors.lock);
	processors.stopped = true;
	whole = stop_all();
	for (struct processor *processor = NULL; (processor = next_made(processor)) != NULL;)
		mutex_fork_lock(&processor->lock);
}

// What a front held when its pages were copied while others worked on it cannot be trusted, and stays unused.
static void forget(struct processor *processor)
{
	for (unsigned slot = 0; slot < processors.slots; slot++)
		processor->slots[slot].loaded = processor->slots[slot].previous = NULL;
	close_slots(processor->tops, 0, processors.slots);
}

void processors_fork_done(bool child)
{
	if (cpu_nowhere == NULL)
		return;
	for (struct processor *processor = NULL; (processor = next_made(processor)) != NULL;) {
		if (child && !whole)
			forget(processor);
		mutex_fork_unlock(&processor->lock);
	}
	processors.stopped = false;
	set_all_stopped(!child && must_stay());
	mutex_fork_unlock(&processors.lock);
}
