// Thread-exit destructors that allocate and free in several rounds, after and before the allocator's own thread exit.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/resident.h"

#include <limits.h>
#include <pthread.h>

enum { KEYS = 8, BLOCK = 600, THREADS = 3000 };
static pthread_key_t keys[KEYS];
enum { CALLS_PER_THREAD = PTHREAD_DESTRUCTOR_ITERATIONS * KEYS };
static _Atomic long destructor_calls;
static _Thread_local int calls;

// Sets its own key again until POSIX allows no further round: the allocator's state of this thread may be gone by then.
static void again(void *value) {
    destructor_calls++;
    pattern_verify(value, BLOCK, (uintptr_t)value);
    free(value);
    free(malloc(100000));
    if (++calls > CALLS_PER_THREAD - KEYS)
        return;
    void *next = malloc(BLOCK);
    pattern_fill(next, BLOCK, (uintptr_t)next);
    for (int i = 0; i < KEYS; i++)
        if (pthread_getspecific(keys[i]) == NULL) {
            pthread_setspecific(keys[i], next);
            return;
        }
    free(next);
}

static void *thread_main(void *from_parent) {
    for (int i = 0; i < KEYS; i++) {
        void *block = malloc(BLOCK);
        pattern_fill(block, BLOCK, (uintptr_t)block);
        CHECK_EQ(pthread_setspecific(keys[i], block), 0);
    }
    free(from_parent);
    return malloc(50);
}

// A thread that never allocates.
static void *silent_thread(void *unused) {
    return unused;
}

// A thread whose first allocator call is in a destructor.
static void *key_only_thread(void *block) {
    calls = CALLS_PER_THREAD - KEYS - 2;
    pthread_setspecific(keys[0], block);
    return NULL;
}

static void run(void *(*body)(void *), void *argument) {
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, NULL, body, argument), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    free(result);
}

static void run_round(void) {
    run(thread_main, malloc(33));
    run(silent_thread, NULL);
    void *block = malloc(BLOCK);
    pattern_fill(block, BLOCK, (uintptr_t)block);
    run(key_only_thread, block);
}

int main(void) {
    for (int i = 0; i < KEYS; i++)
        CHECK_EQ(pthread_key_create(&keys[i], again), 0);
    for (int i = 0; i < THREADS / 10; i++)
        run_round();
    malloc_trim(0);
    long before = anonymous_bytes();
    for (int i = 0; i < THREADS; i++)
        run_round();
    malloc_trim(0);
    CHECK_LE(anonymous_bytes() - before, 1 << 20);
    CHECK_GE(destructor_calls, (long)THREADS * CALLS_PER_THREAD);
    return 0;
}
