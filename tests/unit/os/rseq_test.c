// Tests the restartable sequences as plain functions: pop, push, exchange on an area of our own, on any platform and under
// emulation, since without an interruption the kernel has no part in them; then what os_rseq_init finds here.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/rseq.h"
#include "unit.h"

#include <pthread.h>

enum { ROUNDS = 5, WORDS = 4, HERE = 1 };

static __thread struct {
    uint32_t before, cpu_id;
    uint64_t rseq_cs;
    uint32_t flags, node_id, mm_cid, padding;
} own_area __attribute__((aligned(32)));

static void *stack[ROUNDS + 2] = { [0] = NULL, [ROUNDS + 1] = (void *)UINTPTR_MAX };
static void *closed[2] = { NULL, (void *)UINTPTR_MAX };

static struct {
    int64_t number;
    void **top[WORDS];
} words[2];
#define TOPS words[HERE].top

static void set_up(void) {
    os_rseq_area = (char *)&own_area - (char *)rseq_field(0);
    own_area.cpu_id = HERE;
    for (int cpu = 0; cpu < 2; cpu++) {
        for (int word = 0; word < WORDS; word++)
            words[cpu].top[word] = &closed[1];
        words[cpu].number = cpu;
    }
    words[HERE].top[2] = &stack[1];
}

static void test_number(void) {
    set_up();
    CHECK_EQ(rseq_number(), HERE);
    own_area.cpu_id = (uint32_t)-2;
    CHECK_EQ(rseq_number(), -2);
}

static void test_pop_and_push(void) {
    int objects[ROUNDS];
    void *object = NULL;

    set_up();
    CHECK(!rseq_pop(TOPS, 2, &object));
    for (int i = 0; i < ROUNDS; i++)
        CHECK(rseq_push(TOPS, 2, &objects[i]));
    CHECK(!rseq_push(TOPS, 2, &objects[0])); // full
    CHECK(words[HERE].top[2] == &stack[ROUNDS + 1]);
    for (int i = ROUNDS - 1; i >= 0; i--) {
        CHECK(rseq_pop(TOPS, 2, &object));
        CHECK(object == &objects[i]);
    }
    CHECK(!rseq_pop(TOPS, 2, &object));
    CHECK(words[HERE].top[2] == &stack[1]);
    CHECK(own_area.rseq_cs != 0);
}

static void test_closed(void) {
    void *object;

    set_up();
    for (size_t word = 0; word < WORDS; word++)
        if (word != 2) {
            CHECK(!rseq_pop(TOPS, word, &object));
            CHECK(!rseq_push(TOPS, word, &object));
        }
    CHECK(rseq_push(TOPS, 2, &object));
    own_area.cpu_id = 0; // its stack is another
    CHECK(!rseq_push(TOPS, 2, &object));
    CHECK(!rseq_pop(TOPS, 2, &object));
    CHECK(words[HERE].top[2] == &stack[2]);
}

// As callers write it: gcc 12.2 returned what the register held when the sequence was on another processor.
static __attribute__((noinline)) void *pop_or_null(void ***tops, size_t word) {
    void *object;

    return rseq_pop(tops, word, &object) ? object : NULL;
}

static void test_elsewhere_is_null(void) {
    int object;

    set_up();
    CHECK(rseq_push(TOPS, 2, &object));
    own_area.cpu_id = 0;
    CHECK(pop_or_null(TOPS, 2) == NULL);
    own_area.cpu_id = HERE;
    CHECK(pop_or_null(TOPS, 2) == &object);
}

static void test_exchange(void) {
    void **old = NULL;

    set_up();
    CHECK(!rseq_exchange(0, &words[0].top[2], &stack[1], &old));
    CHECK(words[0].top[2] == &closed[1] && old == NULL);
    CHECK(rseq_exchange(HERE, &words[HERE].top[2], &closed[1], &old));
    CHECK(words[HERE].top[2] == &closed[1] && old == &stack[1]);
}

static void *number_of_thread(void *unused) {
    (void)unused;
    return (void *)(intptr_t)rseq_number();
}

static void test_numbers(void) {
    unsigned numbers = os_rseq_numbers();

    CHECK(numbers >= 1 && numbers <= 8192);
    CHECK((long)numbers >= sysconf(_SC_NPROCESSORS_ONLN));
    if (!os_rseq_init()) {
        say("no restartable sequences here");
        return;
    }
    CHECK(rseq_number() >= 0 && rseq_number() < (int)numbers);
    CHECK(os_rseq_fence());
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        void *number;

        CHECK_EQ(pthread_create(&thread, NULL, number_of_thread, NULL), 0);
        CHECK_EQ(pthread_join(thread, &number), 0);
        CHECK((intptr_t)number >= 0 && (intptr_t)number < (int)numbers);
    }
}

int main(void) {
    test_number();
    test_pop_and_push();
    test_closed();
    test_elsewhere_is_null();
    test_exchange();
    test_numbers();
    return 0;
}
