// Tests heap/explicit.h: arenas made, reset, destroyed and used again, alone and under threads; caches; a thread's arena; decay.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/explicit.h"

#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "../../support/child.h"
#include "ctl/stats.h"
#include "heap/fronts.h"
#include "heap/heap.h"
#include "heap/inspect.h"
#include "heap/reclaim.h"
#include "heap/sampling.h"
#include "os/clock.h"
#include "pages/page_map.h"
#include "unit.h"

enum { OBJECTS = 1500, THREADS = 4 };

static void *objects[OBJECTS];

static size_t size_of(int i) {
    return 1 + (size_t)i * 61 % 3000 + (i % 50 == 0 ? 100000u : 0);
}

static void check_home(const void *object, unsigned arena) {
    unsigned home;

    CHECK_EQ(heap_arena_of(object, &home), 0);
    CHECK_EQ(home, arena);
}

static void fill_arena(unsigned arena, int flags) {
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = mallocx(size_of(i), flags | MALLOCX_ARENA(arena));
        CHECK(objects[i] != NULL);
        check_home(objects[i], arena);
        memset(objects[i], i, size_of(i));
    }
}

static void check_empty(unsigned id) {
    struct arena *arena = arena_of(id);

    CHECK_EQ(pages_active_bytes(&arena->pages), 0);
    CHECK_EQ(arena_depot_bytes(arena), 0);
    for (unsigned class = 1; class < SLAB_CLASSES; class++) {
        CHECK_EQ(arena->bins[class].slabs, 0);
        bin_check(&arena->bins[class]);
    }
    vmem_check(&arena->pages.runs);
}

static void in_child(void (*what)(void)) {
    pid_t child = fork();

    if (child == 0) {
        what();
        _exit(0);
    }
    expect_child(child);
}

static pthread_barrier_t together;

static void *make_one(void *id) {
    pthread_barrier_wait(&together);
    CHECK_EQ(arenas_make(NULL, id), 0);
    return NULL;
}

// Threads that ask first, all at once, before processors have been counted: they get numbers of their own, and none of a thread's arena.
static void numbers_at_once(void) {
    unsigned made[THREADS];
    pthread_t threads[THREADS];

    CHECK_EQ(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, make_one, &made[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        CHECK_LE(arenas_automatic_most(), made[i]);
        CHECK(made[i] < arenas_numbers() && arena_of(made[i])->is_explicit);
        for (int other = 0; other < i; other++)
            CHECK(made[i] != made[other]);
    }
    CHECK_EQ(arenas_numbers(), arenas_automatic_most() + THREADS);
}

static bool thread_wanted;

static bool note_wish(const void *caller) {
    (void)caller;
    thread_wanted = true;
    return false;
}

// Arenas that are gone hold nothing: they do not make what another has worth a thread.
static void gone_ones_do_not_count(void) {
    unsigned id, made = arenas_live();

    reclaim_start_thread = note_wish;
    for (int i = 0; i < 64; i++)
        CHECK_EQ(arenas_make(NULL, &id), 0);
    CHECK_EQ(arenas_live(), made + 64);
    for (unsigned i = id; i > id - 64; i--)
        CHECK_EQ(arena_destroy(i, NULL), 0);
    CHECK_EQ(arenas_live(), made);
    for (int i = 0; i < 4; i++)
        objects[i] = memset(malloc(100000), 1, 100000);
    for (int i = 0; i < 4; i++)
        free(objects[i]);
    reclaim_expect(words.front->arena, 0);
    CHECK(!thread_wanted);
}

// Numbers follow those of threads' arenas; that of a destroyed one is given again, the last destroyed first.
static void numbers(void) {
    unsigned automatic = arenas_automatic_most(), a, b, c;

    CHECK_EQ(arenas_numbers(), automatic);
    CHECK(arenas_make(NULL, &a) == 0 && arenas_make(NULL, &b) == 0 && a == automatic && b == a + 1);
    CHECK_EQ(arenas_numbers(), automatic + 2);
    CHECK(arena_is_live(a) && arena_is_live(b) && !arena_is_live(b + 1));
    CHECK(arena_destroy(a, NULL) == 0 && arena_destroy(b, NULL) == 0 && !arena_is_live(a));
    CHECK_EQ(arena_destroy(a, NULL), EFAULT);
    CHECK_EQ(arena_reset(a), EFAULT);
    CHECK_EQ(arena_reset(0), EFAULT);
    CHECK_EQ(arena_destroy(0, NULL), EFAULT);
    CHECK_EQ(arena_reset(1000), EFAULT);
    CHECK(arenas_make(NULL, &c) == 0 && c == b);
    CHECK(arenas_make(NULL, &c) == 0 && c == a);
    CHECK_EQ(arenas_numbers(), automatic + 2);
    CHECK(arena_destroy(a, NULL) == 0 && arena_destroy(b, NULL) == 0);
    CHECK(arena_wanted(automatic - 1) != NULL && arena_is_live(automatic - 1));
    CHECK(arena_wanted(automatic + 5) == NULL);
}

// An arena that has another one's number is as old as itself.
static void age(void) {
    unsigned first, second;

    CHECK(arenas_make(NULL, &first) == 0 && arena_destroy(first, NULL) == 0);
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    uint64_t now = os_clock_ms();
    CHECK(arenas_make(NULL, &second) == 0 && second == first);
    CHECK_LE(now, arena_of(second)->created_at);
    CHECK_EQ(arena_destroy(second, NULL), 0);
}

static void numbers_end(void) {
    unsigned made[ARENAS_MOST], count = 0;

    while (arenas_make(NULL, &made[count]) == 0)
        CHECK_LT(++count, ARENAS_MOST);
    CHECK_EQ(arenas_numbers(), ARENAS_MOST);
    CHECK_LE(ARENAS_MOST - ARENAS_AUTOMATIC_MOST, count);
    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(arena_destroy(made[i], NULL), 0);
}

static void reset_and_destroy(void) {
    size_t mapped;
    unsigned id;

    CHECK_EQ(arenas_make(NULL, &id), 0);
    heap_trim();
    mapped = stats_snapshot().mapped;
    for (int round = 0; round < 3; round++) {
        fill_arena(id, MALLOCX_TCACHE_NONE);
        for (int i = 0; i < OBJECTS; i += 3)
            free(objects[i]); // from a thread of another arena
        CHECK_EQ(arena_reset(id), 0);
        check_empty(id);
        CHECK(page_map_word(objects[1]) == 0 && heap_arena_of(objects[1], &(unsigned){0}) == EINVAL);
    }
    fill_arena(id, MALLOCX_TCACHE_NONE);
    CHECK_EQ(arena_destroy(id, NULL), 0);
    check_empty(id);
    CHECK_EQ(arena_of(id)->pages.runs.total_bytes, 0);
    CHECK_LE(stats_snapshot().mapped, mapped + 2 * CHUNK_BYTES); // what this thread uses itself
}

// The thread's own front may be full of the arena's objects, and an explicit cache too.
static void reset_with_fronts(void) {
    unsigned id, cache, now;

    CHECK(arenas_make(NULL, &id) == 0 && explicit_cache_create(&cache) == 0);
    fill_arena(id, MALLOCX_TCACHE(cache));
    for (int i = 0; i < OBJECTS; i += 2)
        dallocx(objects[i], MALLOCX_TCACHE(cache));
    CHECK_EQ(arena_reset(id), 0);
    check_empty(id);

    CHECK(thread_set_arena(id) == 0 && thread_arena(&now) == 0 && now == id);
    for (int i = 0; i < OBJECTS; i++)
        check_home(objects[i] = malloc(size_of(i)), id);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    CHECK_EQ(arena_destroy(id, NULL), EFAULT); // a thread is bound to it
    CHECK_EQ(arena_reset(id), 0);
    check_empty(id);
    void *object = malloc(50);
    check_home(object, id);
    CHECK_EQ(thread_set_arena(0), 0);
    free(object);
    CHECK_EQ(thread_set_arena(5000), EFAULT);
    CHECK_EQ(arena_destroy(id, NULL), 0);

    // A cache whose arena is gone serves the thread's.
    object = mallocx(50, MALLOCX_TCACHE(cache));
    check_home(object, 0);
    dallocx(object, MALLOCX_TCACHE(cache));
    CHECK_EQ(explicit_cache_flush(cache), 0);
    CHECK_EQ(explicit_cache_destroy(cache), 0);
    CHECK_EQ(explicit_cache_destroy(cache), EFAULT);
    CHECK_EQ(explicit_cache_flush(cache), EFAULT);
}

// A cache gives back what it got last, and serves the arena that is named with it.
static void caches(void) {
    unsigned a, b, first, second, again;

    CHECK(arenas_make(NULL, &a) == 0 && arenas_make(NULL, &b) == 0);
    CHECK(explicit_cache_create(&first) == 0 && explicit_cache_create(&second) == 0 && first != second);
    void *object = mallocx(100, MALLOCX_ARENA(a) | MALLOCX_TCACHE(first));
    dallocx(object, MALLOCX_TCACHE(first));
    CHECK(mallocx(100, MALLOCX_ARENA(a) | MALLOCX_TCACHE(first)) == object);
    CHECK(mallocx(100, MALLOCX_ARENA(a) | MALLOCX_TCACHE(second)) != object);
    void *other = mallocx(100, MALLOCX_ARENA(b) | MALLOCX_TCACHE(first));
    check_home(other, b);
    dallocx(object, MALLOCX_TCACHE(first)); // of another arena than the cache serves now: home
    void *fresh = mallocx(100, MALLOCX_ARENA(a) | MALLOCX_TCACHE_NONE);
    CHECK(fresh == object);
    CHECK(explicit_cache_destroy(first) == 0 && explicit_cache_create(&again) == 0 && again == first);
    CHECK(explicit_cache_destroy(again) == 0 && explicit_cache_destroy(second) == 0);
    CHECK(arena_destroy(a, NULL) == 0 && arena_destroy(b, NULL) == 0);
}

// What a cache holds when it is destroyed is not lost.
static void cache_destroyed_full(void) {
    unsigned id, cache;
    size_t held = 0;

    CHECK(arenas_make(NULL, &id) == 0 && explicit_cache_create(&cache) == 0);
    fill_arena(id, MALLOCX_TCACHE(cache));
    for (int i = 0; i < OBJECTS; i++)
        dallocx(objects[i], MALLOCX_TCACHE(cache));
    reclaim_everything();
    for (unsigned class = 1; class < SLAB_CLASSES; class++)
        held += bin_used(&arena_of(id)->bins[class]);
    CHECK_GT(held, 0);
    CHECK_EQ(explicit_cache_destroy(cache), 0);
    reclaim_everything();
    check_empty(id);
    CHECK_EQ(arena_destroy(id, NULL), 0);
}

// Who names no arena gets no object of one that the program made, whatever the cache served before.
static void cache_without_arena(void) {
    unsigned id, cache;

    CHECK(arenas_make(NULL, &id) == 0 && explicit_cache_create(&cache) == 0);
    dallocx(mallocx(100, MALLOCX_ARENA(id) | MALLOCX_TCACHE(cache)), MALLOCX_TCACHE(cache));
    char *object = mallocx(100, MALLOCX_TCACHE(cache));
    check_home(object, words.front->arena->id);
    memset(object, 7, 100);
    CHECK_EQ(arena_reset(id), 0);
    CHECK(object[0] == 7 && object[99] == 7);
    dallocx(object, MALLOCX_TCACHE(cache));
    CHECK(arena_destroy(id, NULL) == 0 && explicit_cache_destroy(cache) == 0);
}

// A thread whose cache served an arena, and was flushed since, goes on with it while another resets the arena; others make and destroy caches.
static unsigned shared;
static pthread_mutex_t in_shared = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool over;

static void loiter(long most) {
    for (volatile long wait = random() & most; wait > 0; wait--)
        ;
}

static void *flush_and_go_on(void *argument) {
    unsigned cache, short_lived, own;
    unsigned char *mine[40];

    CHECK(arenas_make(NULL, &own) == 0 && explicit_cache_create(&cache) == 0);
    while (!over) {
        pthread_mutex_lock(&in_shared);
        dallocx(mallocx(100, MALLOCX_ARENA(shared) | MALLOCX_TCACHE(cache)), MALLOCX_TCACHE(cache));
        CHECK_EQ(explicit_cache_flush(cache), 0);
        pthread_mutex_unlock(&in_shared);
        loiter(255);
        for (int i = 0; i < 40; i++)
            memset(mine[i] = mallocx(100, MALLOCX_ARENA(own) | MALLOCX_TCACHE(cache)), (int)(uintptr_t)argument + i, 100);
        for (int i = 0; i < 40; i++) {
            CHECK(mine[i][0] == (unsigned char)((uintptr_t)argument + (unsigned)i) && mine[i][99] == mine[i][0]);
            dallocx(mine[i], MALLOCX_TCACHE(cache));
        }
        CHECK(explicit_cache_create(&short_lived) == 0 && explicit_cache_destroy(short_lived) == 0);
    }
    CHECK(explicit_cache_destroy(cache) == 0 && arena_destroy(own, NULL) == 0);
    return NULL;
}

static void reset_beside_flushed_caches(void) {
    enum { TIME_MS = 700 };
    pthread_t threads[THREADS];
    uint64_t end = os_clock_ms() + TIME_MS;

    CHECK_EQ(arenas_make(NULL, &shared), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, flush_and_go_on, (void *)(i * 50)), 0);
    while (os_clock_ms() < end) {
        pthread_mutex_lock(&in_shared);
        CHECK_EQ(arena_reset(shared), 0);
        pthread_mutex_unlock(&in_shared);
        sched_yield();
        loiter(1023);
    }
    over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(arena_destroy(shared, NULL), 0);
}

// What is asked of all arenas while others are made and destroyed.
static void *make_and_destroy(void *argument) {
    unsigned id;

    while (!over)
        CHECK(arenas_make(NULL, &id) == 0 && arena_destroy(id, NULL) == 0);
    return argument;
}

static void ask_all_while_some_end(void) {
    enum { TIME_MS = 700, DESTROYERS = 2 };
    pthread_t threads[DESTROYERS];
    uint64_t end = os_clock_ms() + TIME_MS;
    size_t active, size = sizeof active;

    over = false;
    for (int i = 0; i < DESTROYERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, make_and_destroy, NULL), 0);
    while (os_clock_ms() < end) {
        CHECK_EQ(mallctl("approximate_stats.active", &active, &size, NULL, 0), 0);
        CHECK_EQ(mallctl("arena.4096.decay", NULL, NULL, NULL, 0), 0);
    }
    over = true;
    for (int i = 0; i < DESTROYERS; i++)
        pthread_join(threads[i], NULL);
}

static void without_cache(void) {
    CHECK(thread_has_cache());
    free(malloc(200));
    CHECK(front_has_magazines(words.front));
    thread_set_cache(false);
    CHECK(!thread_has_cache());
    CHECK(!front_has_magazines(words.front)); // what it had is given to all
    void *object = malloc(200);
    struct bin *bin = &words.front->arena->bins[size_class(200)];
    size_t free_buffers = bin->free_buffers;
    free(object);
    CHECK_EQ(bin->free_buffers, free_buffers + 1); // straight home
    thread_set_cache(true);
    CHECK(thread_has_cache());
    free(malloc(200));
}

// The next arena of a number has what the one before was told no more.
static void begins_anew(void) {
    ssize_t by_default = arenas_dirty_decay_ms();
    unsigned id, again;

    CHECK_EQ(arenas_make(NULL, &id), 0);
    CHECK_EQ(arena_set_dirty_decay_ms(arena_of(id), by_default + 1), 0);
    CHECK(mallocx(1 << 20, MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE) != NULL);
    CHECK_EQ(arena_destroy(id, NULL), 0);
    CHECK(arenas_make(NULL, &again) == 0 && again == id);
    CHECK_EQ(arena_dirty_decay_ms(arena_of(id)), by_default);
    CHECK_EQ(arena_destroy(id, NULL), 0);
}

static void settings(void) {
    unsigned id;

    CHECK_EQ(arenas_set_dirty_decay_ms(-2), EFAULT);
    CHECK_EQ(arenas_set_dirty_decay_ms(123), 0);
    CHECK_EQ(arenas_set_muzzy_decay_ms(-1), 0);
    CHECK_EQ(arenas_make(NULL, &id), 0);
    struct arena *arena = arena_of(id);
    CHECK(arena_dirty_decay_ms(arena) == 123 && arena_muzzy_decay_ms(arena) == -1);
    CHECK(arena_set_dirty_decay_ms(arena, -2) == EFAULT && arena_set_muzzy_decay_ms(arena, -7) == EFAULT);
    CHECK_EQ(arena_set_dirty_decay_ms(arena, -1), 0);
    void *object = mallocx(1 << 20, MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE), *keep = mallocx(1 << 20, MALLOCX_ARENA(id));
    memset(object, 1, 1 << 20);
    dallocx(object, 0);
    arena_decay(arena);
    CHECK_GE(pages_dirty_bytes(&arena->pages), 1 << 20); // it stays
    CHECK_EQ(arena_set_dirty_decay_ms(arena, 0), 0);
    CHECK_EQ(pages_dirty_bytes(&arena->pages), 0); // and goes at once
    dallocx(keep, 0);
    CHECK_EQ(pages_dirty_bytes(&arena->pages), 0);
    CHECK_EQ(arena_set_dirty_decay_ms(arena, -1), 0);
    dallocx(mallocx(1 << 20, MALLOCX_ARENA(id)), 0);
    arena_purge(arena);
    CHECK_EQ(pages_dirty_bytes(&arena->pages), 0);
    CHECK_EQ(arena_destroy(id, NULL), 0);
    CHECK(arenas_set_dirty_decay_ms(2500) == 0 && arenas_set_muzzy_decay_ms(0) == 0);
}

static void utilization(void) {
    struct utilization use;
    unsigned id;

    CHECK_EQ(arenas_make(NULL, &id), 0);
    char *object = mallocx(1000, MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE);
    CHECK(heap_utilization(object + 5, &use) && use.count > 1 && use.free_count == use.count - 1 && use.bytes >= 16384);
    CHECK(use.bin_count == use.count && use.bin_free_count == use.free_count && use.lowest_slab != NULL);
    char *large = mallocx(100000, MALLOCX_ARENA(id));
    CHECK(heap_utilization(large, &use) && use.count == 1 && use.free_count == 0 && use.bytes >= 100000);
    CHECK(!heap_utilization(NULL, &use) && use.count == 0 && use.bytes == 0);
    CHECK(!heap_utilization(&use, &use));
    CHECK_EQ(heap_arena_of(&use, &(unsigned){0}), EINVAL);
    CHECK_EQ(arena_destroy(id, NULL), 0);
}

// Another thread bound to the arena with magazines keeps it from being reset, until it has flushed.
struct bound {
    unsigned arena;
    sem_t step, done;
};

static void *be_bound(void *argument) {
    struct bound *bound = argument;

    CHECK_EQ(thread_set_arena(bound->arena), 0);
    free(malloc(100));
    sem_post(&bound->done);
    sem_wait(&bound->step);
    front_flush(words.front);
    sem_post(&bound->done);
    sem_wait(&bound->step);
    check_home(malloc(100), bound->arena);
    return NULL;
}

static void reset_with_bound_thread(void) {
    struct bound bound;
    pthread_t thread;

    sem_init(&bound.step, 0, 0);
    sem_init(&bound.done, 0, 0);
    CHECK_EQ(arenas_make(NULL, &bound.arena), 0);
    CHECK_EQ(pthread_create(&thread, NULL, be_bound, &bound), 0);
    sem_wait(&bound.done);
    CHECK_EQ(arena_reset(bound.arena), EFAULT);
    sem_post(&bound.step);
    sem_wait(&bound.done);
    CHECK_EQ(arena_reset(bound.arena), 0);
    CHECK_EQ(arena_destroy(bound.arena, NULL), EFAULT);
    sem_post(&bound.step);
    pthread_join(thread, NULL);
    CHECK_EQ(arena_destroy(bound.arena, NULL), 0);
}

static void *be_sampled(void *argument) {
    struct bound *bound = argument;

    CHECK_EQ(thread_set_arena(bound->arena), 0);
    free(malloc(100));
    sem_post(&bound->done);
    sem_wait(&bound->step);
    check_home(malloc(100), bound->arena);
    return NULL;
}

// A thread whose objects are all sampled has none at hand that a reset would miss.
static void reset_with_sampled_thread(void) {
    unsigned lg_sample = atomic_load(&profile_settings.lg_sample);
    struct bound bound;
    pthread_t thread;

    sem_init(&bound.step, 0, 0);
    sem_init(&bound.done, 0, 0);
    CHECK_EQ(arenas_make(NULL, &bound.arena), 0);
    profile_reset(0);
    sampling_set(true);
    CHECK_EQ(pthread_create(&thread, NULL, be_sampled, &bound), 0);
    sem_wait(&bound.done);
    CHECK_EQ(arena_reset(bound.arena), 0);
    sem_post(&bound.step);
    pthread_join(thread, NULL);
    sampling_set(false);
    profile_reset(lg_sample);
    CHECK_EQ(arena_destroy(bound.arena, NULL), 0);
}

// Threads make, fill, reset and destroy arenas of their own, while each also frees objects of its own heap and of others' arenas.
static void *churn(void *seed) {
    struct random random = {(uintptr_t)seed};
    void *kept[64] = {0};
    unsigned id;

    for (int round = 0; round < 60; round++) {
        CHECK_EQ(arenas_make(NULL, &id), 0);
        for (int i = 0; i < 400; i++) {
            size_t at = random_below(&random, 64);
            size_t size = 1 + random_below(&random, i % 40 == 0 ? 300000 : 2000);
            char *object = mallocx(size, MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE | MALLOCX_ZERO);

            CHECK(object[0] == 0 && object[size - 1] == 0);
            memset(object, (int)(uintptr_t)seed, size);
            if (i % 3 == 0)
                free(object);
            free(kept[at]);
            kept[at] = malloc(size);
            memset(kept[at], (int)(uintptr_t)seed, size);
        }
        if (round % 2 == 0)
            CHECK_EQ(arena_reset(id), 0);
        if (round % 4 == 0)
            heap_trim();
        CHECK_EQ(arena_destroy(id, NULL), 0);
    }
    for (int i = 0; i < 64; i++)
        free(kept[i]);
    return NULL;
}

static void under_threads(void) {
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

// A child may use, reset and destroy what its parent made.
static void across_fork(void) {
    unsigned id, cache;

    CHECK(arenas_make(NULL, &id) == 0 && explicit_cache_create(&cache) == 0);
    fill_arena(id, MALLOCX_TCACHE(cache));
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < OBJECTS; i++)
            dallocx(objects[i], MALLOCX_TCACHE(cache));
        fill_arena(id, MALLOCX_TCACHE(cache));
        CHECK(arena_reset(id) == 0 && arena_destroy(id, NULL) == 0 && explicit_cache_destroy(cache) == 0);
        _exit(0);
    }
    expect_child(child);
    CHECK(arena_destroy(id, NULL) == 0 && explicit_cache_destroy(cache) == 0);
}

int main(void) {
    free(malloc(1));
    for (int i = 0; i < 40; i++)
        in_child(numbers_at_once);
    in_child(gone_ones_do_not_count);
    numbers();
    age();
    reset_and_destroy();
    reset_with_fronts();
    caches();
    cache_destroyed_full();
    cache_without_arena();
    reset_beside_flushed_caches();
    ask_all_while_some_end();
    without_cache();
    begins_anew();
    settings();
    utilization();
    reset_with_bound_thread();
    reset_with_sampled_thread();
    under_threads();
    across_fork();
    numbers_end();
    return 0;
}
