// Tests front.wanted: a thread that only frees what others allocate has one magazine of a class, which goes to the depot when it is full; from the first
// time that it wants an object of the class on it has a previous one.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <string.h>

#include "conf/options.h"
#include "heap/capacity.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "heap/loaded.h"
#include "unit.h"

enum { OBJECTS = 4000, SMALL = 256, MEDIUM = 2048 };

static void *objects[OBJECTS];

// No time passes: a slow machine's threads would soon be few that work long, and have all from arenas of their own.
uint64_t __wrap_os_clock_process_us(void);

uint64_t __wrap_os_clock_process_us(void) {
    return 0;
}

static void make(size_t size) {
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(size);
        CHECK(objects[i] != NULL);
        memset(objects[i], i & 0xff, size);
    }
}

// Returns how many were in magazines of the thread at most.
static size_t drop(size_t size, bool wanted) {
    unsigned class = size_class(size);
    size_t most = 0;

    for (int i = 0; i < OBJECTS; i++) {
        const struct front *front = words.front;

        CHECK(((unsigned char *)objects[i])[size - 1] == (i & 0xff));
        free(objects[i]);
        CHECK(wanted || front->previous[class] == NULL);
        most = max_size(most, front_rounds(front, class) + (front->previous[class] != NULL ? front->previous[class]->rounds : 0));
    }
    return most;
}

static void *consume(void *argument) {
    size_t size = *(size_t *)argument, most;
    unsigned class = size_class(size);

    CHECK(front_get() != NULL);
    most = drop(size, false);
    CHECK(most >= front_most_rounds(class));
    CHECK(most <= front_grown_rounds(class) + 1u); // and one ahead
    CHECK(arena_depot_bytes(front_arena(words.front, class)) > 0);
    make(size); // all that was freed, and more
    most = drop(size, true);
    CHECK(most >= 2 * front_most_rounds(class));
    CHECK(words.front->previous[class] != NULL);
    return NULL;
}

int main(void) {
    static const size_t sizes[] = {SMALL, MEDIUM};

    CHECK(heap_ready());
    options.background_thread = false;
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pthread_t thread;

        make(sizes[i]);
        CHECK_EQ(pthread_create(&thread, NULL, consume, (void *)&sizes[i]), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    return 0;
}
