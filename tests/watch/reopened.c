// A library comes to lie where another was, which allocated in its destructor while the second was already asked for: what was known
// of the first one's frames is not believed. `reopened FIRST SECOND`
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <dlfcn.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { OPENED_MS = 40, ENDED_MS = 100 };

typedef void backtrace_hook(void **frames, unsigned *count, unsigned most);
typedef void *allocate(void);
static backtrace_hook *before;
static _Thread_local unsigned depth;
static bool waits;
static void *first_function, *second;

static void note_depth(void **frames, unsigned *count, unsigned most) {
    before(frames, count, most);
    depth = *count;
}

static unsigned depth_in(allocate *function) {
    void *object = function();
    unsigned found = depth;

    free(object);
    return found;
}

void at_end(allocate *function) {
    if (!waits)
        return;
    first_function = (void *)function;
    usleep(ENDED_MS * 1000);
    CHECK(depth_in(function) > 1);
}

// It waits in the loader until the other is closed.
static void *open_second(void *path) {
    free(malloc(50));
    usleep(OPENED_MS * 1000);
    second = dlopen(path, RTLD_NOW);
    return NULL;
}

int main(int count, char **arguments) {
    backtrace_hook *hook = note_depth;
    size_t length = sizeof before;
    allocate *function;
    pthread_t thread;
    unsigned found;
    void *first;

#ifndef __x86_64__
    printf("SKIPPED: walks by tables are of x86-64\n");
    return 77;
#endif
    CHECK(count > 2);
    if (mallctl("experimental.hooks.prof_backtrace", &before, &length, &hook, sizeof hook) != 0)
        return 1;
    waits = true;
    CHECK_EQ(pthread_create(&thread, NULL, open_second, arguments[2]), 0);
    usleep(OPENED_MS * 1000 / 8);
    first = dlopen(arguments[1], RTLD_NOW);
    CHECK(first != NULL);
    dlclose(first);
    pthread_join(thread, NULL);
    waits = false;
    CHECK(second != NULL);
    *(void **)&function = dlsym(second, "allocate_in_library");
    CHECK(function != NULL);
    if ((void *)function != first_function) {
        printf("SKIPPED: the second library lies elsewhere\n");
        return 77;
    }
    found = depth_in(function);
    CHECK(dlopen("no such library", RTLD_NOW) == NULL); // all is forgotten
    CHECK_EQ(found, depth_in(function));
    return 0;
}
