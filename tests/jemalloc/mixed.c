// Sized frees look at no object, so objects of an arena that the program made come into magazines of others, and the other way round: after each thread's flush
// nothing of it is given out twice, and nothing lost, when the arena is reset or destroyed. What is guarded outlives the arena of its thread.
// SPDX-License-Identifier: BSD-2-Clause
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"

void free_sized(void *object, size_t size);

enum { OBJECTS = 20000, STRAYS = OBJECTS / 37, ROUNDS = 30, LEFT_MOST = 64 << 10, GUARDED = 10 };

static void *ordinary[OBJECTS], *strays[STRAYS], *again[2 * OBJECTS];

static unsigned make(void) {
    unsigned arena;
    size_t length = sizeof arena;

    CHECK_EQ(mallctl("arenas.create", &arena, &length, NULL, 0), 0);
    return arena;
}

static void bind(unsigned arena) {
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &arena, sizeof arena), 0);
}

static void end(const char *format, unsigned arena) {
    char name[64];

    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    snprintf(name, sizeof name, format, arena);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
}

static void free_mixed(size_t size) {
    for (int i = 0; i < OBJECTS; i++) {
        free_sized(ordinary[i], size);
        if (i % 37 == 0 && i / 37 < STRAYS)
            free_sized(strays[i / 37], size);
    }
}

// All live at once: each keeps its number.
static void check_apart(size_t size, unsigned arena) {
    for (int i = 0; i < 2 * OBJECTS; i++) {
        again[i] = i < OBJECTS && arena != 0 ? mallocx(size, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE) : malloc(size);
        CHECK(again[i] != NULL);
        *(int *)again[i] = i;
    }
    for (int i = 0; i < 2 * OBJECTS; i++) {
        CHECK_EQ(*(int *)again[i], i);
        free(again[i]);
    }
}

static void check_strays(size_t size) {
    unsigned arena = make();

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < OBJECTS; i++)
            ordinary[i] = malloc(size);
        for (int i = 0; i < STRAYS; i++)
            strays[i] = mallocx(size, MALLOCX_ARENA(arena));
        free_mixed(size);
        end(round == 0 ? "arena.%u.reset" : "arena.%u.destroy", arena);
        check_apart(size, round == 0 ? arena : 0);
    }
}

static size_t allocated(void) {
    uint64_t epoch = 1;
    size_t bytes, length = sizeof bytes;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.allocated", &bytes, &length, NULL, 0), 0);
    return bytes;
}

static void *free_in_own(void *arena) {
    bind(*(unsigned *)arena);
    for (int i = 0; i < OBJECTS; i++)
        ordinary[i] = malloc(48);
    free_mixed(48);
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    return NULL;
}

// The other way round: the strays are the automatic arena's.
static void check_lost(void) {
    size_t before = 0;

    for (int round = 0; round < ROUNDS; round++) {
        unsigned arena = make();
        pthread_t thread;

        if (round == 1)
            before = allocated();
        for (int i = 0; i < STRAYS; i++)
            strays[i] = malloc(48);
        CHECK_EQ(pthread_create(&thread, NULL, free_in_own, &arena), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        end("arena.%u.destroy", arena);
    }
    CHECK_LE(allocated(), before + LEFT_MOST);
}

static void check_guarded(void) {
    void *objects[GUARDED];
    unsigned arena = make();

    bind(arena);
    for (int i = 0; i < GUARDED; i++)
        objects[i] = memset(malloc(100), 1, 100);
    for (int i = 0; i < GUARDED; i++)
        free(objects[i]);
    bind(0);
    end("arena.%u.destroy", arena);
    for (int i = 0; i < OBJECTS; i++)
        free(memset(malloc(100), 1, 100));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "guarded") == 0) {
        check_guarded();
        return 0;
    }
    check_strays(48);
    check_strays(1000);
    check_lost();
    return 0;
}
