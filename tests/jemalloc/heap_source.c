// The option heap_source: what malloc gives lies in the file, or in memory that hooks of the library gave. `heap_source file|other|none`.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <vmag/arenas.h>

#include "../check.h"
#include "../support/pattern.h"
#include "../support/sizes.h"

enum { OBJECTS = 2000, THREADS = 3 };

static int in_file;

static size_t size_of(size_t i) {
    return 1 + i * 41 % 3000 + (i % 100 == 0 ? 500000u : 0);
}

static void check_place(const void *object, size_t size) {
    static const int arena = 0;
    long long offset = vmag_arena_file_offset(object);
    unsigned char byte;

    CHECK_EQ(offset >= 0, in_file);
    if (in_file)
        CHECK(pread(vmag_arena_file(arena), &byte, 1, offset + (long long)size - 1) == 1 && byte == ((const unsigned char *)object)[size - 1]);
}

static void *churn(void *unused) {
    unsigned char *objects[OBJECTS];
    uint64_t random = 5;

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < OBJECTS; i++) {
            CHECK((objects[i] = malloc(size_of(i))) != NULL);
            pattern_fill(objects[i], size_of(i), (uintptr_t)objects[i]);
            if (i % 50 == 0)
                check_place(objects[i], size_of(i));
        }
        objects[0] = realloc(objects[0], 3000000);
        check_place(objects[0], 3000000);
        for (size_t left = OBJECTS; left > 0; left--) {
            size_t at = random_below(&random, left);

            free(objects[at]);
            objects[at] = objects[left - 1];
        }
    }
    return unused;
}

int main(int count, char **arguments) {
    const char *kind = count > 1 ? arguments[1] : "";
    extent_hooks_t *of_thread, *of_program;
    unsigned arena;
    size_t size = sizeof arena, hooks_size = sizeof of_thread;
    pthread_t threads[THREADS];
    char name[40];

    in_file = strcmp(kind, "file") == 0;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    snprintf(name, sizeof name, "arena.%u.extent_hooks", arena);
    CHECK_EQ(mallctl(name, &of_program, &hooks_size, NULL, 0), 0);
    CHECK_EQ(mallctl("arena.0.extent_hooks", &of_thread, &hooks_size, NULL, 0), 0);
    CHECK_EQ(of_thread != of_program, strcmp(kind, "none") != 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, NULL), 0);
    churn(NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(mallctl("arena.4096.purge", NULL, NULL, NULL, 0), 0);
    return 0;
}
