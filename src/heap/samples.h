// Samples: small objects that were sampled, side by side in slabs of their own (docs/decisions/0010-sampling.md).
//
// Such a slab is as any other but for two things. Its word in the page map names no class, so that every free of an object in it misses
// and comes by here; and each buffer has a note (slab/slab.h): the tally of the object that lies there.
//
//   page ─► [ object │ fence │ … ][ object │ fence │ … ] …       note: 0, no object; else the number of its tally, or NO_TALLY
//
// Behind each object are some bytes that nobody may change, its fence. Buffers are multiples of what the size is a multiple of, so objects are as
// aligned as others of their class. Each thread has the buffer of each class that it freed last at hand: to the slab it is taken.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/arena.h"
#include "heap/front.h"
#include "slab/slab.h"

struct samples {
	struct bin bins[SMALL_CLASSES];
};

// Whether a run is a slab of samples; `word`: the page map's, of an address in it.
static inline bool samples_has(const struct run *run, unsigned word)
{
	return word_class(word) == 0 && word != 0 && run != NULL && run->bin != NULL;
}

// The bin of a run that may be, or become, anything meanwhile; NULL: it is none for samples.
struct bin *samples_bin(const struct run *run);

// An object of a small class; `tally` may be 0. NULL: no memory.
void *samples_alloc(struct arena *arena, unsigned class, uint32_t tally);

// Frees what lies there, and tells the profile. Reports misuse under the name of `call`.
void samples_free(struct run *run, void *object, const char *call);

// The bytes that the program may use; 0: there is no object.
size_t samples_size(struct run *run, const void *object);

// Tells the profile that an object is gone whose buffer is freed later.
void samples_end_one(struct run *run, const void *object);

// Tells the profile that all objects of a slab are gone, of an arena that is reset; and forgets all slabs.
void samples_end(struct run *run);
void samples_forget(struct arena *arena);

// Gives what the front has at hand back to the slabs; `samples_give` looks first, lest a process that samples nothing need more code.
void samples_give_some(struct front *front);
static inline void samples_give(struct front *front)
{
	if (UNLIKELY(front->has_samples))
		samples_give_some(front);
}

// The same when none was freed since the last time.
static inline void samples_tidy(struct front *front)
{
	if (!front->used_samples)
		samples_give(front);
	front->used_samples = false;
}

// Where the arena's samples of a class lie; NULL: the class is not small, or there were none yet.
struct bin *samples_bin_of(struct arena *arena, unsigned class);

// Bytes of an object in a bin of samples.
size_t samples_bytes(const struct bin *bin);

// What bin_trim does, of an arena that has any.
void samples_trim(struct samples *samples, bool always);

// In the order of ranks the arena's bins come before.
void samples_fork_lock(struct arena *arena);
void samples_fork_unlock(struct arena *arena);

// The bytes behind an object of `size` bytes, of a run of `bytes` that are its own, which nobody may change. `sample_check_fence` tells when somebody did.
enum { FENCE_BYTES = 16 };
void sample_set_fence(void *object, size_t size);
void sample_check_fence(const void *object, size_t size, const char *call);
