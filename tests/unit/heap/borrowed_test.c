// Tests arena_for_run: page runs that one thread freed serve another one before its arena takes chunks, unless they are too small; a thread that asked for
// its arena has all from it.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <string.h>

#include "heap/arena.h"
#include "heap/explicit.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "heap/reclaim.h"
#include "pages/chunks.h"
#include "pages/page_map.h"
#include "unit.h"

enum { OBJECTS = 600, BYTES = 100000, MIB = 1024 * 1024, SPARE = 8 * MIB, LARGER = 40, LARGER_BYTES = 900000 };

static pthread_barrier_t turn;
static struct arena *first;

static void allocate(char *objects[OBJECTS], int mark) {
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(BYTES);
        CHECK(objects[i] != NULL);
        memset(objects[i], mark, BYTES);
    }
}

static unsigned arena_of_object(const void *object) {
    return (unsigned)(page_map_word(object) >> 8) - 1;
}

static int count_of(char *objects[OBJECTS], const struct arena *arena) {
    int count = 0;

    for (int i = 0; i < OBJECTS; i++)
        count += arena_of_object(objects[i]) == arena->id;
    return count;
}

static void free_all(char *objects[OBJECTS], int mark) {
    for (int i = 0; i < OBJECTS; i++) {
        CHECK(objects[i][0] == mark && objects[i][BYTES / 2] == mark && objects[i][BYTES - 1] == mark);
        free(objects[i]);
    }
}

// The thread's; nothing of it goes back meanwhile.
static struct arena *arena_that_keeps(void) {
    CHECK_EQ(arena_set_dirty_decay_ms(words.front->arena, -1), 0);
    return words.front->arena;
}

// Frees what it had, and lives on.
static void *leave_dirty(void *unused) {
    static char *objects[OBJECTS];

    (void)unused;
    allocate(objects, 1);
    first = arena_that_keeps();
    free_all(objects, 1);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    return NULL;
}

static void *borrow(void *unused) {
    static char *objects[OBJECTS];
    size_t before = chunks_mapped_bytes();

    (void)unused;
    allocate(objects, 2);
    CHECK(words.front->arena != first);
    CHECK(count_of(objects, first) > OBJECTS / 2);
    CHECK(chunks_mapped_bytes() - before <= SPARE);
    free_all(objects, 2);
    return NULL;
}

static void *keep_to_its_arena(void *unused) {
    static char *objects[OBJECTS];
    unsigned id;

    (void)unused;
    CHECK_EQ(thread_arena(&id), 0);
    CHECK(id != first->id);
    allocate(objects, 3);
    CHECK_EQ(count_of(objects, words.front->arena), OBJECTS);
    free_all(objects, 3);
    return NULL;
}

// As much as before, in pieces of which none has room for what is wanted: the lender would take a chunk for it, and another for the next.
static void *leave_pieces(void *unused) {
    static char *objects[OBJECTS];

    (void)unused;
    allocate(objects, 4);
    first = arena_that_keeps();
    for (int i = 0; i < OBJECTS; i += 2)
        free(objects[i]);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    for (int i = 1; i < OBJECTS; i += 2)
        free(objects[i]);
    return NULL;
}

static void *want_more(void *unused) {
    char *objects[LARGER];
    size_t before;

    (void)unused;
    free(malloc(1));
    before = pages_active_bytes(&first->pages);
    CHECK(words.front->arena != first);
    CHECK(pages_dirty_bytes(&first->pages) > OBJECTS / 4 * BYTES);
    for (int i = 0; i < LARGER; i++)
        CHECK((objects[i] = malloc(LARGER_BYTES)) != NULL);
    CHECK(pages_active_bytes(&first->pages) - before < LARGER * LARGER_BYTES / 2); // but the rests of chunks that are there
    for (int i = 0; i < LARGER; i++)
        free(objects[i]);
    return NULL;
}

static void run(void *(*begin)(void *)) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, begin, NULL), 0);
    pthread_join(thread, NULL);
}

static void while_it_lives(void *(*lender)(void *), void *(*one)(void *), void *(*other)(void *)) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, lender, NULL), 0);
    pthread_barrier_wait(&turn);
    run(one);
    if (other != NULL)
        run(other);
    pthread_barrier_wait(&turn);
    pthread_join(thread, NULL);
}

int main(void) {
    free(malloc(1));
    if (arenas_automatic_most() == 1)
        return 0; // one processor: there is one arena
    pthread_barrier_init(&turn, NULL, 2);
    while_it_lives(leave_pieces, want_more, NULL);
    reclaim_everything();
    while_it_lives(leave_dirty, borrow, keep_to_its_arena);
    return 0;
}
