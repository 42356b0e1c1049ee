// Guarded buffers: while UMEM_DEBUG asks for it every buffer is patterned, fenced and noted, whoever allocated it.
//
// A record of each buffer, kept apart from it in a hash table, says what it is and, with audit, who allocated and who freed
// it, when and in which thread. So whatever the program does to its memory, a free of something that is not the start of
// a live buffer, of another size, of another cache or for the second time is told with certainty. A freed buffer is held
// back, patterned, until umem_options.held_bytes of later ones were freed; the pattern is looked at before its memory is used
// again, when the next buffer of its cache is allocated, and at exit.
//
//   LIVE ──guard_leave──► LEAVING (checked, logged) ──guard_hold──► HELD (patterned, queue, oldest first) ──► memory goes back to its source
//
// A buffer behind the firewall ends at a page that must not be touched; freed, all of it is such pages:
//
//   block ─► [ … gap │ data │ 0xbb to the alignment ][ no page ]
//
// No lock is held while memory is fetched from a source or given back, or misuse is reported.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How a buffer was asked for: what gives it and what takes it back.
enum guard_face { GUARD_MALLOC, GUARD_UMEM, GUARD_UMEM_ALIGN, GUARD_CACHE };

// A set of buffers of one kind, by name; for reports, and the source of their memory.
struct guard_cache {
	// Constant.
	char name[32];
	size_t object_bytes; // 0: of any size
	bool untouched;      // no memory: noted, never written
	bool sourced;        // from an arena of the program's: never behind the firewall
	bool painted;        // patterns and red zones are written and looked at
	bool audited;        // who allocates and who frees is noted
	bool contents;       // of freed buffers go to their log
	void *(*alloc)(void *source, size_t size, size_t align);
	void (*free)(void *source, void *block, size_t size);
	void (*end_sample)(void *block); // tells the profile, if it counts the block, that the program has freed what is there; before `free`
	void *source;
	struct guard_cache *next; // list of all, never unlinked
	// Under the table's lock.
	struct guarded *oldest_held, *newest_held; // NULL: none
	// Atomic.
	_Atomic size_t live, live_bytes;
	_Atomic uint64_t allocs, frees, failures;
	_Atomic bool destroyed;
	_Atomic uint32_t leaving; // buffers out of the table whose memory is just going back to its source
};

// Who did something, when.
struct guard_stamp {
	uint64_t time_ns;
	int thread; // 0: never
	unsigned frames;
};

enum guard_state { GUARD_LIVE, GUARD_LEAVING, GUARD_HELD };

// Behind it lie audit_frames frames of the allocation, then as many of the free.
struct guarded {
	uintptr_t address;
	size_t size; // as asked for
	struct guard_cache *cache;
	struct guarded *hash_next;
	struct guarded *newer, *older;  // in the queue
	struct guarded *newer_of_cache; // there
	uintptr_t block; // of its memory; for a firewall the mapping
	size_t block_bytes;
	uint8_t state, face;
	bool fenced; // behind the firewall
	struct guard_stamp allocated, freed;
};

static inline uintptr_t *guarded_frames(const struct guarded *record)
{
	return (uintptr_t *)(uintptr_t)(record + 1);
}

// Once, at first use, when debugging is wanted.
void guard_init(void);

// Makes the cache known; `name` is copied. The structure lives for ever. With UMEM_DEBUG=random chance decides what it has of what
// its caller and the other items allow.
void guard_cache_init(struct guard_cache *cache, const char *name, size_t object_bytes);

// NULL: no memory, or UMEM_DEBUG's mtbf wants it so of what `may_fail`.
void *guard_alloc(struct guard_cache *cache, enum guard_face face, size_t size, size_t align, bool may_fail);

enum { GUARD_ANY_SIZE = -1 };

// Checks that [object, object + size) is a live buffer of that cache and face, and reports misuse by `call`; `cache` NULL:
// of any, `size` GUARD_ANY_SIZE: of any. False after a report, when UMEM_DEBUG says noabort. Then nothing is done.
bool guard_check(struct guard_cache *cache, enum guard_face face, const void *object, size_t size, const char *call);
void guard_free(struct guard_cache *cache, enum guard_face face, const void *object, size_t size, const char *call);

// The two halves of guard_free: between them the buffer is the caller's, judged and logged as the program left it, and nobody else can free it; what was
// done to it there is judged by the second. NULL after a report.
struct guarded *guard_leave(struct guard_cache *cache, enum guard_face face, const void *object, size_t size, const char *call);
void guard_hold(struct guarded *record, const char *call);

// The size asked for; reports what is no live buffer, and is then 0.
size_t guard_size(const void *object, const char *call);

// Looks at all buffers, live and freed, and reports those that were written where they must not be. Returns how many. At the end of the process
// arenas of the program's may have no memory any more; who asks for it is told all, and the
// process goes on, to abort at its exit as if nobody had asked.
enum guard_look { LOOK_AMID, LOOK_AT_EXIT, LOOK_ON_REQUEST };
size_t guard_verify(const char *call, enum guard_look look);

// For UMEM_DEBUG=random: another random number for each cache that is made.
uint32_t guard_random(void);

// Gives back the memory of all freed buffers, or of those of a cache, verified.
void guard_release_held(const char *call);
void guard_release_held_of(const struct guard_cache *cache, const char *call);

// Waits until the memory of all freed buffers of the cache is back that others are just giving back.
void guard_cache_await(struct guard_cache *cache);

// Copies of all records, without frames, unsorted; up to `most`. Returns how many there are.
size_t guard_copy_all(struct guarded *copies, size_t most);

// The record of the buffer that an address lies in, live or freed, into `copy` with its frames. False: none.
enum { GUARD_FRAMES_MOST = 64 };
struct guarded_copy {
	struct guarded record;
	uintptr_t frames[2 * GUARD_FRAMES_MOST];
};
bool guard_find(uintptr_t address, struct guarded_copy *copy);
// The record of the buffer of which `buffer` is a copy without frames, or of one that came in its place. False: none.
bool guard_find_start(const struct guarded *buffer, struct guarded_copy *copy);

// All caches, newest first.
struct guard_cache *guard_caches(void);

// Freed buffers held back now.
size_t guard_held_bytes(void);

// One allocation in `mean` fails; 1: all, 0: none.
void guard_set_mtbf(uint32_t mean);

void guard_fork_prepare(void);
void guard_fork_done(bool child);
