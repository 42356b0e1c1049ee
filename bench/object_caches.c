// Object caches measured: `object_caches pair WHAT THREADS SIZE` prints how many pairs of alloc and free all threads do a second,
// `object_caches steady PATTERN THREADS SECONDS` a line for each second. Output is JSON. See object_caches.py.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <vmag/cache.h>

enum { SLICES = 12, SLICE_MS = 20, STRIDE = 100, THREADS_MOST = 64, TABLE = 4096, RING = 1024 };

static double now(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void start_thread(pthread_t *thread, void *(*work)(void *), void *argument) {
    if (pthread_create(thread, NULL, work, argument) != 0) {
        fputs("object_caches: a thread could not be started\n", stderr);
        exit(1);
    }
}

// ---- An object that is costly to make: a lock, a condition, two buffers.

struct session {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *in, *out;
};

static int session_construct(void *object, void *argument, int flags) {
    struct session *session = object;

    (void)argument, (void)flags;
    session->in = malloc(1024);
    session->out = calloc(1, 4096);
    pthread_mutex_init(&session->lock, NULL);
    pthread_cond_init(&session->changed, NULL);
    return session->in == NULL || session->out == NULL;
}

static void session_destruct(void *object, void *argument) {
    struct session *session = object;

    (void)argument;
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->lock);
    free(session->in);
    free(session->out);
}

static void session_use(struct session *session) {
    pthread_mutex_lock(&session->lock);
    session->in[0] = session->out[0] = 1;
    pthread_mutex_unlock(&session->lock);
}

// ---- Tight loops of alloc and free (2001, §3.8).

static vmag_cache_t *cache;
static size_t object_size;
static _Atomic int going;

static void pair_cache(void) {
    vmag_cache_free(cache, vmag_cache_alloc(cache, VMAG_NOSLEEP));
}

static void pair_malloc(void) {
    free(malloc(object_size));
}

static void pair_session(void) {
    struct session *session = vmag_cache_alloc(cache, VMAG_NOSLEEP);

    session_use(session);
    vmag_cache_free(cache, session);
}

static void pair_init(void) {
    struct session *session = malloc(sizeof *session);

    session_construct(session, NULL, 0);
    session_use(session);
    session_destruct(session, NULL);
    free(session);
}

static const struct {
    const char *name;
    void (*pair)(void);
    int flags, session;
} kinds[] = {
    { "cache", pair_cache, 0, 0 },
    { "slabs", pair_cache, VMAG_CACHE_NOMAGAZINE, 0 },
    { "malloc", pair_malloc, 0, 0 },
    { "constructed", pair_session, 0, 1 },
    { "malloc+init", pair_init, 0, 1 },
};

struct worker {
    _Alignas(128) pthread_t thread;
    void (*pair)(void);
    _Atomic uint64_t pairs;
};

static pthread_barrier_t start;

static void *loop(void *argument) {
    struct worker *worker = argument;

    pthread_barrier_wait(&start);
    for (uint64_t pairs = STRIDE; going; pairs += STRIDE) {
        for (int i = 0; i < STRIDE; i++)
            worker->pair();
        atomic_store_explicit(&worker->pairs, pairs, memory_order_relaxed);
    }
    return NULL;
}

static uint64_t pairs_of(const struct worker *workers, int threads) {
    uint64_t sum = 0;

    for (int i = 0; i < threads; i++)
        sum += workers[i].pairs;
    return sum;
}

// The best of some slices of time, the same for all threads: each by its own best would add up what never was at once.
static double best_rate(const struct worker *workers, int threads) {
    double best = 0;

    for (int slice = 0; slice < SLICES; slice++) {
        double began = now(), rate;
        uint64_t before = pairs_of(workers, threads);

        usleep(SLICE_MS * 1000);
        rate = (double)(pairs_of(workers, threads) - before) / (now() - began);
        best = rate > best ? rate : best;
    }
    return best;
}

static void measure_pairs(const char *name, int threads) {
    static struct worker workers[THREADS_MOST];
    unsigned kind = 0;

    while (kind < sizeof kinds / sizeof *kinds - 1 && strcmp(kinds[kind].name, name) != 0)
        kind++;
    cache = kinds[kind].session ? vmag_cache_create("session", sizeof(struct session), 0, session_construct, session_destruct, NULL,
                                                    NULL, NULL, 0) :
                                  vmag_cache_create("pair", object_size, 0, NULL, NULL, NULL, NULL, NULL, kinds[kind].flags);
    pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
    going = 1;
    for (int i = 0; i < threads; i++) {
        workers[i].pair = kinds[kind].pair;
        start_thread(&workers[i].thread, loop, &workers[i]);
    }
    pthread_barrier_wait(&start);
    printf("{\"per_second\":%.0f}\n", best_rate(workers, threads));
    going = 0;
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
}

// ---- A steady load: how often threads come to the depot, how often they meet there, and how large magazines become.

struct load {
    pthread_t thread;
    uint64_t seed;
    _Atomic uint64_t operations;
};

static uint64_t random_next(struct load *load) {
    load->seed ^= load->seed >> 12;
    load->seed ^= load->seed << 25;
    load->seed ^= load->seed >> 27;
    return load->seed * 0x2545f4914f6cdd1du >> 32;
}

// Runs of allocations and of frees of random length: the level wanders.
static int pause_us; // other work between two runs

static void *wander(void *argument) {
    struct load *load = argument;
    void *objects[TABLE];
    size_t held = 0;

    while (going) {
        size_t run = random_next(load) % 500;

        if (random_next(load) % 2)
            for (; run > 0 && held < TABLE; run--)
                objects[held++] = vmag_cache_alloc(cache, VMAG_NOSLEEP);
        else
            for (; run > 0 && held > 0; run--)
                vmag_cache_free(cache, objects[--held]);
        atomic_fetch_add_explicit(&load->operations, 250, memory_order_relaxed);
        if (pause_us > 0)
            usleep((useconds_t)pause_us);
    }
    return NULL;
}

// Every object is freed by another thread than the one that allocated it.
static void *_Atomic ring[THREADS_MOST][RING];

static void *pass(void *argument) {
    struct load *load = argument;
    int odd = load->seed % 2 == 0, pipe = (int)(load->seed / 2);

    for (size_t i = 0; going; i++) {
        void *_Atomic *slot = &ring[pipe][i % RING];

        if (odd) {
            void *object = vmag_cache_alloc(cache, VMAG_NOSLEEP), *none = NULL;
            while (going && !atomic_compare_exchange_weak(slot, &none, object))
                none = NULL, sched_yield();
        } else {
            void *object = NULL;
            while (going && (object = atomic_exchange(slot, NULL)) == NULL)
                sched_yield();
            if (going)
                vmag_cache_free(cache, object);
        }
        atomic_fetch_add_explicit(&load->operations, 1, memory_order_relaxed);
    }
    return NULL;
}

static void steady(const char *pattern, int threads, int seconds) {
    static struct load loads[THREADS_MOST];
    struct vmag_cache_stats before, after;
    uint64_t operations_before = 0;

    cache = vmag_cache_create("steady", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
    vmag_cache_stats(cache, &before, sizeof before);
    pause_us = strcmp(pattern, "paced") == 0 ? 200 : 0;
    going = 1;
    for (int i = 0; i < threads; i++) {
        loads[i].seed = (uint64_t)i + 2;
        start_thread(&loads[i].thread, strcmp(pattern, "pass") == 0 ? pass : wander, &loads[i]);
    }
    printf("[");
    for (int second = 0; second < seconds; second++) {
        uint64_t operations = 0;

        sleep(1);
        vmag_cache_stats(cache, &after, sizeof after);
        for (int i = 0; i < threads; i++)
            operations += loads[i].operations;
        printf("%s{\"operations\":%lu,\"visits\":%lu,\"contentions\":%lu,\"rounds\":%zu}", second > 0 ? ",\n" : "",
               (unsigned long)(operations - operations_before),
               (unsigned long)(after.depot_takes + after.depot_puts - before.depot_takes - before.depot_puts),
               (unsigned long)(after.depot_contentions - before.depot_contentions), after.magazine_rounds);
        before = after;
        operations_before = operations;
    }
    printf("]\n");
}

int main(int count, char **arguments) {
    if (count == 5 && (atoi(arguments[3]) < 1 || atoi(arguments[3]) > THREADS_MOST)) {
        fprintf(stderr, "object_caches: 1 to %d threads\n", THREADS_MOST);
        return 2;
    }
    if (count == 5 && strcmp(arguments[1], "pair") == 0) {
        object_size = (size_t)atol(arguments[4]);
        measure_pairs(arguments[2], atoi(arguments[3]));
    } else if (count == 5 && strcmp(arguments[1], "steady") == 0)
        steady(arguments[2], atoi(arguments[3]), atoi(arguments[4]));
    else
        return 2;
    fflush(stdout);
    _exit(0);
}
