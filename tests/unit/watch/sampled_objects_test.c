// Tests watch/sampled_objects.h: what is put in comes out once, at the latest when its cache ends or its address is another object's; first use by several
// threads at once, and without memory, loses none.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/sampled_objects.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../support/child.h"
#include "base/base.h"
#include "os/pages.h"
#include "unit.h"
#include "vmag/format.h"
#include "watch/tally.h"

enum { THREADS = 4, TRIALS = 100, OBJECTS = 10000, ENTRY_BYTES = 64, LISTS_BYTES = 32 * 1024 };

static _Atomic int waiting, done;
static char places[OBJECTS];

static void *add_one(void *place) {
    free(malloc(100));
    atomic_fetch_add(&waiting, 1);
    while (atomic_load(&waiting) <= THREADS)
        continue;
    CHECK(sampled_objects_add(place, 1));
    atomic_fetch_add(&done, 1);
    while (atomic_load(&done) <= THREADS)
        continue;
    return NULL;
}

// In a process of its own, for there is one first use of each.
static void first_use_at_once(void) {
    pthread_t threads[THREADS];
    void *entries[THREADS];
    size_t before;

    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, add_one, &places[i]), 0);
    while (atomic_load(&waiting) < THREADS)
        continue;
    for (int i = 0; i < THREADS; i++)
        CHECK((entries[i] = base_alloc(ENTRY_BYTES)) != NULL);
    for (int i = 0; i < THREADS; i++)
        base_free(entries[i], ENTRY_BYTES);
    before = base_bytes();
    atomic_fetch_add(&waiting, 1);
    while (atomic_load(&done) < THREADS)
        continue;
    CHECK_EQ(base_bytes(), before + round_up(LISTS_BYTES, os_page_size()));
    CHECK_EQ(atomic_load(&sampled_objects), THREADS);
    atomic_fetch_add(&done, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void try_first_use(void) {
    for (int i = 0; i < TRIALS; i++) {
        pid_t child = fork();

        if (child == 0) {
            first_use_at_once();
            _exit(0);
        }
        expect_child(child);
    }
}

static void without_memory(void) {
    void *entry = base_alloc(ENTRY_BYTES);
    struct rlimit limit, none;

    CHECK(entry != NULL);
    base_free(entry, ENTRY_BYTES);
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    none = limit;
    none.rlim_cur = 1;
    CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
    CHECK(!sampled_objects_add(places, 1));
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    CHECK(base_alloc(ENTRY_BYTES) == entry);
    base_free(entry, ENTRY_BYTES);
    CHECK_EQ(atomic_load(&sampled_objects), 0);
}

// The free of the first one was not told: its sample ends when the address is another object's.
static void an_address_again(void) {
    uintptr_t frame = 1;
    struct tally key = { .size = 100, .stack = stacks_intern(1, stacks_hash_of(&frame, 1), &frame) };
    uint32_t tally = tally_count(&key);

    CHECK(tally != 0 && sampled_objects_add(places, tally));
    CHECK(tally_count(&key) == tally && atomic_load(&tally_of(tally)->live) == 2);
    CHECK(sampled_objects_add(places, tally));
    CHECK_EQ(atomic_load(&tally_of(tally)->live), 1);
    CHECK(sampled_objects_take(places) == tally && atomic_load(&sampled_objects) == 0);
}

// All objects of a cache that ends, however many are in a list, and no other's.
static void those_of_a_cache_end(void) {
    uintptr_t frame = 1;
    struct tally key = { .size = 100, .arena = VMAG_ARENA_CACHES, .stack = stacks_intern(1, stacks_hash_of(&frame, 1), &frame) }, other = key;
    uint32_t tally = 0, others;

    other.arena = VMAG_ARENA_CACHES + 1;
    others = tally_count(&other);
    CHECK(sampled_objects_add(places, others));
    for (unsigned i = 1; i < OBJECTS; i++) {
        tally = tally_count(&key);
        CHECK(tally != 0 && sampled_objects_add(&places[i], tally));
    }
    sampled_objects_end(VMAG_ARENA_CACHES);
    CHECK_EQ(atomic_load(&tally_of(tally)->live), 0);
    CHECK(atomic_load(&tally_of(others)->live) == 1 && atomic_load(&sampled_objects) == 1);
    CHECK_EQ(sampled_objects_take(places), others);
}

static void in_and_out(void) {
    for (unsigned i = 0; i < OBJECTS; i++)
        CHECK(sampled_objects_take(&places[i]) == 0 && sampled_objects_add(&places[i], i + 1));
    CHECK_EQ(atomic_load(&sampled_objects), OBJECTS);
    for (unsigned i = OBJECTS; i-- > 0;)
        CHECK(sampled_objects_may_have(&places[i]) && sampled_objects_take(&places[i]) == i + 1 && sampled_objects_take(&places[i]) == 0);
    CHECK_EQ(atomic_load(&sampled_objects), 0);
}

int main(void) {
    free(malloc(1));
    try_first_use();
    without_memory();
    an_address_again();
    those_of_a_cache_end();
    in_and_out();
    return 0;
}
