// Prints malloc_stats_print with the letters given, and says on stderr how much was allocated by it: `report LETTERS [message]`.
// SPDX-License-Identifier: BSD-2-Clause
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>

#include "../check.h"
#include "jemalloc/jemalloc.h"

static void put(void *file, const char *piece) {
    CHECK(write(*(int *)file, piece, strlen(piece)) == (ssize_t)strlen(piece));
}

static int out = STDOUT_FILENO;

static void message(void *unused, const char *piece) {
    CHECK(unused == NULL);
    put(&out, piece);
}

static uint64_t counter(const char *name) {
    uint64_t value;
    size_t size = sizeof value;

    CHECK(mallctl(name, &value, &size, NULL, 0) == 0);
    return value;
}

int main(int count, char **arguments) {
    const char *letters = count > 1 ? arguments[1] : NULL;
    unsigned id;
    size_t size = sizeof id;
    uint64_t before;
    void *objects[100];

    CHECK(mallctl("arenas.create", &id, &size, NULL, 0) == 0);
    for (int i = 0; i < 100; i++)
        objects[i] = mallocx(i * 1000 + 1, i % 2 ? MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE : 0);
    free(malloc(100)); // magazines hold something
    before = counter("thread.allocated");
    if (count > 2) {
        malloc_message = message;
        malloc_stats_print(NULL, NULL, letters);
        malloc_message = NULL;
    } else
        malloc_stats_print(put, &out, letters);
    CHECK(counter("thread.allocated") == before); // nothing was allocated
    for (int i = 0; i < 100; i++)
        free(objects[i]);
    return 0;
}
