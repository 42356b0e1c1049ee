// Tests front_hand_down: what a thread that ends had loaded is what the next one begins with, if its magazines had grown; of threads that end together
// one leaves something, and nothing is lost when depots are reaped.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <string.h>

#include "conf/options.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "slab/bin.h"
#include "unit.h"

enum { SIZE = 200, OBJECTS = 20, FEW = 3, THREADS = 4, LIVES = 300 };

static void *objects[OBJECTS];
static pthread_barrier_t together;

static size_t left(const struct arena *arena) {
    return atomic_load(&arena->depot_rounds[size_class(SIZE)]);
}

// What it had loaded is left: a part of a magazine.
static void *leave(void *wait) {
    void *mine[OBJECTS];

    for (int i = 0; i < OBJECTS; i++)
        CHECK((mine[i] = malloc(SIZE)) != NULL);
    if (wait == NULL)
        memcpy(objects, mine, sizeof objects);
    for (int i = 0; i < OBJECTS; i++)
        free(mine[i]);
    if (wait != NULL)
        pthread_barrier_wait(&together);
    return NULL;
}

// Most are what the other freed, and nothing comes from the slabs.
static void *leave_nothing(void *unused) {
    for (int i = 0; i < FEW; i++)
        free(malloc(SIZE));
    return unused;
}

static void *inherit(void *argument) {
    const struct arena *common = argument;
    const struct bin *bin = &common->bins[size_class(SIZE)];
    void *mine[OBJECTS];
    size_t used = bin_used(bin);
    int inherited = 0;

    for (int i = 0; i < OBJECTS; i++) {
        mine[i] = malloc(SIZE);
        for (int j = 0; j < OBJECTS; j++)
            inherited += mine[i] == objects[j];
    }
    CHECK_LE(OBJECTS / 2, inherited);
    CHECK_EQ(left(common), 0);
    CHECK_EQ(bin_used(bin), used);
    for (int i = 0; i < OBJECTS; i++)
        free(mine[i]);
    return NULL;
}

static void run(void *(*what)(void *), void *argument) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, what, argument), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void end_together(const struct arena *arena) {
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, leave, &together), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(arena->depots[size_class(SIZE)].full.length, 1);
}

int main(void) {
    struct arena *common;
    unsigned class = size_class(SIZE);

    options.background_thread = false;
    free(malloc(1));
    common = words.front->common;
    CHECK(words.front->loaded[class] == NULL);
    run(leave_nothing, NULL);
    CHECK_EQ(left(common), 0);
    CHECK_EQ(bin_used(&common->bins[class]), 0);
    run(leave, NULL);
    CHECK_LE((size_t)OBJECTS, left(common));
    run(inherit, common);
    CHECK_LE((size_t)OBJECTS, left(common));
    CHECK_EQ(bin_used(&common->bins[class]), left(common));
    for (int life = 0; life < LIVES; life++)
        run(leave, NULL);
    CHECK_LE(left(common), (size_t)OBJECTS * 2); // no more from life to life
    CHECK_EQ(bin_used(&common->bins[class]), left(common));
    pthread_barrier_init(&together, NULL, THREADS);
    end_together(common);
    CHECK_EQ(bin_used(&common->bins[class]), left(common));
    arena_reap(common, true);
    CHECK_EQ(left(common), 0);
    CHECK_EQ(bin_used(&common->bins[class]), 0);
    return 0;
}
