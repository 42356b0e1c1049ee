// What the tests of aborts share: the three sequences, each called in a function of its own on stacks that others can reach, what others
// may do while a sequence stands still, and whether the outcome is true for the stacks as they are then.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_SEQUENCES_H
#define VMAG_TESTS_SEQUENCES_H

#include "os/rseq.h"
#include "unit.h"

enum { SLOTS = 8, AT_FIRST = 4, LONGEST = 128, NO_NUMBER = INT32_MIN };
enum operation { POP, PUSH, EXCHANGE, OPERATIONS };
enum meddling { TAKE, PUT, CLOSE, STOP, MEDDLINGS }; // by another thread of the same processor; the last: of any

struct descriptor {
    uint32_t version, flags;
    uint64_t start, length, abort;
};

static struct shared {
    int64_t number; // before the tops
    void **top[2];  // word 1 is in use
    void *stack[SLOTS + 2];
    void *closed[2];
    bool done;   // what the operation said
    void *taken; // by pop
    void **old;  // of exchange
    int here;    // the processor of who operates
} *shared;

#define OBJECT(i) ((void *)(uintptr_t)(0x1000 + (i)))

// Each in a function of its own, so that its descriptor can be told from the others'.
static __attribute__((noinline)) void operate_pop(void) {
    shared->done = rseq_pop(shared->top, 1, &shared->taken);
}

static __attribute__((noinline)) void operate_push(void) {
    shared->done = rseq_push(shared->top, 1, OBJECT(100));
}

static __attribute__((noinline)) void operate_exchange(void) {
    shared->done = rseq_exchange(rseq_number(), &shared->top[1], &shared->closed[1], &shared->old);
}

static void (*const operate[OPERATIONS])(void) = { operate_pop, operate_push, operate_exchange };
static const char *const names[OPERATIONS] = { "pop", "push", "exchange" };

static void reset(void) {
    shared->closed[1] = shared->stack[SLOTS + 1] = (void *)UINTPTR_MAX;
    for (int i = 0; i < SLOTS; i++)
        shared->stack[1 + i] = i < AT_FIRST ? OBJECT(i) : NULL;
    shared->top[1] = &shared->stack[1 + AT_FIRST];
    shared->number = shared->here;
    shared->done = false;
    shared->taken = shared->old = NULL;
}

static inline void meddle(enum meddling what) {
    if (what == TAKE)
        shared->top[1]--;
    else if (what == PUT)
        *shared->top[1]++ = OBJECT(200);
    else if (what == CLOSE)
        shared->top[1] = &shared->closed[1];
    else
        shared->number = NO_NUMBER;
}

// Whether the outcome is that of the operation after the meddling.
static bool right(enum operation operation, enum meddling what) {
    void **expected = &shared->stack[1 + AT_FIRST] + (what == PUT) - (what == TAKE);

    if (what == CLOSE && operation != EXCHANGE)
        return !shared->done && shared->top[1] == &shared->closed[1];
    if (what == STOP && operation != EXCHANGE)
        return !shared->done && shared->top[1] == expected;
    if (!shared->done)
        return false;
    if (operation == POP)
        return shared->taken == (what == PUT ? OBJECT(200) : what == TAKE ? OBJECT(AT_FIRST - 2) : OBJECT(AT_FIRST - 1)) &&
               shared->top[1] == expected - 1;
    if (operation == PUSH)
        return *expected == OBJECT(100) && shared->top[1] == expected + 1 && (what != PUT || expected[-1] == OBJECT(200));
    return shared->top[1] == &shared->closed[1] && shared->old == (what == CLOSE ? &shared->closed[1] : expected);
}

extern const struct descriptor __start_vmag_rseq_cs[], __stop_vmag_rseq_cs[];

static const struct descriptor *descriptor_of(enum operation operation) {
    uintptr_t function = (uintptr_t)operate[operation];
    const struct descriptor *best = NULL;

    for (const struct descriptor *at = __start_vmag_rseq_cs; at < __stop_vmag_rseq_cs; at++)
        if (at->start > function && (best == NULL || at->start < best->start))
            best = at;
    CHECK(best != NULL && best->start - function < LONGEST && best->length < LONGEST);
    return best;
}

#endif
