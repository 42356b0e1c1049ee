// Caches under threads: objects change hands between threads while others reap, count and walk; then storms of short threads.
// Every object is constructed and destructed once, none is given to two, and destroying collects what all threads kept.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <vmag/cache.h>

#include "unit.h"

enum { THREADS = 4, STEPS = 60000, HELD = 100, SHARED = 256, STORMS = 400, STORM_THREADS = 4 };

struct object {
    _Atomic int users;
    _Atomic int *balance;
    char filler[40];
};

static vmag_cache_t *constructed, *plain;
static _Atomic int balance;
static _Atomic(struct object *) shared[SHARED];
static _Atomic int running;

static int construct(void *memory, void *argument, int flags) {
    struct object *object = memory;

    (void)flags;
    object->users = 0;
    object->balance = argument;
    atomic_fetch_add(object->balance, 1);
    return 0;
}

static void destruct(void *memory, void *argument) {
    struct object *object = memory;

    CHECK(object->users == 0 && object->balance == argument);
    object->balance = NULL;
    atomic_fetch_sub((_Atomic int *)argument, 1);
}

static struct object *get(void) {
    struct object *object = vmag_cache_alloc(constructed, VMAG_SLEEP);

    CHECK(object->balance == &balance);
    CHECK_EQ(atomic_fetch_add(&object->users, 1), 0);
    return object;
}

static void put(struct object *object) {
    CHECK_EQ(atomic_fetch_sub(&object->users, 1), 1);
    vmag_cache_free(constructed, object);
}

static void *work(void *seed) {
    struct random random = { (uintptr_t)seed * 2 + 1 };
    struct object *held[HELD] = { NULL };
    uint32_t *numbers[HELD] = { NULL };

    for (int i = 0; i < STEPS; i++) {
        size_t slot = random_below(&random, HELD);
        struct object *other;

        if (held[slot] != NULL)
            put(held[slot]);
        held[slot] = random_below(&random, 3) > 0 ? get() : NULL;
        other = atomic_exchange(&shared[random_below(&random, SHARED)], held[slot]);
        held[slot] = NULL;
        if (other != NULL)
            put(other);
        if (numbers[slot] != NULL) {
            CHECK_EQ(*numbers[slot], (uint32_t)slot);
            vmag_cache_free(plain, numbers[slot]);
        }
        numbers[slot] = vmag_cache_alloc(plain, VMAG_NOSLEEP);
        *numbers[slot] = (uint32_t)slot;
    }
    for (size_t i = 0; i < HELD; i++)
        vmag_cache_free(plain, numbers[i]);
    return NULL;
}

static void nothing(void *argument, void *object) {
    (void)argument, (void)object;
}

static void *disturb(void *unused) {
    struct vmag_cache_stats stats;

    while (running) {
        vmag_cache_reap(constructed);
        vmag_cache_stats(constructed, &stats, sizeof stats);
        CHECK_LE(stats.in_use + stats.cached, stats.buffers + THREADS * 1024);
        CHECK(vmag_cache_walk(plain, nothing, NULL));
        vmag_caches_reap();
    }
    return unused;
}

static void *short_life(void *argument) {
    struct object *objects[20];
    size_t count = (uintptr_t)argument % 20 + 1;

    for (size_t i = 0; i < count; i++)
        objects[i] = get();
    for (size_t i = 0; i < count; i++)
        put(objects[i]);
    return NULL;
}

static void run(void *(*function)(void *), size_t count, uintptr_t argument) {
    pthread_t threads[8];

    for (size_t i = 0; i < count; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, function, (void *)(argument + i)), 0);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static vmag_cache_t *create(void) {
    return vmag_cache_create("shared", sizeof(struct object), 64, construct, destruct, NULL, &balance, NULL, 0);
}

static pthread_barrier_t barrier;
static sem_t go;

static void *holder_ends(void *unused) {
    put(get());
    pthread_barrier_wait(&barrier);
    return unused;
}

// Many threads live at once and end with a few objects each: what they leave fills magazines.
enum { CROWD = 60 };

static int on_processors(void) {
    const char *options = getenv("VMAG_CONF");

    return options != NULL && strstr(options, "front:cpu") != NULL;
}

static void crowd(void) {
    static pthread_t threads[CROWD];
    struct vmag_cache_stats stats;

    vmag_cache_reap(constructed);
    pthread_barrier_init(&barrier, NULL, CROWD);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, holder_ends, NULL), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    vmag_cache_stats(constructed, &stats, sizeof stats);
    say("a crowd: %zu objects cached in %zu magazines", stats.cached, stats.full_magazines);
    if (on_processors()) // then threads leave nothing, and use each other's
        CHECK_LE(stats.cached, CROWD);
    else
        CHECK_EQ(stats.cached, CROWD);
    CHECK_LE(stats.full_magazines, CROWD / 12 + 3);
}

// A thread that has magazines of a cache is alive while it is destroyed, and another is just ending.
static void *holder_stays(void *unused) {
    put(get());
    pthread_barrier_wait(&barrier);
    sem_wait(&go);
    return unused;
}

static void destroy_under_threads(void) {
    pthread_t stays, ends;

    pthread_barrier_init(&barrier, NULL, 3);
    for (int i = 0; i < 200; i++) {
        constructed = create();
        pthread_create(&stays, NULL, holder_stays, NULL);
        pthread_create(&ends, NULL, holder_ends, NULL);
        pthread_barrier_wait(&barrier);
        vmag_cache_destroy(constructed);
        CHECK_EQ(balance, 0);
        pthread_join(ends, NULL);
        CHECK_EQ(sem_post(&go), 0);
        pthread_join(stays, NULL);
    }
}

// A destructor that frees to its own cache, called by a thread that reaps while another one has begun to destroy the cache.
static vmag_cache_t *pairs;

static int construct_pair(void *object, void *unused, int flags) {
    (void)unused, (void)flags;
    *(void **)object = NULL;
    return 0;
}

static void destruct_pair(void *object, void *unused) {
    void *second = *(void **)object;

    (void)unused;
    if (second == NULL)
        return;
    pthread_barrier_wait(&barrier);
    usleep(100000);
    vmag_cache_free(pairs, second);
}

static void *reap_pair(void *unused) {
    void **first = vmag_cache_alloc(pairs, VMAG_SLEEP);

    *first = vmag_cache_alloc(pairs, VMAG_SLEEP);
    vmag_cache_free(pairs, first);
    vmag_caches_reap();
    return unused;
}

static void destroy_under_destructor(void) {
    pthread_t reaper;

    pthread_barrier_init(&barrier, NULL, 2);
    pairs = vmag_cache_create("pairs", 64, 0, construct_pair, destruct_pair, NULL, NULL, NULL, 0);
    CHECK_EQ(pthread_create(&reaper, NULL, reap_pair, NULL), 0);
    pthread_barrier_wait(&barrier);
    vmag_cache_destroy(pairs);
    pthread_join(reaper, NULL);
    pthread_barrier_destroy(&barrier);
}

// A walk while another thread drains the depot: what is destructed there, or waits for it, is not told.
static void destruct_slowly(void *object, void *unused) {
    static int calls;

    (void)unused;
    *(uint64_t *)object = 0;
    if (calls++ > 0)
        return;
    pthread_barrier_wait(&barrier);
    usleep(100000);
}

static void *reap_pairs(void *unused) {
    vmag_cache_reap(pairs);
    return unused;
}

static void count_object(void *told, void *object) {
    (void)object;
    ++*(int *)told;
}

static void walk_under_reap(void) {
    enum { OBJECTS = 500 };
    void *objects[OBJECTS];
    pthread_t reaper;
    int told = 0;

    pthread_barrier_init(&barrier, NULL, 2);
    pairs = vmag_cache_create("walked", 64, 0, construct_pair, destruct_slowly, NULL, NULL, NULL, 0);
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = vmag_cache_alloc(pairs, VMAG_SLEEP);
    for (int i = 1; i < OBJECTS; i++)
        vmag_cache_free(pairs, objects[i]);
    CHECK_EQ(pthread_create(&reaper, NULL, reap_pairs, NULL), 0);
    pthread_barrier_wait(&barrier);
    CHECK(vmag_cache_walk(pairs, count_object, &told));
    CHECK_EQ(told, 1);
    pthread_join(reaper, NULL);
    vmag_cache_free(pairs, objects[0]);
    vmag_cache_destroy(pairs);
    pthread_barrier_destroy(&barrier);
}

int main(void) {
    struct vmag_cache_stats stats;
    pthread_t disturber;

    constructed = create();
    plain = vmag_cache_create("plain", sizeof(uint32_t), 0, NULL, NULL, NULL, NULL, NULL, 0);
    running = 1;
    CHECK_EQ(pthread_create(&disturber, NULL, disturb, NULL), 0);
    run(work, THREADS, 1);
    running = 0;
    pthread_join(disturber, NULL);
    for (size_t i = 0; i < SHARED; i++)
        if (shared[i] != NULL)
            put(shared[i]);
    vmag_cache_stats(constructed, &stats, sizeof stats);
    CHECK_EQ(stats.in_use, 0);
    CHECK_EQ(stats.cached, (size_t)balance);
    vmag_cache_destroy(plain);

    for (uintptr_t i = 0; i < STORMS; i++)
        run(short_life, STORM_THREADS, i);
    vmag_cache_stats(constructed, &stats, sizeof stats);
    CHECK_EQ(stats.in_use, 0);
    say("storms: %zu objects cached in %zu magazines, %zu slabs", stats.cached, stats.full_magazines, stats.slabs);
    CHECK_LE(stats.full_magazines, 64); // partial magazines are poured together
    crowd();
    vmag_cache_destroy(constructed);
    CHECK_EQ(balance, 0);
    destroy_under_threads();
    pthread_barrier_destroy(&barrier);
    destroy_under_destructor();
    walk_under_reap();
    return 0;
}
