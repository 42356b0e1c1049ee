// Tests malloc on fronts of processors (VMAG_CONF=front:cpu) where they are disturbed most: threads hop between processors and
// free what others allocated, while the main thread empties all fronts, reads statistics and forks; children allocate too.
//
// Contents follow from an object's address, so that one handed out twice does not verify. Then what is left: nothing
// after malloc_trim, nothing when nobody did anything for a while, and hundreds of threads that wait hold no more than the
// processors' fronts do, a quarter of what fronts of threads hold at most.
// SPDX-License-Identifier: BSD-2-Clause
#include "../support/child.h"
#include "../support/pattern.h"
#include "interruptions.h"

#include <jemalloc/jemalloc.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { SECONDS = 2, THREADS = 6, SLOTS = 512, HOP_EVERY = 500, WAITING = 512, OBJECTS = 200, MOST_SIZE = 3000, MEBIBYTE = 1 << 20 };

struct object {
    size_t size;
    unsigned char bytes[];
};

static size_t allocated(void) {
    uint64_t epoch = 1;
    size_t bytes, size = sizeof bytes;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.allocated", &bytes, &size, NULL, 0), 0);
    return bytes;
}

static struct object *_Atomic slots[SLOTS];
static _Atomic bool over;
static _Atomic long operations;

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static struct object *make(size_t size) {
    struct object *object = malloc(sizeof *object + size);

    CHECK(object != NULL);
    object->size = size;
    pattern_fill(object->bytes, size, (uintptr_t)object);
    return object;
}

static void drop(struct object *object) {
    if (object == NULL)
        return;
    pattern_verify(object->bytes, object->size, (uintptr_t)object);
    free(object);
}

static void churn(uint64_t *state) {
    size_t size = next(state) % 8 == 0 ? next(state) % 40000 : next(state) % MOST_SIZE;

    drop(atomic_exchange(&slots[next(state) % SLOTS], next(state) % 3 == 0 ? NULL : make(size)));
}

static void *work(void *argument) {
    uint64_t state = 88172645463325252u + (uintptr_t)argument;
    unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    long done = 0;

    for (; !over; done++) {
        churn(&state);
        if (done % HOP_EVERY == 0)
            hop((unsigned)next(&state) % cpus);
    }
    operations += done;
    return NULL;
}

static void fork_one(void) {
    pid_t child = fork();

    if (child == 0) {
        uint64_t state = 7;

        alarm(300);
        for (int i = 0; i < 2000; i++)
            churn(&state);
        malloc_trim(0);
        _exit(0);
    }
    expect_child(child);
}

static void test_disturbed(void) {
    pthread_t threads[THREADS];
    time_t end = time(NULL) + SECONDS;

    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    while (time(NULL) < end) {
        malloc_trim(0);
        allocated();
        fork_one();
    }
    over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        drop(atomic_exchange(&slots[i], NULL));
    malloc_trim(0);
    CHECK_LT(allocated(), MEBIBYTE);
    printf("%ld operations\n", (long)operations);
}

// ---- many threads that wait

static pthread_barrier_t barrier;

static void *wait_with_magazines(void *unused) {
    void *objects[OBJECTS];

    for (size_t i = 0; i < OBJECTS; i++)
        objects[i] = malloc(16 + i * 5);
    for (size_t i = 0; i < OBJECTS; i++)
        free(objects[i]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static size_t cached(void) {
    char text[2048], *at;
    FILE *file = fmemopen(text, sizeof text, "w");

    CHECK_EQ(malloc_info(0, file), 0);
    fclose(file);
    at = strstr(text, "\"cached\" size=\"");
    CHECK(at != NULL);
    return strtoul(at + strlen("\"cached\" size=\""), NULL, 10);
}

static pthread_t waiting[WAITING];

// Returns what is cached while they wait.
static size_t many_wait(void) {
    pthread_attr_t attributes;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    pthread_barrier_init(&barrier, NULL, WAITING + 1);
    for (int i = 0; i < WAITING; i++)
        CHECK_EQ(pthread_create(&waiting[i], &attributes, wait_with_magazines, NULL), 0);
    pthread_barrier_wait(&barrier);
    return cached();
}

static void many_end(void) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < WAITING; i++)
        pthread_join(waiting[i], NULL);
}

// The same in a process whose threads have magazines of their own.
static size_t cached_by_threads(const char *program) {
    char command[4096];
    size_t bytes = 0;
    FILE *output;

    snprintf(command, sizeof command, "VMAG_CONF=front:thread '%s' many", program);
    output = popen(command, "r");
    CHECK(output != NULL);
    CHECK_EQ(fscanf(output, "%zu", &bytes), 1);
    CHECK_EQ(pclose(output), 0);
    return bytes;
}

static void test_many_wait(const char *program) {
    size_t here = many_wait(), threads = cached_by_threads(program), left;

    say("%d threads wait: %zu bytes cached, with fronts of threads %zu", WAITING, here, threads);
    CHECK_LT(here, 3 * MEBIBYTE * (size_t)(sysconf(_SC_NPROCESSORS_CONF) > 2 ? sysconf(_SC_NPROCESSORS_CONF) : 2));
    if (sysconf(_SC_NPROCESSORS_CONF) <= WAITING / 16)
        CHECK_LE(here, threads / 4);
    malloc_trim(0);
    left = cached();
    CHECK_LT(left, here); // although none of them did anything
    CHECK_LT(left, MEBIBYTE / 8); // asking allocates: up to 77 KiB of it were seen
    many_end();
}

// ---- nobody does anything

static void test_idle(void) {
    static void *objects[4000];
    struct timespec rest = { 0, 100000000 };
    size_t left;

    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++)
        objects[i] = malloc(16 + i % MOST_SIZE);
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++)
        free(objects[i]);
    CHECK_GT(cached(), MEBIBYTE / 8);
    left = cached();
    for (int tenths = 0; tenths < 600 && left >= MEBIBYTE / 16; tenths++) {
        nanosleep(&rest, NULL);
        left = cached();
    }
    CHECK_LT(left, MEBIBYTE / 16); // asked for once: asking allocates, and what that leaves in a front that was emptied would count
}

extern const unsigned __rseq_size __attribute__((weak)); // glibc's

int main(int count, char **arguments) {
    const char *options = getenv("VMAG_CONF");

    if (count > 1) {
        printf("%zu\n", many_wait());
        many_end();
        return 0;
    }
    if (options == NULL || strstr(options, "front:cpu") == NULL || &__rseq_size == NULL || __rseq_size == 0)
        say("not on fronts of processors, only the disturbances are tested");
    else {
        test_many_wait(arguments[0]);
        test_idle();
    }
    test_disturbed();
    return 0;
}
