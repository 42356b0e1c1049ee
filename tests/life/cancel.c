// pthread_cancel: no allocator call is a cancellation point, not even a thread's first; cancelled threads leave nothing locked.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/resident.h"

#include <pthread.h>
#include <semaphore.h>

enum { ROUNDS = 500 };
static _Atomic int passed;

static void each_call(void) {
    for (size_t size = 10; size < (size_t)20 << 20; size *= 7) {
        void *block = malloc(size);
        CHECK(block != NULL);
        memset(block, 1, size < 5000 ? size : 5000);
        block = realloc(block, size * 3);
        void *other = calloc(1, size), *aligned = aligned_alloc(4096, size);
        CHECK(block != NULL && other != NULL && aligned != NULL);
        free(block);
        free_sized(other, size);
        free(aligned);
    }
}

// The cancellation is pending from the start; it may strike at pthread_testcancel and nowhere before.
static void *pending(void *unused) {
    (void)unused;
    pthread_cancel(pthread_self());
    each_call();
    malloc_trim(0);
    passed++;
    pthread_testcancel();
    return NULL;
}

static void *until_cancelled(void *unused) {
    (void)unused;
    for (;;) {
        each_call();
        pthread_testcancel();
    }
    return NULL;
}

static void expect_cancelled(pthread_t thread) {
    void *result;
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == PTHREAD_CANCELED);
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : ROUNDS;
    alarm(1000);
    for (int round = 0; round < rounds; round++) {
        pthread_t first, second;
        CHECK_EQ(pthread_create(&first, NULL, pending, NULL), 0);
        CHECK_EQ(pthread_create(&second, NULL, until_cancelled, NULL), 0);
        expect_cancelled(first);
        CHECK_EQ(passed, round + 1);
        pthread_cancel(second);
        expect_cancelled(second);
    }
    each_call();
    return 0;
}
