// Threads created and ended by the hundred thousand, some freeing what others allocated: no growth of resident memory after warm-up.
// `many_threads THREADS`
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/pattern.h"
#include "../support/resident.h"

#include <limits.h>
#include <pthread.h>
#include <time.h>

enum { WIDTH = 8, BLOCKS = 30, WINDOWS = 8, GROWTH_LIMIT = 1 << 20 };

static void *_Atomic handed_over[WIDTH];

static void *thread_main(void *argument) {
    size_t index = (size_t)argument;
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = 16 + i * i * (1 + index);
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        pattern_fill(blocks[i], size, (uintptr_t)blocks[i]);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        pattern_verify(blocks[i], 16 + i * i * (1 + index), (uintptr_t)blocks[i]);
        if (i > 0)
            free(blocks[i]);
    }
    free(__atomic_exchange_n((void **)&handed_over[(index + 1) % WIDTH], blocks[0], __ATOMIC_ACQ_REL));
    return NULL;
}

static void run_threads(int count) {
    pthread_t threads[WIDTH];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    for (int done = 0; done < count; done += WIDTH) {
        for (size_t i = 0; i < WIDTH; i++)
            CHECK_EQ(pthread_create(&threads[i], &attributes, thread_main, (void *)i), 0);
        for (int i = 0; i < WIDTH; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    pthread_attr_destroy(&attributes);
}

// The least of the windows of a half: what is resident at a moment goes up and down by what the threads of that moment hold.
static long least_resident(int windows, int threads) {
    long least = LONG_MAX;
    for (int i = 0; i < windows; i++) {
        run_threads(threads);
        long resident = anonymous_bytes();
        least = resident < least ? resident : least;
    }
    return least;
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 2);
    time_t start = time(NULL);
    int threads = atoi(arguments[1]), warm_up = threads / 5, window = (threads - warm_up) / WINDOWS;
    run_threads(warm_up);
    long mapped = mapped_bytes(), resident = least_resident(WINDOWS / 2, window);
    long growth = least_resident(WINDOWS / 2, window) - resident, map_growth = mapped_bytes() - mapped;
    say("%d threads in %ld s: resident %+ld KiB, mapped %+ld KiB", threads, (long)(time(NULL) - start), growth / 1024,
        map_growth / 1024);
    CHECK_LE(growth, GROWTH_LIMIT);
    CHECK_LE(map_growth, 64 << 20);
    return 0;
}
