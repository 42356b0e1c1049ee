// Tests heap/front.h: a thread for which the C library frees makes no front, whatever is called within that free; and what a free leaves behind of who
// called it.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/front.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "heap/explicit.h"
#include "heap/heap.h"
#include "jemalloc/jemalloc.h"
#include "unit.h"

enum { BYTES = 100000, ROUNDS = 200 };

static extent_hooks_t hooks;
static extent_dalloc_t *give_back;
static _Thread_local int calls;

// A hook of the program's, which allocates and frees.
static bool allocate_and_give_back(extent_hooks_t *own, void *address, size_t size, bool committed, unsigned arena) {
    void *volatile object = malloc(100);

    calls++;
    free(object);
    free(malloc(3000));
    return give_back(own, address, size, committed, arena);
}

// Stands for the C library.
static __attribute__((noinline)) void c_library_frees(void *object) {
    free(object);
    __asm__ volatile("");
}

static bool is_in_it(const void *caller) {
    return (uintptr_t)caller - (uintptr_t)c_library_frees < 64;
}

static unsigned make_arena(void) {
    unsigned id;

    hooks = *arena_hooks(arena_of(0));
    give_back = hooks.dalloc;
    hooks.dalloc = allocate_and_give_back;
    CHECK_EQ(arenas_make(&hooks, &id), 0);
    CHECK_EQ(arena_set_dirty_decay_ms(arena_of(id), 0), 0);
    return id;
}

static void *past_its_hooks(void *object) {
    CHECK(words.front == NULL);
    c_library_frees(object);
    CHECK_GE(calls, 1);
    CHECK(words.front == NULL && words.caller == NULL);
    free(malloc(10));
    CHECK(words.front != NULL);
    return NULL;
}

// A free of the program's in whose hook the C library frees, and the other way round.
static void callers_within_callers(void) {
    const void *program = (const void *)(uintptr_t)past_its_hooks, *library = (const void *)(uintptr_t)c_library_frees, *outer, *inner;

    outer = front_free_begins(program);
    CHECK(outer == NULL && words.caller == program);
    inner = front_free_begins(library);
    CHECK(words.caller == library);
    CHECK(front_free_begins(program) == library && words.caller == library);
    front_free_ends(inner);
    CHECK(words.caller == program);
    front_free_ends(outer);
    CHECK(words.caller == NULL);
}

// Of every size, by every way that a free goes.
static void nothing_is_left(void) {
    for (size_t size = 8; size < 4 << 20; size = size * 3 / 2 + 8)
        for (int i = 0; i < ROUNDS; i++) {
            void *volatile object = malloc(size);

            free(object);
            CHECK(words.caller == NULL);
        }
}

int main(void) {
    unsigned id;
    pthread_t thread;
    void *volatile first = malloc(1);

    id = make_arena();
    front_is_of_c_library = is_in_it;
    for (int i = 0; i < 3; i++) {
        void *object = mallocx(BYTES, (int)MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE);

        CHECK(object != NULL);
        CHECK_EQ(pthread_create(&thread, NULL, past_its_hooks, object), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    callers_within_callers();
    nothing_is_left();
    free(first);
    return 0;
}
