// Tests heap/arenas.c: threads have objects of a cache line and more from one arena until they wait for its locks again and again, smaller
// ones and page runs that are kept at hand each from its own; then all from its own, and what there was goes home.
// SPDX-License-Identifier: BSD-2-Clause
#include <jemalloc/jemalloc.h>

#include <pthread.h>
#include <unistd.h>

#include "../../support/child.h"
#include "conf/options.h"
#include "heap/arena.h"
#include "heap/explicit.h"
#include "heap/extended.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "heap/reclaim.h"
#include "os/mutex_figures.h"
#include "many.h"
#include "pages/page_map.h"
#include "unit.h"

enum { THREADS = 4, OBJECTS = 3000, WAITS = 200, LINE = 64, SIZES = 7, TRIES = 1000 };

static const size_t sizes[SIZES] = {8, 24, 48, LINE, 500, 40000, 100000};
static void *objects[THREADS][OBJECTS];
static pthread_barrier_t turn;

static size_t size_of(unsigned i) {
    return sizes[i % SIZES];
}

static unsigned arena_of_object(const void *object) {
    return (unsigned)(page_map_word(object) >> 8) - 1;
}

static void allocate(void **own, unsigned thread) {
    for (unsigned i = 0; i < OBJECTS; i++) {
        own[i] = i % 2 == 0 ? malloc(size_of(i)) : calloc(1, size_of(i));
        memset(own[i], (int)(thread + 1), size_of(i));
    }
}

static void check_contents(void **those, unsigned thread) {
    for (unsigned i = 0; i < OBJECTS; i++)
        for (size_t byte = 0; byte < size_of(i); byte += 7)
            CHECK_EQ(((unsigned char *)those[i])[byte], thread + 1);
}

static void free_all(void **those) {
    for (unsigned i = 0; i < OBJECTS; i++)
        free(those[i]);
}

static void check_common(void **own) {
    const struct front *front = words.front;

    CHECK(front->common == arena_of(0));
    for (unsigned i = 0; i < OBJECTS; i++)
        CHECK_EQ(arena_of_object(own[i]), size_of(i) < LINE || size_of(i) > MAGAZINE_MOST ? front->arena->id : 0);
}

// Of the next objects, not of those that it had before.
static void check_apart(void **own) {
    const struct front *front = words.front;

    CHECK(front->arena == front->common);
    for (unsigned i = OBJECTS / 2; i < OBJECTS; i++)
        CHECK_EQ(arena_of_object(own[i]), front->arena->id);
}

enum { MIB = 1024 * 1024, LARGE = 3 * MIB };

static void check_large(void *object, const struct arena *arena) {
    CHECK(object != NULL);
    CHECK_EQ(arena_of_object(object), arena->id);
    free(object);
}

// Of the thread's own arena before, if it had to move.
static void check_moved(const struct arena *arena) {
    char *object = malloc(KEPT_MOST), *moved;

    memset(object, 7, KEPT_MOST);
    moved = realloc(object, 8 * LARGE);
    for (size_t byte = 0; byte < KEPT_MOST; byte += 64)
        CHECK_EQ(moved[byte], 7);
    if (moved != object)
        CHECK_EQ(arena_of_object(moved), arena->id);
    free(moved);
}

// Page runs that nobody keeps at hand, whoever asks for them; those of KEPT_MOST are the thread's own.
static void check_runs(const struct arena *arena) {
    const struct front *front = words.front;
    void *moved = malloc(LARGE), *behind = malloc(LARGE);

    CHECK_EQ(arena_of_object(moved), arena->id);
    check_large(malloc(KEPT_MOST), front->arena);
    check_large(malloc(KEPT_MOST + 1), arena);
    check_large(calloc(1, LARGE), arena);
    check_large(aligned_alloc(MIB, LARGE), arena);
    check_large(realloc(malloc(100000), LARGE), arena);
    check_large(heap_mallocx(LARGE, MALLOCX_TCACHE_NONE), arena);
    check_large(realloc(moved, 8 * LARGE), arena); // has no place to grow
    free(behind);
    check_moved(arena);
}

static void *work(void *argument) {
    unsigned self = (unsigned)(uintptr_t)argument, next = (self + 1) % THREADS;

    allocate(objects[self], self);
    check_common(objects[self]);
    pthread_barrier_wait(&turn);
    check_contents(objects[next], next);
    free_all(objects[next]); // another's: the larger ones are this thread's own as well
    pthread_barrier_wait(&turn);
    allocate(objects[self], self);
    check_common(objects[self]);
    pthread_barrier_wait(&turn); // they wait for locks
    pthread_barrier_wait(&turn);
    check_contents(objects[next], next);
    free_all(objects[next]);
    pthread_barrier_wait(&turn);
    check_runs(words.front->arena); // before the thread has moved
    allocate(objects[self], self);
    check_apart(objects[self]);
    pthread_barrier_wait(&turn);
    check_contents(objects[next], next);
    free_all(objects[next]);
    return NULL;
}

// What one thread freed serves another: the same pages.
static void *use_again(void *freed) {
    void *object = malloc(LARGE);

    CHECK(words.front->arena != words.front->common);
    CHECK(object == freed);
    free(object);
    check_runs(arena_of(0));
    return NULL;
}

static void *ask_for_arena(void *argument) {
    unsigned id;

    (void)argument;
    free(malloc(500));
    CHECK(words.front->arena != words.front->common);
    CHECK_EQ(thread_arena(&id), 0);
    CHECK_EQ(id, words.front->arena->id);
    CHECK(words.front->arena == words.front->common);
    check_runs(words.front->arena);
    return NULL;
}

static void run(void *(*begin)(void *), void *argument) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, begin, argument), 0);
    pthread_join(thread, NULL);
}

static void *wait_now_and_then(void *argument) {
    static struct mutex mutex;

    (void)argument;
    for (unsigned i = 0; i < 3; i++) { // each time enough, but far apart
        for (unsigned wait = 0; wait < WAITS; wait++) {
            mutex_wait_begins(&mutex);
            mutex_wait_ends(&mutex, 1);
        }
        arenas_look();
        CHECK(!arenas_apart());
        usleep(150000);
    }
    return NULL;
}

// A look counts that comes soon after the one before: on a busy machine not each does.
static void wait_for_locks(void) {
    static struct mutex mutex;

    for (unsigned i = 0; i < TRIES && !arenas_apart(); i++) {
        for (unsigned wait = 0; wait < WAITS; wait++) {
            mutex_wait_begins(&mutex);
            mutex_wait_ends(&mutex, 1);
        }
        arenas_look();
    }
    CHECK(arenas_apart());
}

static void look_often(unsigned times, unsigned looks, unsigned tries) {
    static struct mutex mutex;

    for (unsigned i = 0; i < tries && !arenas_apart(); i++) {
        for (unsigned time = 0; time < times; time++)
            mutex_spun(&mutex, looks);
        arenas_look();
    }
}

// Threads that never sleep part as well when they have had to look at locks for long.
static void part_without_sleep(void) {
    pid_t child = fork();

    if (child == 0) {
        look_often(10 * WAITS, 1, 2); // it was free at the next look, each time
        CHECK(!arenas_apart());
        look_often(10 * WAITS, 60, TRIES);
        CHECK(arenas_apart());
        _exit(0);
    }
    expect_child(child);
}

// Nor need they allocate anything but large objects.
static void part_by_large_objects(void) {
    static struct mutex mutex;
    pid_t child = fork();

    if (child == 0) {
        for (unsigned i = 0; i < TRIES && !arenas_apart(); i++) {
            for (unsigned wait = 0; wait < WAITS; wait++) {
                mutex_wait_begins(&mutex);
                mutex_wait_ends(&mutex, 1);
            }
            free(malloc(LARGE));
        }
        CHECK(arenas_apart());
        _exit(0);
    }
    expect_child(child);
}

// Every object is in its slab again, and nobody is counted that is not there.
static void check_all_home(void) {
    reclaim_everything();
    for (struct arena *arena = NULL; (arena = arenas_next(arena)) != NULL;) {
        CHECK_EQ(arena->guests, 0);
        CHECK_EQ(arena->threads, arena->id == 0);
        for (unsigned s = 0; s < SIZES; s++)
            if (size_class(sizes[s]) < SLAB_CLASSES && sizes[s] >= LINE)
                CHECK_EQ(arena->bins[size_class(sizes[s])].filled, arena->bins[size_class(sizes[s])].drained);
    }
}

int main(void) {
    pthread_t threads[THREADS];
    void *freed, *wall;

    CHECK(heap_ready());
    free(malloc(1));
    if (arenas_automatic_most() == 1)
        return 0; // one processor: there is one arena
    have_many_threads(); // unit.heap.few has few
    options.dirty_decay_ms = 0; // no arena has pages to lend (unit.heap.borrowed)
    run(ask_for_arena, NULL);
    CHECK_EQ(arena_set_dirty_decay_ms(arena_of(0), -1), 0); // nobody has it in hand in order to give it back
    freed = malloc(LARGE);
    wall = malloc(KEPT_MOST); // lest the chunks go back
    free(freed);
    run(use_again, freed);
    CHECK_EQ(arena_set_dirty_decay_ms(arena_of(0), options.dirty_decay_ms), 0);
    run(wait_now_and_then, NULL);
    part_without_sleep();
    part_by_large_objects();
    pthread_barrier_init(&turn, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (unsigned i = 0; i < 3; i++)
        pthread_barrier_wait(&turn);
    CHECK_EQ(arena_of(0)->guests + arena_of(0)->threads, THREADS + 1);
    wait_for_locks();
    for (unsigned i = 0; i < 3; i++)
        pthread_barrier_wait(&turn);
    CHECK_EQ(arena_of(0)->guests, 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    free(wall);
    check_all_home();
    return 0;
}
