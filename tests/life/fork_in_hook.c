// An extent hook forks while memory of its arena is given back. The child goes on there as the parent does: it can reset, use and destroy the arena.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jemalloc/jemalloc.h"

enum { OBJECTS = 400, HANG_SECONDS = 300 };

const char *malloc_conf = "background_thread:false"; // of a fork there, nothing goes on in the child

static extent_hooks_t hooks, *defaults;
static pid_t parent, child = -1;

static bool purge(extent_hooks_t *own, void *start, size_t size, size_t offset, size_t length, unsigned arena) {
    (void)own, (void)size, (void)arena;
    if (child == -1) {
        CHECK_GE(child = fork(), 0);
        if (child == 0)
            alarm(HANG_SECONDS);
    }
    return madvise((char *)start + offset, length, MADV_DONTNEED) != 0;
}

static void use(unsigned arena) {
    int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
    static void *objects[OBJECTS];

    for (size_t i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = mallocx(1 + i * 500, flags)) != NULL);
        memset(objects[i], 1, 1 + i * 500);
    }
    for (int i = 0; i < OBJECTS; i++)
        if (i != OBJECTS / 2)
            dallocx(objects[i], flags);
}

static void act(const char *what, unsigned arena) {
    char name[40];

    snprintf(name, sizeof name, "arena.%u.%s", arena, what);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
}

int main(void) {
    unsigned arena;
    size_t size = sizeof defaults;
    extent_hooks_t *own = &hooks;
    int status;

    parent = getpid();
    CHECK_EQ(mallctl("arena.0.extent_hooks", &defaults, &size, NULL, 0), 0);
    hooks = *defaults;
    hooks.purge_lazy = NULL;
    hooks.purge_forced = purge;
    size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, &own, sizeof own), 0);
    use(arena);
    act("purge", arena);
    CHECK(child != -1);
    use(arena);
    act("reset", arena);
    use(arena);
    act("destroy", arena);
    if (getpid() != parent)
        return 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    return 0;
}
