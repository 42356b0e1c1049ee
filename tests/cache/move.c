// Moving: sparse slabs are emptied by the move callback, every answer is obeyed, and other threads may allocate and free
// meanwhile.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <vmag/cache.h>

#include "unit.h"

enum { OBJECTS = 20000, KEPT_EVERY = 20, SIZE = 128 };

// The program's handle of an object knows where it is; the object knows its handle, NULL while it is unused.
struct object {
    _Atomic(struct handle *) handle;
    uint64_t value;
    char filler[SIZE - 16];
};

struct handle {
    pthread_mutex_t lock;
    struct object *object;
};

static struct handle handles[OBJECTS];
static vmag_cache_t *cache;
static enum vmag_move_answer instead = VMAG_MOVE_YES;
static _Atomic size_t asked, unknown;
static _Atomic int balance;

static int construct(void *memory, void *argument, int flags) {
    (void)argument, (void)flags;
    atomic_store(&((struct object *)memory)->handle, NULL);
    balance++;
    return 0;
}

static void destruct(void *memory, void *argument) {
    (void)argument;
    CHECK(atomic_load(&((struct object *)memory)->handle) == NULL);
    balance--;
}

static enum vmag_move_answer move(void *from, void *to, size_t size, void *argument) {
    struct object *old = from, *fresh = to;
    struct handle *handle = atomic_load(&old->handle);

    CHECK(size == sizeof *old && argument == &cache && atomic_load(&fresh->handle) == NULL);
    asked++;
    if (handle < handles || handle >= handles + OBJECTS) {
        unknown++;
        return VMAG_MOVE_DONT_KNOW;
    }
    if (instead != VMAG_MOVE_YES && instead != VMAG_MOVE_DONT_NEED)
        return instead;
    pthread_mutex_lock(&handle->lock);
    if (handle->object != old) { // freed or moved in between
        pthread_mutex_unlock(&handle->lock);
        unknown++;
        return VMAG_MOVE_DONT_KNOW;
    }
    if (instead == VMAG_MOVE_YES) {
        fresh->value = old->value;
        atomic_store(&fresh->handle, handle);
        handle->object = fresh;
    } else
        handle->object = NULL;
    atomic_store(&old->handle, NULL);
    pthread_mutex_unlock(&handle->lock);
    return instead;
}

static void set(size_t i) {
    struct object *object = vmag_cache_alloc(cache, VMAG_SLEEP);

    pthread_mutex_lock(&handles[i].lock);
    object->value = i;
    handles[i].object = object;
    atomic_store(&object->handle, &handles[i]);
    pthread_mutex_unlock(&handles[i].lock);
}

static void clear(size_t i) {
    struct object *object;

    pthread_mutex_lock(&handles[i].lock);
    object = handles[i].object;
    handles[i].object = NULL;
    if (object != NULL) {
        CHECK_EQ(object->value, i);
        atomic_store(&object->handle, NULL);
    }
    pthread_mutex_unlock(&handles[i].lock);
    vmag_cache_free(cache, object);
}

static struct vmag_cache_stats stats(void) {
    struct vmag_cache_stats all;

    vmag_cache_stats(cache, &all, sizeof all);
    return all;
}

// Few objects are left, one in each slab or so.
static void make_sparse(void) {
    for (size_t i = 0; i < OBJECTS; i++)
        set(i);
    for (size_t i = 0; i < OBJECTS; i++)
        if (i % KEPT_EVERY != 0)
            clear(i);
    vmag_cache_reap(cache);
}

static void clear_all(void) {
    for (size_t i = 0; i < OBJECTS; i++)
        clear(i);
    vmag_cache_reap(cache);
}

static void answers(void) {
    size_t before, moved = 0, step;

    make_sparse();
    before = stats().slabs;
    for (instead = VMAG_MOVE_NO; instead <= VMAG_MOVE_LATER; instead++) {
        CHECK_EQ(vmag_cache_consolidate(cache), 0);
        CHECK_EQ(stats().slabs, before);
    }
    instead = VMAG_MOVE_YES;
    while ((step = vmag_cache_consolidate(cache)) > 0)
        moved += step;
    say("%zu slabs became %zu, %zu objects moved, %zu asked", before, stats().slabs, moved, (size_t)asked);
    CHECK_LE(stats().slabs * stats().slab_objects, OBJECTS / KEPT_EVERY * 5 / 4 + 3 * stats().slab_objects);
    CHECK_GE(before, 4 * stats().slabs);
    CHECK_EQ(stats().moves, moved);
    CHECK_EQ(stats().in_use, OBJECTS / KEPT_EVERY);
    for (size_t i = 0; i < OBJECTS; i += KEPT_EVERY)
        CHECK_EQ(handles[i].object->value, i);
    clear_all();

    make_sparse();
    instead = VMAG_MOVE_DONT_NEED;
    vmag_cache_consolidate(cache);
    CHECK_LT(stats().in_use, OBJECTS / KEPT_EVERY);
    instead = VMAG_MOVE_YES;
    clear_all();
    CHECK_EQ(stats().in_use, 0);
}

// A sparse slab that is the lowest has nowhere to go.
static void alone(void) {
    set(0), set(1), set(2);
    CHECK_EQ(vmag_cache_consolidate(cache), 0);
    clear_all();
}

static _Atomic int running = 1;

static void *churn(void *seed) {
    struct random random = { (uintptr_t)seed };

    while (running) {
        size_t i = random_below(&random, OBJECTS / 2) * 2 + (uintptr_t)seed % 2; // odd or even ones, each a thread

        pthread_mutex_lock(&handles[i].lock);
        int used = handles[i].object != NULL;
        pthread_mutex_unlock(&handles[i].lock);
        if (used)
            clear(i);
        else if (random_below(&random, 4) == 0)
            set(i);
    }
    return NULL;
}

static void under_threads(void) {
    pthread_t threads[2];
    size_t moved = 0;

    make_sparse();
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i + 2));
    for (int i = 0; i < 300; i++)
        moved += vmag_cache_consolidate(cache);
    running = 0;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    say("under threads: %zu moved, %zu unknown", moved, (size_t)unknown);
    CHECK_GT(moved, 0);
    clear_all();
    CHECK_EQ(stats().in_use, 0);
}

// Of many sparse slabs not all are looked at for each that is emptied: with 24,000 that took 3.4 s.
enum { SLABS = 24000, A_SLAB = 16, BYTES = 1024 };

static enum vmag_move_answer move_marked(void *from, void *to, size_t size, void *argument) {
    (void)argument;
    if (*(size_t *)from == 0) // it lies in a magazine
        return VMAG_MOVE_DONT_KNOW;
    memcpy(to, from, size);
    *(size_t *)from = 0;
    return VMAG_MOVE_YES;
}

static void many_slabs(void) {
    static void *objects[SLABS * A_SLAB];
    size_t moved = 0, now;

    cache = vmag_cache_create("many", BYTES, 0, NULL, NULL, NULL, NULL, NULL, 0);
    for (size_t i = 0; i < SLABS * A_SLAB; i++)
        objects[i] = vmag_cache_alloc(cache, VMAG_SLEEP);
    for (size_t i = 0; i < SLABS * A_SLAB; i++)
        if (i % A_SLAB == 0)
            *(size_t *)objects[i] = i + 1;
        else
            vmag_cache_free(cache, objects[i]);
    vmag_cache_set_move(cache, move_marked);
    clock_t begin = clock();
    while ((now = vmag_cache_consolidate(cache)) > 0)
        moved += now;
    CHECK_LE(clock() - begin, CLOCKS_PER_SEC);
    CHECK_GT(moved, SLABS / 2);
    CHECK_LE(stats().slabs, SLABS / 4);
}

int main(void) {
    for (size_t i = 0; i < OBJECTS; i++)
        pthread_mutex_init(&handles[i].lock, NULL);
    cache = vmag_cache_create("moving", sizeof(struct object), 0, construct, destruct, NULL, &cache, NULL, 0);
    CHECK_EQ(vmag_cache_consolidate(cache), 0);
    vmag_cache_set_move(cache, move);
    answers();
    alone();
    under_threads();
    vmag_cache_destroy(cache);
    CHECK_EQ(balance, 0);
    many_slabs();
    return 0;
}
