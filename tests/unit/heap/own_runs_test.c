// Tests heap/own_runs.h: what a thread freed last it gets again, without an atomic operation; and each event at which the arena gets it.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/own_runs.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf/options.h"
#include "ctl/stats.h"
#include "ctl/snapshot.h"
#include "heap/door.h"
#include "heap/explicit.h"
#include "heap/fronts.h"
#include "heap/heap.h"
#include "heap/kept.h"
#include "heap/large.h"
#include "heap/sleepers.h"
#include "pages/page_map.h"
#include "unit.h"

enum { KIB = 1024, MIB = 1024 * KIB, FLOOR = MIB };

static void *volatile sink;

static void *allocate(size_t size) {
    return sink = malloc(size);
}

// An object of a class that comes and goes.
static void *allocate_again(size_t size) {
    for (int i = 0; i < OWN_RUNS_COME_AND_GO; i++)
        free(allocate(size));
    return allocate(size);
}

static struct arena *own_arena(void) {
    return words.front->arena;
}

static size_t kept_by_arena(void) {
    return own_arena()->pages.kept_bytes;
}

static size_t at_hand(void) {
    size_t bytes = 0;

    for (unsigned i = 0; i < KEPT_SIZES; i++)
        if (words.front->own[i].run != NULL) bytes += words.front->own[i].run->bytes;
    CHECK_EQ(words.front->own_bytes, bytes);
    CHECK_LE(bytes, words.front->own_room);
    CHECK_LE(words.front->own_room, own_arena()->own_room);
    return bytes;
}

static void nothing_at_hand(void) {
    heap_trim();
    CHECK_EQ(at_hand(), 0);
    CHECK_EQ(own_arena()->own_room, 0);
    CHECK_EQ(kept_by_arena(), 0);
}

static void same_run_again(void) {
    char *first = allocate(300000), *second;

    free(first);
    CHECK_EQ(at_hand(), 0); // now and then: the arena's, or nobody's
    first = allocate_again(300000);
    free(first);
    CHECK_EQ(at_hand(), 320 * KIB);
    CHECK_EQ(kept_by_arena(), 0);
    CHECK_EQ(page_map_word(first), 0);
    CHECK(page_map_run(first) == NULL); // a second free is told
    second = allocate(290000); // of the same class
    CHECK(second == first && heap_usable_size(second, "test") == 320 * KIB);
    CHECK_EQ(at_hand(), 0);
    second[0] = 1;
    free(second);
    second = calloc(1, 320 * KIB);
    CHECK(second == first && second[0] == 0);
    free(second);
    CHECK(aligned_alloc(4096, 300 * KIB) == first);
    free(first);
    CHECK(realloc(NULL, 300 * KIB) == first);
    errno = EDOM;
    free(first);
    CHECK_EQ(errno, EDOM);
    CHECK((uintptr_t)(second = aligned_alloc(512 * KIB, 320 * KIB)) % (512 * KIB) == 0); // not at the alignment that it may have
    free(second);
    nothing_at_hand();
}

static struct stats figures(size_t index, uint64_t counts[2]) {
    const struct arena_figures *sums;

    snapshot_take();
    sums = snapshot_arena(own_arena()->id);
    counts[0] = sums->lextents[index].nmalloc;
    counts[1] = sums->lextents[index].ndalloc;
    CHECK_EQ(sums->lextents[index].curlextents, counts[0] - counts[1]);
    return stats_snapshot();
}

// Figures that are asked for know each allocation and free at once, and take the run as dirty.
static void counted(void) {
    size_t index = size_class(320 * KIB) - SLAB_CLASSES;
    uint64_t before[2], then[2], after[2];
    char *object = allocate_again(320 * KIB);
    struct stats live = figures(index, before), freed, again;

    for (int i = 0; i < 1000; i++) {
        free(object);
        CHECK(allocate(320 * KIB) == object);
    }
    figures(index, then);
    CHECK_EQ(then[0], before[0] + 1000);
    CHECK_EQ(then[1], before[1] + 1000);
    free(object);
    freed = figures(index, after);
    CHECK_EQ(after[0], then[0]);
    CHECK_EQ(after[1], then[1] + 1);
    CHECK_EQ(freed.allocated, live.allocated - 320 * KIB);
    CHECK_EQ(freed.active, live.active - 320 * KIB);
    CHECK_EQ(freed.dirty, live.dirty + 320 * KIB);
    nothing_at_hand(); // and counted once, not twice
    again = figures(index, then);
    CHECK_EQ(then[0], after[0]);
    CHECK_EQ(then[1], after[1]);
    CHECK_EQ(again.allocated, freed.allocated);
}

static void another_on_top(void) {
    char *first = allocate_again(128 * KIB), *second = allocate(128 * KIB), *other = allocate_again(96 * KIB);

    free(first);
    free(second);
    free(other);
    CHECK_EQ(at_hand(), (128 + 96) * KIB);
    CHECK_EQ(kept_by_arena(), 128 * KIB);
    CHECK(allocate(128 * KIB) == second);
    CHECK(allocate(128 * KIB) == first);
    free(first);
    free(second);
    nothing_at_hand();
}

// All fronts of an arena together.
static void bounded(void) {
    size_t sizes[] = { 1 * MIB, 896 * KIB, 768 * KIB, 640 * KIB, 512 * KIB, 448 * KIB, 384 * KIB, 320 * KIB };
    void *objects[8];
    size_t most;

    for (int i = 0; i < 8; i++)
        objects[i] = allocate_again(sizes[i]);
    most = FLOOR + pages_active_bytes(&own_arena()->pages) / 32;
    for (int i = 7; i >= 0; i--) {
        free(objects[i]);
        CHECK_LE(at_hand(), most);
    }
    CHECK(at_hand() > 0);
    atomic_fetch_add(&own_arena()->own_room, 64 * MIB); // others'
    heap_trim();
    free(allocate_again(192 * KIB));
    CHECK_EQ(at_hand(), 0);
    CHECK_EQ(kept_by_arena(), 0); // no more of the arena's than all may be together
    atomic_fetch_sub(&own_arena()->own_room, 64 * MIB);
    free(allocate_again(2 * MIB));
    CHECK_EQ(at_hand(), 0);
    nothing_at_hand();
}

// At the front's tidying: what was freed since the last one stays.
static void tidied(void) {
    free(allocate_again(512 * KIB));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(at_hand(), 512 * KIB);
        words.front->tidied_at -= 1000;
        front_look(words.front);
    }
    CHECK_EQ(at_hand(), 0);
    CHECK_EQ(own_arena()->own_room, 0);
    nothing_at_hand();
}

// When the heap grows by an eighth, as all that is idle.
static void given_before_growth(void) {
    enum { COUNT = 4000 };
    static void *small[COUNT];
    int count = 0;

    free(allocate_again(768 * KIB));
    CHECK_EQ(at_hand(), 768 * KIB);
    while (count < COUNT && at_hand() > 0)
        small[count++] = allocate(3 * KIB);
    CHECK_LT(count, COUNT);
    while (count > 0)
        free(small[--count]);
    nothing_at_hand();
}

static void *one_pair(void *argument) {
    free(allocate_again(320 * KIB));
    CHECK_EQ(at_hand(), 320 * KIB);
    *(struct arena **)argument = own_arena();
    return NULL;
}

static void thread_ends(void) {
    struct arena *arena;
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, one_pair, &arena), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(arena->own_room, words.front->arena == arena ? words.front->own_room : 0);
    kept_give(arena, true);
    CHECK_EQ(pages_active_bytes(&arena->pages) > 20 * MIB, false);
}

static struct sleeper {
    pthread_barrier_t turn;
    struct front *front;
} sleeper;

static void *frees_and_sleeps(void *argument) {
    void *object = allocate_again(320 * KIB);

    (void)argument;
    free(object);
    sleeper.front = words.front;
    pthread_barrier_wait(&sleeper.turn);
    pthread_barrier_wait(&sleeper.turn);
    CHECK_EQ(at_hand(), 0);
    free(allocate_again(320 * KIB));
    CHECK_EQ(at_hand(), 320 * KIB);
    return NULL;
}

static void taken_from_sleepers(void) {
    static struct loot loot;
    pthread_t thread;

    pthread_barrier_init(&sleeper.turn, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, frees_and_sleeps, NULL), 0);
    pthread_barrier_wait(&sleeper.turn);
    CHECK_EQ(sleeper.front->own_bytes, 320 * KIB);
    mutex_lock(fronts_mutex()); // as the background thread has it
    CHECK(sleeper_visit(sleeper.front, &loot));
    mutex_unlock(fronts_mutex());
    CHECK_EQ(sleeper.front->own_bytes, 0);
    loot_give(&loot);
    pthread_barrier_wait(&sleeper.turn);
    pthread_join(thread, NULL);
}

// The child's own is at hand as before; nobody else's room counts.
static void in_a_child(void) {
    void *object = allocate_again(320 * KIB);
    int status;
    pid_t child;

    free(object);
    atomic_fetch_add(&own_arena()->own_room, MIB); // another thread's
    child = fork();
    if (child == 0) {
        CHECK_EQ(at_hand(), 320 * KIB);
        CHECK_EQ(own_arena()->own_room, words.front->own_room);
        CHECK(allocate(320 * KIB) == object);
        free(object);
        nothing_at_hand();
        _exit(0);
    }
    atomic_fetch_sub(&own_arena()->own_room, MIB);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    nothing_at_hand();
}

// What is at hand goes soon when the arena keeps none any more, and at once at its purge.
static void not_any_more(void) {
    ssize_t before = own_arena()->pages.dirty_decay_ms;
    void *object = allocate_again(192 * KIB);

    free(object);
    CHECK_EQ(at_hand(), 192 * KIB);
    own_arena()->pages.dirty_decay_ms = 0;
    for (int i = 0; i < 64; i++) {
        object = allocate(192 * KIB);
        free(object);
    }
    CHECK_EQ(at_hand(), 0);
    own_arena()->pages.dirty_decay_ms = before;
    free(allocate_again(192 * KIB));
    CHECK_EQ(at_hand(), 192 * KIB);
    arena_purge(own_arena());
    CHECK_EQ(at_hand(), 0);
    free(allocate_again(192 * KIB));
    CHECK_EQ(at_hand(), 192 * KIB);
    CHECK_EQ(arena_set_dirty_decay_ms(own_arena(), 0), 0);
    CHECK_EQ(at_hand(), 0);
    own_arena()->pages.dirty_decay_ms = before;
}

static void not_everywhere(void) {
    ssize_t before = own_arena()->pages.dirty_decay_ms;
    void *object;

    own_arena()->pages.dirty_decay_ms = 0; // pages go back at once
    free(allocate_again(192 * KIB));
    CHECK_EQ(at_hand(), 0);
    own_arena()->pages.dirty_decay_ms = before;
    own_arena()->is_explicit = true;
    free(allocate_again(192 * KIB));
    CHECK_EQ(at_hand(), 0);
    own_arena()->is_explicit = false;
    object = allocate_again(192 * KIB);
    door_close(DOOR_COUNT);
    free(object);
    CHECK_EQ(words.front->freed, 192 * KIB);
    free(allocate(192 * KIB));
    CHECK_EQ(words.front->allocated, 192 * KIB);
    CHECK_EQ(words.front->freed, 2 * 192 * KIB);
    door_open(DOOR_COUNT);
    heap_trim();
}

int main(void) {
    options.background_thread = false;
    free(malloc(1));
    CHECK(words.front != NULL);
    same_run_again();
    counted();
    another_on_top();
    bounded();
    tidied();
    given_before_growth();
    thread_ends();
    taken_from_sleepers();
    in_a_child();
    not_any_more();
    not_everywhere();
    return 0;
}
