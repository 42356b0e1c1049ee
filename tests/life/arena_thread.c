// What the C library keeps of the background thread lies in no arena that the program may reset or destroy.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "jemalloc/jemalloc.h"

enum { OBJECTS = 2000, BYTES = 320, STACK_BYTES = 256 * 1024 };

static void write_value(const char *name, void *value, size_t size) {
    CHECK_EQ(mallctl(name, NULL, NULL, value, size), 0);
}

// Leaves enough for the background thread to be started, if this thread may do so.
static void *work_bound(void *arena) {
    unsigned automatic = 0;

    write_value("thread.arena", arena, sizeof(unsigned));
    for (int i = 0; i < 4; i++)
        free(memset(malloc(4 << 20), 1, 4 << 20));
    write_value("thread.arena", &automatic, sizeof automatic);
    return NULL;
}

static void *work(void *unused) {
    return unused;
}

// A stack as large as the background thread's is the one that the C library gives out again.
static void start(void *(*function)(void *), void *argument, size_t stack_bytes) {
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    CHECK_EQ(pthread_create(&thread, &attributes, function, argument), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

static void try_it(const char *command) {
    static unsigned char *object[OBJECTS];
    unsigned arena;
    size_t size = sizeof arena;
    char name[64];
    bool off = false;

    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    start(work_bound, &arena, 4 * STACK_BYTES);
    snprintf(name, sizeof name, "arena.%u.%s", arena, command);
    write_value(name, NULL, 0);
    for (int i = 0; i < OBJECTS && strcmp(command, "reset") == 0; i++)
        object[i] = memset(mallocx(BYTES, (int)MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE), 'A', BYTES);
    write_value("background_thread", &off, sizeof off);
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    for (int i = 0; i < 3; i++)
        start(work, NULL, STACK_BYTES);
    for (int i = 0; i < OBJECTS && strcmp(command, "reset") == 0; i++)
        for (int k = 0; k < BYTES; k++)
            CHECK(object[i][k] == 'A');
}

int main(int count, char **arguments) {
    try_it(count > 1 ? arguments[1] : "destroy");
    return 0;
}
