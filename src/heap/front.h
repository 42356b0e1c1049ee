// Front: what a thread keeps for itself, one word a size class on the fast path and the rest behind it.
//
// words.top[class] points after the last round of the loaded magazine. Where there is none it points into the closed
// magazine [NULL, FULL], in which both allocating and freeing miss: the one door (design, idea 3). A thread's words are
// closed before its first use and after its end, and while somebody watches (heap/door.h): then its tops are in the front.
//
// Of a small class the round that the next allocation takes is not in the magazine but in words.ahead: so its address is known a
// load earlier, and what the program stores to it holds up nothing that follows (docs/decisions/0025). A class whose words are
// open has one: the fast path looks only whether the magazine has another to put in its place.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "heap/arena.h"
#include "pages/page_map.h"
#include "watch/profile.h"

// The thread-local part: 936 bytes, so that the library fits into the surplus that dlopen has.
struct front_words {
	void **top[CLASSES];
	void *ahead[SMALL_CLASSES]; // NULL: the class is closed
	uintptr_t empty[SMALL_CLASSES]; // word + class: what an empty slot holds
	int64_t until[SMALL_CLASSES];   // steps to the profile's next point, while sampling is on (heap/sampled.h)
	uintptr_t word; // the page map's word of this thread's arena, class 0
	struct front *front;
	intptr_t way; // of operations that miss, while the door is closed for fronts of processors alone (heap/cpu_fast.h): the tops of its
		      // processor, or of the one it was on last; else 0, also from when somebody wants the door closed for more
	const void *caller; // of the free that misses; NULL: none does (front_free_begins)
	bool ended; // the thread is past its end: no front is made again
	uint8_t door; // why the door is closed (enum door); 0: it is open
};

extern __thread struct front_words words __attribute__((tls_model("initial-exec"))) HIDDEN;

// What the fast paths of malloc and of sized free serve: sizes below front_sizes_end, whose class has its words at that distance from the
// thread pointer, front_places[size]. The end is SMALL_MOST + 1; 0 until the heap is ready and while sampling is on (heap/sampled.h): so
// both miss whatever they are asked for, in all threads at once.
extern int32_t front_places[SMALL_MOST + 1] HIDDEN;
extern size_t front_sizes_end HIDDEN;
extern size_t front_sampled_end HIDDEN; // the same while sampling is on, else 0; and while all shall miss (fronts_close_sizes)

// For libumem's face, to which 0 is no size: size − 1 is below this; SMALL_MOST while the sizes are open, from fronts_serve_short on.
extern size_t front_short_most HIDDEN;

// The same as front_sizes_end for C++'s sized delete; 0 from fronts_leave_delete on.
extern size_t front_delete_end HIDDEN;

// An operand of a comparison on x86-64, where loads stay in order: who reads that the sizes are open reads their places.
#ifdef __x86_64__
#define FRONT_LIMIT(limit) (limit)
#else
#define FRONT_LIMIT(limit) __atomic_load_n(&(limit), __ATOMIC_ACQUIRE)
#endif

static inline bool front_is_beyond(size_t size)
{
	return size >= FRONT_LIMIT(front_sizes_end);
}

static inline bool front_is_short(size_t size)
{
	return size - 1 < FRONT_LIMIT(front_short_most);
}

static inline bool front_sizes_closed(void)
{
	return __atomic_load_n(&front_sizes_end, __ATOMIC_RELAXED) == 0;
}

// Objects of other arenas, in a magazine whose top works as that of a loaded one (heap/outbound.h).
struct outbound {
	void **top; // the closed magazine's when there is no magazine
	struct magazine *magazine;
};

// What the words of counted threads point to, and where it is in front.counted.
#define FRONT_COUNTED ((void *)(UINTPTR_MAX - 2))
enum { FRONT_COUNTED_TOP = 2 };

// A large run at hand (heap/own_runs.h), and what is to be known of it without a look at it.
struct own_run {
	struct run *run; // NULL: none
	void *object;    // that it was and will be
	run_pointer *entry; // its place in the page map
	uint32_t freed;     // objects of its class of which the arena was not told
	uint32_t missed;    // how often one was wanted soon after another was freed, and there was none at hand
};

// Of one thread; nobody else writes it but whoever visits a sleeper (heap/sleepers.h). Or an explicit cache (heap/explicit.h), which has no words.
struct front {
	void **kept[CLASSES]; // the tops while the words are closed; first
	uint64_t bytes[CLASSES]; // constant: of an object of the class
	void *counted[FRONT_COUNTED_TOP + 1]; // constant: the closed magazine of a thread whose exact counters are on (heap/counted.h)
	uint64_t allocated, freed; // bytes as the program may use them, while the door is closed for DOOR_COUNT
	struct arena *arena;  // its own: of page runs to KEPT_MOST, and of classes below LINE_CLASSES, for two threads shall have no objects in one cache line
	struct arena *common; // of all else, perhaps with all threads
	void ***top;    // the tops in use: the thread's words.top while its door is open, else `kept`
	struct front_words *words; // of the thread; NULL: none
	int thread; // its number (os_thread_is_gone)
	_Atomic uint8_t door_wanted; // what words.door shall be from the next miss on
	_Atomic bool visited;  // another thread is at the magazines (heap/sleepers.h); it writes under the lock of the fronts
	uint32_t inside;       // how deep the thread is in what takes its magazines apart (front_enter); in a hook of the program that is called there nothing else does
	uint32_t misses;
	uint16_t own_seen, own_again; // a bit for each class of large runs: an object was freed of late; its objects come and go
	uint32_t own_bytes, own_room; // of large runs at hand; that may be, counted in the arena's own_room
	struct front *next, *prev; // list of all fronts, under its lock
	struct profile_thread profile; // while sampling is on
	struct tracer *tracer;         // while it is closed for DOOR_TRACE
	uint64_t interval_told;        // of `allocated`, to all threads' sum (heap/interval.h)
	bool tells;                    // prints statistics just now
	bool starts;                   // a thread of the library's own just now, for which the C library allocates
	bool streams; // it frees what others allocate, or they what it does, again and again
	bool moves;   // asks at the next miss of malloc where its common objects shall come from
	uint64_t peak, peak_base;    // the most of allocated − freed − peak_base, while it is closed for DOOR_PEAK, too
	uint64_t tidied_at;        // ms
	uint32_t gave_at, gave_rounds; // `misses` when it gave all magazines away, and what was in them
	bool emptied; // another thread has taken what there was since the words changed last (heap/sleepers.h): this, and when it looked (ms), since
	uint64_t looked_at, still_since, still_sum; // when the words are as they are, and a sum of them, it writes under the lock of the fronts
	struct magazine *loaded[CLASSES];
	struct magazine *previous[CLASSES];
	void **seen[CLASSES];       // top when the front was last tidied
	uint16_t word[CLASSES];     // what the page map says of its objects of the class
	uint8_t capacity[CLASSES];  // of the next magazine; 0: the class is not in use
	uint8_t batch[CLASSES];     // of the next fill
	uint8_t loaded_capacity[CLASSES]; // of the loaded magazine, and
	uint8_t previous_rounds[CLASSES]; // of the previous one, for statistics read by other threads
	uint8_t exchanges[CLASSES]; // of loaded and previous, counted round and round
	uint8_t frees[CLASSES];     // visits to the depot to free since the last one to allocate, a few at most
	bool wanted[CLASSES];       // the thread came to the depot to allocate: else it only frees what others allocated
	uint8_t outbound_capacity[CLASSES]; // of the next outbound magazine; 0: the class is not in use
	uint8_t outbound_sent[CLASSES]; // rounds of full outbound magazines, counted up to what tells a steady stream
	uint32_t most_bytes; // of the requests whose class it keeps: option tcache_max, or less
	bool keeps; // to its arena, which the program asked for or was told (thread_arena)
	bool takes_back; // it may hand out what it freed of other arenas
	uint64_t homes[2][(ARENAS_MOST + 1 + 63) / 64]; // other arenas to which objects may travel, a bit for each word's number; of smaller classes than a line
	struct outbound outbound[CLASSES];
	void *samples[SMALL_CLASSES]; // buffers of samples at hand (heap/samples.h), one of a class at most; NULL: none
	bool has_samples; // or had, since they were given back
	bool used_samples; // freed one since the last tidying
	uint32_t past; // objects freed past its magazines; apart from `misses`, by which the thread would not stand still for who looks (heap/sleepers.h)
	_Alignas(32) struct own_run own[KEPT_SIZES]; // by class from CLASSES on; each in one cache line
};

// The closed magazine, in which both allocating and freeing miss.
extern void *const front_closed_magazine[3] HIDDEN;
#define FRONT_CLOSED ((void **)(uintptr_t)&front_closed_magazine[2])

// Whether a thread's word is closed, perhaps counted down by an allocation that was under way.
static inline bool front_is_closed(const struct front *front, unsigned class)
{
	void **top = __atomic_load_n(&front->words->top[class], __ATOMIC_RELAXED);

	return top == FRONT_CLOSED || top == FRONT_CLOSED - 1;
}

// This thread's front, made at first use. NULL: no memory, or the thread is past its end.
struct front *front_get(void);

// Its end: the hook at that of its thread.
void front_end(void *front);

// Whether the C library's code is there, which also frees what it keeps of a thread after the thread's hooks have run. NULL: not known yet.
extern bool (*front_is_of_c_library)(const void *caller) HIDDEN;

static inline bool front_may_be_c_library(const void *caller)
{
	return front_is_of_c_library == NULL || front_is_of_c_library(caller);
}

// Around what a free does when it misses: who called. Where one free lies within another, as when a hook of the program's frees, the C library's
// caller stays, whichever it is: all that goes on within may be at the thread's end, or under the C library's locks. Returns who was there before.
static inline const void *front_free_begins(const void *caller)
{
	const void *outer = words.caller;

	if (LIKELY(outer == NULL) || !front_may_be_c_library(outer))
		words.caller = caller;
	return outer;
}

static inline void front_free_ends(const void *outer)
{
	words.caller = outer;
}

// Ends the fronts of threads that are gone and did not come by front_end, before anybody reaches for their words, which went with their stacks.
void fronts_end_gone(void);

// A front that is no thread's, for an arena; and its end. NULL: no memory.
struct front *front_create_cache(struct arena *arena);
void front_destroy_cache(struct front *front);

static inline bool front_has_ahead(const struct front *front, unsigned class)
{
	return class < SMALL_CLASSES && front->words != NULL && front->words->ahead[class] != NULL;
}

// Whether it has a magazine or a round of the class.
static inline bool front_holds(const struct front *front, unsigned class)
{
	return front->loaded[class] != NULL || front->previous[class] != NULL || front_has_ahead(front, class);
}

// The arena of a front's objects of a class; what the page map says of them, and an empty slot holds.
static inline struct arena *front_arena(const struct front *front, unsigned class)
{
	return class < LINE_CLASSES ? front->arena : front->common;
}

static inline uintptr_t front_word(const struct front *front, unsigned class)
{
	return front->word[class];
}

// Gives an empty front other arenas.
void front_move(struct front *front, struct arena *arena, struct arena *common);

// Keeps the class of so many bytes and all below from now on, and no more than option tcache_max says; whether it keeps a class.
void front_keep_up_to(struct front *front, size_t bytes);

static inline bool front_keeps(const struct front *front, unsigned class)
{
	return size_class_bytes[class - 1] < front->most_bytes;
}

// Whether a thread's front shall have all that magazines keep from its own arena, and nothing from one in common (docs/decisions/0060).
bool front_is_apart(const struct front *front);

// Gives a thread's front that arena, in which it is counted, for all classes.
void front_keep_to(struct front *front, struct arena *arena);

// First thing at a miss in a small class, which most often is nothing but this: the loaded magazine is empty and the previous one is full, or the
// other way round, and they are exchanged. False: the slow path is to do it, for something else is due. Where it takes an object it has done all.
bool front_exchange_for_rounds(struct front *front, unsigned class);
bool front_exchange_and_put(struct front *front, unsigned class, void *object);

// After a miss: makes rounds available, or empty slots. False: no memory, or the class shall have no magazines.
bool front_refill(struct front *front, unsigned class);
bool front_make_room(struct front *front, unsigned class);

// Counts a miss, and looks once in a while whether something is to be given back. May call malloc and free, so before anything is taken apart.
void front_note_miss(struct front *front);
void front_look(struct front *front); // looks now

// Around whatever takes magazines apart or exchanges them, but for single rounds at the top: meanwhile no other thread comes by
// (heap/sleepers.h). The thread stores and then looks, the other one too, with a fence in between that counts for both.
void front_wait(void);

static inline void front_enter(struct front *front)
{
	__atomic_store_n(&front->inside, front->inside + 1, __ATOMIC_RELAXED);
	atomic_signal_fence(memory_order_seq_cst);
	if (UNLIKELY(atomic_load_explicit(&front->visited, memory_order_acquire)) && front->inside == 1)
		front_wait();
}

static inline void front_leave(struct front *front)
{
	__atomic_store_n(&front->inside, front->inside - 1, __ATOMIC_RELEASE);
}

// A round of the loaded magazine, NULL: it is empty. The other way round, with reloading; without memory for that the object
// goes into its slab.
static inline void *front_pop(struct front *front, unsigned class)
{
	void **top = front->top[class];
	void *object = top[-1];

	if (!magazine_is_round(object))
		return NULL;
	front->top[class] = top - 1;
	top[-1] = (void *)front_word(front, class);
	return object;
}

void front_push(struct front *front, unsigned class, void *object);

// Whether objects with that word may travel: not those of the front's own arena, and none of explicit ones.
static inline bool front_is_home(const struct front *front, uintptr_t word)
{
	return front->homes[word_class(word) < LINE_CLASSES][word >> 14] >> (word >> 8 & 63) & 1;
}

// Sends an object to the arena that owns it. The first only if the outbound magazine has room.
static inline bool front_send_at_once(struct front *front, uintptr_t word, void *object)
{
	struct outbound *outbound = &front->outbound[word_class(word)];
	void **top = outbound->top;

	if (*top == MAGAZINE_FULL || !front_is_home(front, word))
		return false;
	*top = object;
	outbound->top = top + 1;
	return true;
}

void front_send(struct front *front, uintptr_t word, void *object);

// First thing at a miss of free: NULL, and objects of other arenas for which there is room. False: the slow path is to do it.
static inline __attribute__((always_inline)) bool front_free_outbound(void *object)
{
	if (object == NULL)
		return true;
	return words.front != NULL && words.door == 0 && front_send_at_once(words.front, page_map_word(object), object);
}

// Gives all that the front holds to the depots; the front stays usable.
void front_flush(struct front *front);

// Puts all rounds back into slabs and page runs, where misuse is noticed; the front stays usable.
void front_drain(struct front *front);
