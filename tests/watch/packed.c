// Small objects of which all are sampled: as large and as aligned as others, side by side, told when they are written beyond or freed twice, and
// freed by whoever likes.  Run with prof:true,lg_prof_sample:0.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

enum { OBJECTS = 1000, PAGE = 4096, LARGEST = 1024 };

static void *objects[OBJECTS];

static void fill(size_t size) {
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(size);
        CHECK(objects[i] != NULL);
        memset(objects[i], i, malloc_usable_size(objects[i]));
    }
}

static void check_and_free(size_t size) {
    for (int i = 0; i < OBJECTS; i++) {
        const unsigned char *bytes = objects[i];

        for (size_t at = 0; at < size; at++)
            CHECK_EQ(bytes[at], (unsigned char)i);
        free(objects[i]);
    }
}

static int by_address(const void *a, const void *b) {
    uintptr_t one = (uintptr_t)*(void *const *)a, other = (uintptr_t)*(void *const *)b;

    return (one > other) - (one < other);
}

static size_t pages_of_sorted(void *sorted[OBJECTS]) {
    size_t pages = 1;

    qsort(sorted, OBJECTS, sizeof *sorted, by_address);
    for (int i = 1; i < OBJECTS; i++)
        pages += (uintptr_t)sorted[i] / PAGE != (uintptr_t)sorted[i - 1] / PAGE;
    return pages;
}

// Each with a fence, and a multiple of what the size is a multiple of: at worst twice as large as without.
static void lie_side_by_side(void) {
    for (size_t size = 8; size <= LARGEST; size += 8) {
        void *sorted[OBJECTS];
        size_t usable;

        fill(size);
        usable = malloc_usable_size(objects[0]);
        memcpy(sorted, objects, sizeof sorted);
        if (sysconf(_SC_PAGESIZE) == PAGE)
            CHECK(pages_of_sorted(sorted) <= OBJECTS / (PAGE / (2 * (usable + 8))) + 2);
        for (int i = 0; i < OBJECTS; i++) {
            CHECK_EQ(malloc_usable_size(objects[i]), usable);
            CHECK_EQ((uintptr_t)objects[i] % (usable & -usable), 0);
        }
        check_and_free(size);
    }
}

static void resize(void) {
    for (size_t size = 1; size <= 2 * LARGEST; size += 37) {
        unsigned char *object = malloc(size);

        memset(object, 7, size);
        object = realloc(object, size + LARGEST);
        for (size_t at = 0; at < size; at++)
            CHECK_EQ(object[at], 7);
        object = realloc(object, 1 + size / 3);
        CHECK_EQ(object[size / 3], 7);
        free(object);
    }
}

static void *free_all(void *argument) {
    check_and_free(40);
    return argument;
}

static void be_freed_elsewhere(void) {
    for (int i = 0; i < 20; i++) {
        pthread_t thread;

        fill(40);
        CHECK_EQ(pthread_create(&thread, NULL, free_all, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
}

static void write_beyond(void) {
    char *volatile object = malloc(100);

    object[malloc_usable_size(object)] = 1;
    free(object);
}

static void free_twice(void) {
    void *volatile object = malloc(100), *volatile more = malloc(100);

    free(more);
    free(object);
    free(object);
}

static void free_inside(void) {
    char *volatile object = malloc(100);

    free(object + 16);
}

static void *free_one(void *object) {
    free(object);
    return NULL;
}

static void free_again_elsewhere(void) {
    void *volatile object = malloc(100);
    pthread_t thread;

    free(object);
    CHECK_EQ(pthread_create(&thread, NULL, free_one, object), 0);
    pthread_join(thread, NULL);
}

static void is_told(void (*misuse)(void)) {
    pid_t child = fork();
    int status;

    if (child == 0) {
        close(STDERR_FILENO);
        misuse();
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void) {
    lie_side_by_side();
    resize();
    be_freed_elsewhere();
    is_told(write_beyond);
    is_told(free_twice);
    is_told(free_inside);
    is_told(free_again_elsewhere);
    return 0;
}
