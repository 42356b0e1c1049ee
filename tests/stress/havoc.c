// Everything at once: all faces of malloc with verified contents, threads that come and go, forks, arenas of the program's own that are
// reset and destroyed, and controls turned all the time.  `havoc THREADS SECONDS [SEED]`.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"
#include "../support/family.h"
#include "../support/pattern.h"

#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum { SLOTS = 2000, MOST_THREADS = 64, MOST_SIZE = 4 << 20, LIVE_MOST = 200 << 20, OWN = 40, TURN_EVERY = 97 };

struct slot {
    _Atomic int busy;
    void *at;
    size_t size;
    bool sized; // may be freed with that size
};

static struct slot slots[SLOTS];
static _Atomic bool over;
static _Atomic long steps, lives;
static _Atomic size_t live;
static uint64_t seed;

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

// Small ones mostly, now and then one at the edge of something.
static size_t pick(uint64_t *random) {
    static const size_t edges[] = { 8, 1024, 14336, 16384, 65536, 81920, 1 << 20, 2 << 20 };
    unsigned kind = next(random) % 100, lg = next(random) % 22;

    if (kind < 10)
        return edges[next(random) % 8] + next(random) % 3 - 1;
    return kind < 80 ? 1 + next(random) % 600 : ((size_t)1 << lg) + next(random) % ((size_t)1 << lg);
}

static void take(struct slot *slot, uint64_t *random) {
    size_t size = pick(random), align = (size_t)16 << next(random) % 12;

    if (live + size > LIVE_MOST)
        return;
    slot->sized = false;
    switch (next(random) % 6) {
    case 0:
        slot->at = calloc(1, size);
        for (size_t i = 0; i < size; i += size > 65536 ? 509 : 1)
            CHECK_EQ(((char *)slot->at)[i], 0);
        break;
    case 1:
        slot->at = aligned_alloc(align, size);
        CHECK_EQ((uintptr_t)slot->at % align, 0);
        break;
    case 2:
        slot->at = mallocx(size, MALLOCX_TCACHE_NONE);
        break;
    default:
        slot->at = malloc(size);
        slot->sized = true;
    }
    CHECK(slot->at != NULL && malloc_usable_size(slot->at) >= size);
    slot->size = size;
    live += size;
    pattern_fill(slot->at, size, (uintptr_t)slot->at + size);
}

static void drop(struct slot *slot, uint64_t *random) {
    pattern_verify(slot->at, slot->size, (uintptr_t)slot->at + slot->size);
    live -= slot->size;
    if (slot->sized && next(random) % 2)
        free_sized(slot->at, slot->size);
    else if (next(random) % 4 == 0)
        dallocx(slot->at, MALLOCX_TCACHE_NONE);
    else
        free(slot->at);
    slot->at = NULL;
}

static void resize(struct slot *slot, uint64_t *random) {
    size_t size = pick(random), old = slot->size;
    uintptr_t key = (uintptr_t)slot->at + old;

    if (live + size > LIVE_MOST)
        return;
    slot->at = next(random) % 2 ? rallocx(slot->at, size, 0) : realloc(slot->at, size);
    CHECK(slot->at != NULL);
    pattern_verify_prefix(slot->at, old, size, key);
    live += size - old;
    slot->size = size;
    slot->sized = true;
    pattern_fill(slot->at, size, (uintptr_t)slot->at + size);
}

static void step(uint64_t *random) {
    struct slot *slot = &slots[next(random) % SLOTS];

    if (atomic_exchange(&slot->busy, 1) != 0)
        return;
    if (slot->at == NULL)
        take(slot, random);
    else if (next(random) % 5 == 0)
        resize(slot, random);
    else
        drop(slot, random);
    slot->busy = 0;
}

static void act(unsigned arena, const char *what) {
    char name[64];

    snprintf(name, sizeof name, "arena.%u.%s", arena, what);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
}

static void fill_own(void *own[OWN], int flags, uint64_t *random) {
    for (int i = 0; i < OWN; i++) {
        size_t size = pick(random) % 300000 + 8;

        own[i] = mallocx(size, flags);
        CHECK(own[i] != NULL);
        memcpy(own[i], &own[i], sizeof own[i]);
    }
    for (int i = 0; i < OWN; i++)
        CHECK(memcmp(own[i], &own[i], sizeof own[i]) == 0);
}

// An arena of the program's own, filled, half emptied, reset, filled again and destroyed.
static void own_arena(uint64_t *random) {
    unsigned arena, cache;
    size_t size = sizeof arena;
    void *own[OWN];

    if (mallctl("arenas.create", &arena, &size, NULL, 0) != 0)
        return;
    CHECK_EQ(mallctl("tcache.create", &cache, &size, NULL, 0), 0);
    int in = next(random) % 2 ? MALLOCX_TCACHE(cache) : MALLOCX_TCACHE_NONE;
    fill_own(own, MALLOCX_ARENA(arena) | in, random);
    for (int i = 0; i < OWN; i += 2)
        if (i % 4)
            free(own[i]);
        else
            dallocx(own[i], in);
    act(arena, "reset");
    fill_own(own, MALLOCX_ARENA(arena) | in, random);
    act(arena, "destroy");
    CHECK_EQ(mallctl("tcache.destroy", NULL, NULL, &cache, sizeof cache), 0);
}

static void set(const char *name, void *value, size_t size) {
    mallctl(name, NULL, NULL, value, size);
}

static void turn(uint64_t *random) {
    static const ssize_t decays[] = { -1, 0, 1, 100, 10000 };
    bool on = next(random) % 2;
    ssize_t decay = decays[next(random) % 5];
    uint64_t epoch = 1;

    switch (next(random) % 10) {
    case 0: set("prof.active", &on, sizeof on); break;
    case 1: set("thread.tcache.flush", NULL, 0); break;
    case 2: set("arena.4096.purge", NULL, 0); break;
    case 3: set("arena.4096.decay", NULL, 0); break;
    case 4: set("epoch", &epoch, sizeof epoch); break;
    case 5: set("arena.0.dirty_decay_ms", &decay, sizeof decay); break;
    case 6: malloc_trim(0); break;
    case 7: set("thread.tcache.enabled", &on, sizeof on); break;
    case 8: set("background_thread", &on, sizeof on); break;
    case 9: own_arena(random); break;
    }
}

static void go_on(uint64_t *random, int count) {
    for (int i = 0; i < count && !over; i++) {
        step(random);
        if (i % TURN_EVERY == 0)
            turn(random);
        steps++;
    }
}

static void *life(void *unused) {
    uint64_t random = pattern_mix(seed + ++lives * 7919) | 1;

    go_on(&random, 200 + (int)(next(&random) % 10000));
    return unused;
}

static void *forks(void *unused) {
    uint64_t random = seed * 31 | 1;

    while (!over) {
        pid_t child = fork();

        CHECK_GE(child, 0);
        if (child == 0) {
            alarm(300);
            go_on(&random, 1500);
            malloc_trim(0);
            _exit(0);
        }
        expect_child(child);
        next(&random);
    }
    return unused;
}

int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 4;
    int seconds = count > 2 ? atoi(arguments[2]) : 5;
    time_t end = time(NULL) + seconds;
    pthread_t running[MOST_THREADS], forker;

    seed = count > 3 ? strtoull(arguments[3], NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    say("havoc %d %d %llu", threads, seconds, (unsigned long long)seed);
    for (int i = 0; i < threads; i++)
        CHECK_EQ(pthread_create(&running[i], NULL, life, NULL), 0);
    CHECK_EQ(pthread_create(&forker, NULL, forks, NULL), 0);
    for (int i = 0; time(NULL) < end; i = (i + 1) % threads) {
        CHECK_EQ(pthread_join(running[i], NULL), 0);
        CHECK_EQ(pthread_create(&running[i], NULL, life, NULL), 0);
    }
    over = true;
    for (int i = 0; i < threads; i++)
        CHECK_EQ(pthread_join(running[i], NULL), 0);
    pthread_join(forker, NULL);
    uint64_t random = seed | 1;
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].at != NULL)
            drop(&slots[i], &random);
    say("%ld steps, %ld threads lived", steps, lives);
    return 0;
}
