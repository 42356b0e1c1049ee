// What the C library allocates for the background thread is not its starter's: neither among its bytes nor in its peak, which begins just before.
// SPDX-License-Identifier: BSD-2-Clause
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../check.h"

static uint64_t get(const char *name) {
    uint64_t value = 0;
    size_t size = sizeof value;

    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), 0);
    return value;
}

static void set_background(bool wanted) {
    CHECK_EQ(mallctl("background_thread", NULL, NULL, &wanted, sizeof wanted), 0);
}

// Beside the main thread, so that the C library makes the other one.
static void *start(void *unused) {
    uint64_t allocated, freed;

    set_background(false);
    CHECK_EQ(mallctl("thread.peak.reset", NULL, NULL, NULL, 0), 0);
    allocated = get("thread.allocated");
    freed = get("thread.deallocated");
    set_background(true);
    CHECK_EQ(get("thread.peak.read"), 0);
    CHECK_EQ(get("thread.allocated"), allocated);
    CHECK_EQ(get("thread.deallocated"), freed);
    return unused;
}

int main(void) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, start, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}
