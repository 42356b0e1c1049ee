// Tests that threads on two processors never come to share a cache line by what the allocator does (VMAG_CONF=front:cpu):
// objects of one line that one thread allocated and gave away, freed on each of two processors, are given out there to nobody; nor
// are those that the other processor allocated. And that they are found again: what is freed on the other processor counts as
// free at once, and goes home, so that a stream of them takes no memory.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <jemalloc/jemalloc.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum { LINE = 64, GIVEN = 64, HELD = 2000, ROUNDS = 200, SIDES = 2, LARGEST = 48, SLACK = 64 * 1024 };

extern const unsigned __rseq_size __attribute__((weak)); // glibc's

// The two processors; false: there are not as many.
static int processors[SIDES];

static bool find_processors(void) {
    cpu_set_t set;
    int found = 0;

    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    for (int number = 0; number < CPU_SETSIZE && found < SIDES; number++)
        if (CPU_ISSET(number, &set))
            processors[found++] = number;
    return found == SIDES;
}

static void go_to(int side) {
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processors[side], &set);
    CHECK_EQ(sched_setaffinity(0, sizeof set, &set), 0);
}

static int compare(const void *one_, const void *other_) {
    uintptr_t one = *(const uintptr_t *)one_, other = *(const uintptr_t *)other_;

    return one < other ? -1 : one > other;
}

static void *held[SIDES][HELD];

static void allocate(int side, size_t size) {
    go_to(side);
    for (int i = 0; i < HELD; i++)
        CHECK((held[side][i] = malloc(size)) != NULL);
}

static void release(int side, int where) {
    go_to(where);
    for (int i = 0; i < HELD; i++)
        free(held[side][i]);
}

// Of what both sides hold; an object smaller than a line may lie in two.
static unsigned lines_shared(size_t size) {
    static uintptr_t lines[HELD * 2];
    unsigned shared = 0;

    for (int i = 0; i < HELD; i++) {
        lines[2 * i] = (uintptr_t)held[0][i] / LINE;
        lines[2 * i + 1] = ((uintptr_t)held[0][i] + size - 1) / LINE;
    }
    qsort(lines, HELD * 2, sizeof lines[0], compare);
    for (int i = 0; i < HELD; i++) {
        uintptr_t first = (uintptr_t)held[1][i] / LINE, last = ((uintptr_t)held[1][i] + size - 1) / LINE;

        shared += bsearch(&first, lines, HELD * 2, sizeof first, compare) != NULL ||
                  bsearch(&last, lines, HELD * 2, sizeof last, compare) != NULL;
    }
    return shared;
}

static unsigned shared_now(size_t size) {
    unsigned shared;

    allocate(0, size);
    allocate(1, size);
    shared = lines_shared(size);
    release(0, 0);
    release(1, 1);
    return shared;
}

// Every second one of a row goes to the other side, and each side frees what it was given.
static unsigned shared_after_gift(size_t size) {
    void *given[GIVEN];

    go_to(0);
    for (int i = 0; i < GIVEN; i++)
        given[i] = malloc(size);
    for (int side = 0; side < SIDES; side++) {
        go_to(side);
        for (int i = side; i < GIVEN; i += SIDES)
            free(given[i]);
    }
    return shared_now(size);
}

static unsigned shared_after_exchange(size_t size) {
    allocate(0, size);
    allocate(1, size);
    release(0, 1);
    release(1, 0);
    return shared_now(size);
}

static size_t figure(const char *name) {
    uint64_t epoch = 1;
    size_t bytes, size = sizeof bytes;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl(name, &bytes, &size, NULL, 0), 0);
    return bytes;
}

// Each object is allocated on one processor and freed on the other.
static void test_stream(size_t size) {
    size_t active = 0, allocated = figure("stats.allocated");

    for (int round = 0; round < ROUNDS; round++) {
        allocate(0, size);
        release(0, 1);
        if (round == 0)
            active = figure("stats.active");
    }
    CHECK_EQ(figure("stats.allocated"), allocated);
    CHECK_LE(figure("stats.active"), active + SLACK);
}

int main(int count, char **arguments) {
    unsigned shared = 0;

    (void)arguments;
    if (&__rseq_size == NULL || __rseq_size == 0 || !find_processors()) {
        say("one processor, or no restartable sequences: nothing to test");
        return 77;
    }
    free(malloc(LINE)); // processors are counted then, before this thread keeps to one
    for (size_t size = 8; size <= LARGEST; size += 8) {
        shared += shared_now(size) + shared_after_gift(size) + shared_after_exchange(size);
        test_stream(size);
    }
    if (count > 1) // with one arena they do, or the test shows nothing
        CHECK_GT(shared, 0);
    else
        CHECK_EQ(shared, 0);
    return 0;
}
