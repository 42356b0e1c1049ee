// Sampled objects of object caches, by address: an object that lies in a slab among others has no run that could hold its tally.
//
// While there are any, or sampling is on, every operation of object caches comes by (heap/sampling.h); one look at a list that is
// nearly always empty tells that an object is not sampled.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// How many there are.
extern _Atomic uint32_t sampled_objects;

// What was known of the address is gone: whoever freed it did not come by. Takes a lock; may call the operating system without it.
// False: no memory.
bool sampled_objects_add(const void *object, uint32_t tally);

// False: it was not sampled.
bool sampled_objects_may_have(const void *object);

// The object's tally, and it is not known any more; 0: it was not sampled.
uint32_t sampled_objects_take(const void *object);

// Those of a cache that is about to go, each told to the profile as freed. Before its number may be another's.
void sampled_objects_end(unsigned arena);

// Where the lists are told of, for observers.
enum { SAMPLED_LISTS = 1 << 12 };
const void *sampled_objects_lists_at(void);

void sampled_objects_fork_prepare(void);
void sampled_objects_fork_done(void);
