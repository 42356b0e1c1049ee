// What is refused costs no more in a large heap than in a small one: it is not searched for what would be no room.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

enum { OBJECTS = 1000000, BYTES = 96, LIMIT = 4096, REFUSED_BYTES = 64 << 20, TIMES = 100, BATCHES = 5, DEARER_MOST = 8 };

static long cpu_ns(void) {
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

// Of so many, the least.
static long refused_ns(void) {
    struct rlimit before, none;
    long least = 0;
    CHECK_EQ(getrlimit(RLIMIT_DATA, &before), 0);
    none = (struct rlimit){LIMIT, before.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_DATA, &none), 0);
    for (int batch = 0; batch < BATCHES; batch++) {
        long begun = cpu_ns(), taken;
        for (int i = 0; i < TIMES; i++) {
            void *volatile object = malloc(REFUSED_BYTES);
            CHECK(object == NULL && errno == ENOMEM);
        }
        taken = cpu_ns() - begun;
        least = batch == 0 || taken < least ? taken : least;
    }
    CHECK_EQ(setrlimit(RLIMIT_DATA, &before), 0);
    return least;
}

int main(void) {
    void **last = NULL;
    long small = refused_ns(), large;
    for (int i = 0; i < OBJECTS; i++) {
        void **object = malloc(BYTES);
        CHECK(object != NULL);
        *object = last;
        last = object;
    }
    large = refused_ns();
    say("%d refused: %ld ns, and in a large heap %ld", TIMES, small, large);
    CHECK_LT(large, small * DEARER_MOST);
    CHECK(last != NULL);
    return 0;
}
