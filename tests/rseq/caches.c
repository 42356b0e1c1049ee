// Tests object caches on fronts of processors (VMAG_CONF=front:cpu) under what aborts sequences: a storm of signals, threads that
// hop between processors, more threads than processors, tidying and reaping from elsewhere, forks. Every object is constructed
// once, belongs to one thread at a time and is in no other cache; destroying finds what all processors hold; and hundreds of
// threads hold no more than the processors do.
// SPDX-License-Identifier: BSD-2-Clause
#include "interruptions.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vmag/cache.h>

enum { SECONDS = 2, THREADS = 4, HELD = 40, HOP_EVERY = 3000, SHORT_CACHES = 100, WAITING = 512 };

struct object {
    _Atomic int owned; // changed not atomically, lest most signals come there
    vmag_cache_t **cache;
    char filler[100];
};

static vmag_cache_t *caches[2]; // alike, so that an object of the other would not be noticed by its size
static _Atomic int balance;
static _Atomic bool over;
static _Atomic long operations, signals_seen;

static int construct(void *memory, void *cache, int flags) {
    struct object *object = memory;

    (void)flags;
    object->owned = 0;
    object->cache = cache;
    balance++;
    return 0;
}

static void destruct(void *memory, void *cache) {
    struct object *object = memory;

    CHECK(object->owned == 0 && object->cache == cache);
    object->cache = NULL;
    balance--;
}

static vmag_cache_t *create(vmag_cache_t **cache) {
    return *cache = vmag_cache_create("processors", sizeof(struct object), 0, construct, destruct, NULL, cache, NULL, 0);
}

static struct object *take(vmag_cache_t **cache) {
    struct object *object = vmag_cache_alloc(*cache, VMAG_SLEEP);

    CHECK(object->cache == cache);
    CHECK_EQ(atomic_load_explicit(&object->owned, memory_order_relaxed), 0);
    atomic_store_explicit(&object->owned, 1, memory_order_relaxed);
    return object;
}

static void put_back(struct object *object) {
    CHECK_EQ(atomic_load_explicit(&object->owned, memory_order_relaxed), 1);
    atomic_store_explicit(&object->owned, 0, memory_order_relaxed);
    vmag_cache_free(*object->cache, object);
}

static void on_signal(int number) {
    (void)number;
    atomic_fetch_add_explicit(&signals_seen, 1, memory_order_relaxed);
}

static void churn(unsigned long step) {
    struct object *held[HELD];
    int count = (int)(step % HELD);

    for (int i = 0; i < count; i++)
        held[i] = take(&caches[(step + (unsigned)i) % 2]);
    for (int i = 0; i < count; i++)
        put_back(held[i]);
}

static void *work(void *self_) {
    unsigned long self = (uintptr_t)self_, cpus = (unsigned long)sysconf(_SC_NPROCESSORS_ONLN), done = 0;
    timer_t timer = storm_begin();

    for (; !over; done++) {
        if (done % HOP_EVERY == 0)
            hop((unsigned)((done / HOP_EVERY + self) % cpus));
        churn(done * 7 + self);
    }
    timer_delete(timer);
    operations += (long)done;
    return NULL;
}

static void fork_one(void) {
    pid_t child = fork();
    int status;

    if (child == 0) {
        alarm(300);
        for (unsigned i = 0; i < 200; i++)
            churn(i);
        vmag_cache_destroy(caches[0]);
        vmag_cache_destroy(caches[1]);
        _exit(0);
    }
    CHECK(child > 0);
    while (waitpid(child, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    CHECK_EQ(status, 0);
}

static size_t cached(vmag_cache_t *cache) {
    struct vmag_cache_stats stats;

    vmag_cache_stats(cache, &stats, sizeof stats);
    CHECK_EQ(stats.in_use, 0);
    return stats.cached;
}

static void test_storm(void) {
    pthread_t threads[THREADS];
    time_t end = time(NULL) + SECONDS;

    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    while (time(NULL) < end) {
        vmag_cache_reap(caches[0]);
        vmag_caches_reap();
        fork_one();
    }
    over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(cached(caches[0]) + cached(caches[1]), (size_t)balance);
    vmag_caches_reap();
    CHECK_EQ(balance, 0);
    printf("%ld rounds, %ld signals\n", (long)operations, (long)signals_seen);
}

// ---- destroying what processors hold; ids are used again

static void *use_once(void *cache) {
    struct object *objects[HELD];

    for (int i = 0; i < HELD; i++)
        objects[i] = take(cache);
    for (int i = 0; i < HELD; i++)
        put_back(objects[i]);
    return NULL;
}

static void *use_everywhere(void *cache) {
    for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
        hop((unsigned)cpu);
        use_once(cache);
    }
    return NULL;
}

static void test_destroy(void) {
    for (int i = 0; i < SHORT_CACHES; i++) {
        vmag_cache_t *cache;
        pthread_t thread;

        CHECK(create(&cache) != NULL);
        CHECK_EQ(pthread_create(&thread, NULL, use_everywhere, &cache), 0);
        pthread_join(thread, NULL);
        use_once(&cache);
        CHECK_GE(cached(cache), HELD);
        vmag_cache_destroy(cache);
        CHECK_EQ(balance, 0);
    }
}

// ---- many threads that wait

static pthread_barrier_t barrier;

static void *wait_with_magazines(void *unused) {
    use_once(&caches[0]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void test_many_wait(void) {
    static pthread_t threads[WAITING];
    pthread_attr_t attributes;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    pthread_barrier_init(&barrier, NULL, WAITING + 1);
    for (int i = 0; i < WAITING; i++)
        CHECK_EQ(pthread_create(&threads[i], &attributes, wait_with_magazines, NULL), 0);
    pthread_barrier_wait(&barrier);
    printf("%zu objects cached with %d threads\n", cached(caches[0]), WAITING);
    CHECK_LT(cached(caches[0]), WAITING * HELD / 4);
    vmag_cache_reap(caches[0]); // of all threads, although none of them did anything
    CHECK_EQ(cached(caches[0]), 0);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < WAITING; i++)
        pthread_join(threads[i], NULL);
}

extern const unsigned __rseq_size __attribute__((weak)); // glibc's

int main(void) {
    const char *options = getenv("VMAG_CONF");
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    sigaction(SIGUSR1, &action, NULL);
    create(&caches[0]);
    create(&caches[1]);
    if (options == NULL || strstr(options, "front:cpu") == NULL || &__rseq_size == NULL || __rseq_size == 0)
        say("not on fronts of processors, only the disturbances are tested");
    else {
        test_many_wait();
        test_destroy();
    }
    test_storm();
    vmag_cache_destroy(caches[0]);
    vmag_cache_destroy(caches[1]);
    return 0;
}
