// A stack that is taken for known is the one that a fresh walk finds, whoever called whom in between.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "os/rules.h"
#include "unit.h"
#include "watch/known_stacks.h"

enum { LG_KNOWN = 4, ROUNDS = 20000, STACK_BYTES = 256 * 1024, AMISS = 0x123456 };

static struct known_stacks *own;
static struct os_rules rules;
static struct stack *last;
static enum os_unwinder unwinder = OS_UNWIND_FRAMES;
static unsigned long found;
static bool known; // the last one

static bool is_known(uintptr_t frame) {
    bool one = false;

    for (int i = 0; i < 1 << LG_KNOWN; i++)
        one |= os_walk_holds(&own->known[i].walk, frame) && own->known[i].stack == last;
    return one;
}

__attribute__((noinline)) static void look(void) {
    uintptr_t frames[STACK_DEPTH];
    struct os_walk walk;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    size_t depth;

    last = known_stacks_find(own, here, unwinder);
    known = is_known(os_stack_outside(here));
    depth = os_stack_walk(frames, STACK_DEPTH, os_stack_outside(here), unwinder == OS_UNWIND_FRAMES ? NULL : &rules, &own->range, &walk);
    CHECK_EQ(last->depth, depth);
    CHECK(memcmp(last->frames, frames, depth * sizeof *frames) == 0);
    found++;
}

// Callers of the same frame size: what is below them lies at the same places, with other return addresses in between.
__attribute__((noinline)) static void left(int depth, unsigned path);
__attribute__((noinline)) static void right(int depth, unsigned path) {
    if (depth == 0) look();
    else if (path & 1) left(depth - 1, path >> 1);
    else right(depth - 1, path >> 1);
    __asm__ volatile("" ::: "memory");
}
__attribute__((noinline)) static void left(int depth, unsigned path) {
    if (depth == 0) look();
    else if (path & 1) left(depth - 1, path >> 1);
    else right(depth - 1, path >> 1);
    __asm__ volatile("" ::: "memory");
}

static void known_is_what_a_walk_finds(void) {
    for (int i = 0; i < ROUNDS; i++) {
        unsigned path = (unsigned)rand();

        right((int)(path % 12), path >> 8);
        CHECK(known);
    }
    CHECK_GT(found, ROUNDS - 1);
}

// Longer than what is kept of a walk.
static void long_stacks_are_walked(void) {
    for (int i = 0; i < 100; i++) {
        right(OS_WALK_MOST + 20, 0x5555);
        CHECK_GT(last->depth, OS_WALK_MOST);
        CHECK(!known);
    }
}

#ifdef __x86_64__
// Code that has anything in the register of frame pointers: void call_with(void *frame, void (*function)(void)).
void call_with(void *frame, void (*function)(void));
__asm__(".text\ncall_with: push %rbp\n mov %rdi, %rbp\n call *%rsi\n pop %rbp\n ret\n");

// The address of an object that looks like frames is none of the stack, and what is found is known.
static void *leave(void *object) {
    right(0, 0); // the range is known from here on
    call_with(object, look);
    CHECK(known);
    for (uint32_t i = 0; i < last->depth; i++)
        CHECK(last->frames[i] != AMISS);
    return NULL;
}

// On a thread's stack, for an object that lies above it.
static void who_leaves_the_stack_is_at_its_end(void) {
    char *place = aligned_alloc(4096, 2 * STACK_BYTES);
    uintptr_t *object = (uintptr_t *)(void *)(place + STACK_BYTES + 4096);
    pthread_attr_t attributes;
    pthread_t thread;

    object[0] = (uintptr_t)&object[2];
    object[1] = object[3] = AMISS;
    object[2] = 0;
    known_stacks_clear(own, LG_KNOWN);
    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstack(&attributes, place, STACK_BYTES), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, leave, object), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    free(place);
}
#else
static void who_leaves_the_stack_is_at_its_end(void) { }
#endif

int main(void) {
    own = calloc(1, known_stacks_bytes(LG_KNOWN));
    for (unwinder = OS_UNWIND_FRAMES; unwinder <= (OS_HAS_RULES ? OS_UNWIND_TABLES : OS_UNWIND_FRAMES); unwinder++) {
        known_stacks_clear(own, LG_KNOWN);
        known_is_what_a_walk_finds();
        long_stacks_are_walked();
    }
    unwinder = OS_UNWIND_FRAMES;
    who_leaves_the_stack_is_at_its_end();
    return 0;
}
