// Tests heap/fronts.c and what fronts do by it: while a program has few threads each has all from its own arena, but not one that frees what others
// allocate, or whose objects others free; of many, those that come have objects of a cache line and more from one arena. What there was goes home.
// SPDX-License-Identifier: BSD-2-Clause
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <unistd.h>

#include "heap/arena.h"
#include "heap/explicit.h"
#include "heap/extended.h"
#include "heap/front.h"
#include "heap/fronts.h"
#include "heap/reclaim.h"
#include "pages/page_map.h"
#include "unit.h"

enum { SIZE = 500, SMALL = 24, OBJECTS = 1000, SOME = 500, MUCH = 8000, KEPT = 100, FEW = 10, TRIES = 1000, SOON = 50 * TRIES, MANY = 2 * ARENAS_MOST };

static unsigned char *kept[KEPT], *handed[OBJECTS], *much[MUCH];
static pthread_barrier_t turn;

static unsigned arena_of_object(const void *object) {
    return (unsigned)(page_map_word(object) >> 8) - 1;
}

static void use_many(void) {
    void *objects[SOME];

    for (unsigned i = 0; i < SOME; i++)
        objects[i] = memset(malloc(SIZE), 1, SIZE);
    for (unsigned i = 0; i < SOME; i++)
        free(objects[i]);
}

static void keep(unsigned char **objects, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        objects[i] = memset(malloc(SIZE), (int)(i % 251), SIZE);
}

static void check_kept(unsigned char **objects, unsigned count, bool frees) {
    for (unsigned i = 0; i < count; i++) {
        for (unsigned byte = 0; byte < SIZE; byte++)
            CHECK_EQ(objects[i][byte], i % 251);
        if (frees)
            free(objects[i]);
    }
}

static unsigned arena_of_next(void) {
    void *object = malloc(SIZE);
    unsigned id = arena_of_object(object);

    free(object);
    return id;
}

// The second one: nobody knows yet how many will come.
static void *become_few(void *unused) {
    const struct front *front;

    (void)unused;
    keep(kept, FEW); // so few that nobody looks yet
    front = words.front;
    CHECK(front->common == arena_of(0) && front->common != front->arena && !fronts_are_few());
    CHECK_EQ(arena_of_object(kept[0]), 0);
    usleep(20000);
    front_look(words.front);
    CHECK(!front->moves && !fronts_are_few()); // what the process has had of the processors is not much
    for (unsigned i = 0; i < SOON && front->common != front->arena; i++)
        use_many();
    CHECK(front->common == front->arena && fronts_are_few());
    CHECK_EQ(arena_of_next(), front->arena->id);
    check_kept(kept, FEW, true); // another arena's now
    return NULL;
}

static void *be_apart(void *unused) {
    (void)unused;
    keep(kept, KEPT);
    CHECK(words.front->common == words.front->arena && words.front->arena != arena_of(0));
    for (unsigned i = 0; i < KEPT; i++)
        CHECK_EQ(arena_of_object(kept[i]), words.front->arena->id);
    for (unsigned i = 0; i < TRIES; i++)
        free(malloc(SIZE));
    check_kept(kept, KEPT, true);
    CHECK(words.front->common == words.front->arena);
    return NULL;
}

// A steady stream of the main thread's objects: the next ones come from where those came from, and nothing changes that.
static void *free_those_of_main(void *unused) {
    (void)unused;
    keep(kept, FEW);
    CHECK(words.front->common == words.front->arena);
    check_kept(handed, OBJECTS, true);
    use_many();
    CHECK(words.front->common == arena_of(0) && words.front->streams);
    CHECK_EQ(arena_of_next(), 0);
    check_kept(kept, FEW, true);
    for (unsigned i = 0; i < TRIES / 10; i++)
        use_many();
    CHECK(words.front->common == arena_of(0) && fronts_are_few());
    return NULL;
}

// Of smaller objects than a cache line, too, by which alone threads show it that have the others in common.
static void *free_small_ones_of_main(void *unused) {
    (void)unused;
    free(malloc(SIZE));
    CHECK(words.front->common == words.front->arena);
    for (unsigned i = 0; i < OBJECTS; i++)
        free(handed[i]);
    use_many();
    CHECK(words.front->common == arena_of(0) && words.front->streams);
    return NULL;
}

// It has more than it may leave behind.
static void *keep_much_and_free_those_of_main(void *unused) {
    (void)unused;
    keep(much, MUCH);
    check_kept(handed, OBJECTS, true);
    use_many();
    CHECK(words.front->common == words.front->arena && words.front->streams);
    CHECK_EQ(arena_of_next(), words.front->arena->id);
    check_kept(much, MUCH, true);
    return NULL;
}

// The main thread frees them.
static void *produce(void *unused) {
    (void)unused;
    keep(handed, OBJECTS);
    CHECK(words.front->common == words.front->arena && words.front->arena != arena_of(0));
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    for (unsigned i = 0; i < TRIES && words.front->common == words.front->arena; i++)
        use_many();
    CHECK(words.front->common == arena_of(0));
    CHECK_EQ(arena_of_next(), 0);
    return NULL;
}

// The arena's objects are freed by others again and again by now. An explicit cache serves the arena that is named, or was when it was made.
static void *use_cache(void *unused) {
    unsigned cache, id;
    int flags;

    (void)unused;
    free(malloc(SIZE));
    CHECK(words.front->arena != arena_of(0) && words.front->arena->streams);
    CHECK(explicit_cache_create(&cache) == 0 && arenas_make(NULL, &id) == 0);
    flags = MALLOCX_TCACHE(cache) | MALLOCX_ARENA(words.front->arena->id);
    for (unsigned round = 0; round < KEPT; round++) {
        for (unsigned i = 0; i < OBJECTS; i++) {
            handed[i] = heap_mallocx(SIZE, flags);
            CHECK_EQ(arena_of_object(handed[i]), words.front->arena->id);
        }
        for (unsigned i = 0; i < OBJECTS; i++)
            heap_dallocx(handed[i], MALLOCX_TCACHE(cache), "dallocx");
    }
    flags = MALLOCX_TCACHE(cache) | MALLOCX_ARENA(id);
    for (unsigned i = 0; i < OBJECTS; i++) {
        handed[i] = heap_mallocx(SIZE, flags);
        CHECK_EQ(arena_of_object(handed[i]), id);
    }
    CHECK(arena_reset(id) == 0 && arena_destroy(id, NULL) == 0);
    CHECK_EQ(explicit_cache_destroy(cache), 0);
    return NULL;
}

static void *be_many(void *unused) {
    unsigned char *own[KEPT];

    (void)unused;
    keep(own, KEPT);
    pthread_barrier_wait(&turn);
    CHECK(!fronts_are_few());
    use_many();
    check_kept(own, KEPT, true);
    pthread_barrier_wait(&turn);
    return NULL;
}

static void *be_one_of_many(void *unused) {
    (void)unused;
    free(malloc(SIZE));
    CHECK(words.front->common == arena_of(0) && words.front->arena != arena_of(0));
    return NULL;
}

static void run(void *(*begin)(void *)) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, begin, NULL), 0);
    pthread_join(thread, NULL);
}

static void run_many(unsigned count) {
    static pthread_t threads[MANY];

    CHECK(count <= MANY);
    pthread_barrier_init(&turn, NULL, count);
    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, be_many, NULL), 0);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

// Those on their way home are nobody's any more.
static void check_counted(void) {
    const struct outbound *outbound = &words.front->outbound[size_class(SIZE)];
    size_t bytes[ARENAS_MOST][2] = {{0}}, rounds[CLASSES] = {0}, sent = (size_t)(outbound->top - outbound->magazine->round);

    fronts_cached(bytes);
    fronts_and_depots_count(rounds);
    CHECK(sent > 0 && rounds[size_class(SIZE)] >= sent);
    CHECK(bytes[arena_of_object(outbound->magazine->round[0])][0] >= sent * class_size(size_class(SIZE)));
}

static void consume(void) {
    pthread_t thread;

    pthread_barrier_init(&turn, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, produce, NULL), 0);
    pthread_barrier_wait(&turn);
    check_kept(handed, OBJECTS, true);
    check_counted();
    pthread_barrier_wait(&turn);
    pthread_join(thread, NULL);
}

static void check_all_home(void) {
    reclaim_everything();
    for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;) {
        const struct bin *bin = &arena->bins[size_class(SIZE)];

        CHECK_EQ(arena->guests, 0);
        CHECK_EQ(arena->threads, arena->id == 0);
        CHECK_EQ(bin->filled, bin->drained);
    }
}

int main(void) {
    free(malloc(SIZE));
    if (arenas_automatic_most() == 1)
        return 0; // one processor: there is one arena
    run(become_few);
    run(be_apart);
    keep(handed, OBJECTS);
    run(keep_much_and_free_those_of_main);
    reclaim_everything(); // what it had
    keep(handed, OBJECTS);
    run(free_those_of_main);
    for (unsigned i = 0; i < OBJECTS; i++)
        handed[i] = malloc(SMALL);
    run(free_small_ones_of_main);
    consume(); // last: from then on who comes to the producer's arena joins at its first look
    run(use_cache);
    CHECK(fronts_are_few());
    run_many(2 * arenas_processors() + 1); // and the main thread
    CHECK(!fronts_are_few());
    run(be_one_of_many);
    check_all_home();
    return 0;
}
