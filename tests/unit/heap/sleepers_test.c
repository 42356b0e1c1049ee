// Sleepers: taking the rounds of a thread between any two steps of its hit, or of what it sends to another arena; of threads that run, sleep and are
// interrupted by handlers that sleep, and of threads that sleep for good.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/sleepers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf/options.h"
#include "heap/door.h"
#include "heap/explicit.h"
#include "heap/fronts.h"
#include "heap/heap.h"
#include "heap/loaded.h"
#include "os/fence.h"
#include "unit.h"

enum { SIZE = 80, OBJECTS = 40, STEPS = 5, SEND_STEPS = 3, ARENAS = 3, MANY = 500, HOUR_MS = 3600 * 1000 };

enum hit { MALLOC, MALLOC_LAST, FREE, HITS };

static struct loot loot;

// One step of a hit of heap/fast.h; false: it missed. `object` is what is freed, or what it got.
static bool hit_step(enum hit hit, unsigned step, unsigned class, void **object) {
    static void **top, *next;

    if (step == 0) {
        top = words.top[class];
        next = hit == FREE ? *top : top[-1];
        return hit == FREE ? next == (void *)(words.word + class) : next != NULL;
    }
    if (hit == MALLOC && step == 1)
        *object = words.ahead[class];
    else if (hit == MALLOC && step == 2)
        words.top[class]--;
    else if (hit == MALLOC && step == 3)
        words.ahead[class] = next;
    else if (hit == MALLOC && step == 4)
        top[-1] = (void *)(words.word + class);
    else if (hit == MALLOC_LAST && step == 1)
        *object = next;
    else if (hit == MALLOC_LAST && step == 2)
        words.top[class] = top - 1;
    else if (hit == MALLOC_LAST && step == 3)
        top[-1] = (void *)(words.word + class);
    else if (hit == FREE && step == 1)
        *top = *object;
    else if (hit == FREE && step == 2)
        words.top[class] = top + 1;
    return true;
}

static void visit_step(unsigned step) {
    static bool took;

    if (step == 0)
        sleeper_close(words.front, &loot);
    else if (step == 1)
        took = sleeper_take(words.front, &loot);
    else if (took)
        sleeper_settle(words.front, &loot, true);
}

static bool was_taken(unsigned class, const void *object) {
    for (size_t i = 0; i < loot.count[class]; i++)
        if (loot.round[loot.first[class] + i] == object)
            return true;
    return false;
}

// The three steps of a visit come before those of the hit that `before` says. Whatever they are, no object is in two places.
static void visit_a_hit(enum hit hit, const unsigned before[3], unsigned held) {
    unsigned class = size_class(SIZE), visited = 0;
    void *objects[OBJECTS] = { 0 }, *object;
    bool hits = true;

    for (unsigned i = 0; i < held; i++)
        objects[i] = malloc(SIZE);
    for (unsigned i = hit == FREE; i < held; i++) {
        free(objects[i]);
        objects[i] = NULL;
    }
    object = hit == FREE ? objects[0] : NULL;
    for (unsigned step = 0; step <= STEPS; step++) {
        for (; visited < 3 && before[visited] == step; visited++)
            visit_step(visited);
        if (hits && step < STEPS)
            hits = hit_step(hit, step, class, &object);
    }
    if (hit == FREE && !hits)
        free(objects[0]);
    objects[0] = hit == FREE ? NULL : object;
    for (unsigned i = 0; i < OBJECTS; i++) {
        objects[i] = objects[i] != NULL ? objects[i] : malloc(SIZE);
        CHECK(!was_taken(class, objects[i]));
        for (unsigned other = 0; other < i; other++)
            CHECK(objects[i] != objects[other]);
    }
    loot_give(&loot);
    for (unsigned i = 0; i < OBJECTS; i++)
        free(objects[i]);
    front_flush(words.front);
    CHECK(words.ahead[class] == NULL);
}

static void a_visit_meets_every_step(void) {
    unsigned before[3];

    for (unsigned hit = 0; hit < HITS; hit++)
        for (before[0] = 0; before[0] <= STEPS; before[0]++)
            for (before[1] = before[0]; before[1] <= STEPS; before[1]++)
                for (before[2] = before[1]; before[2] <= STEPS; before[2]++)
                    for (unsigned held = 2; held < OBJECTS; held += 3)
                        visit_a_hit((enum hit)hit, before, held);
    arena_reap(words.front->arena, true);
    CHECK(bin_used(&words.front->arena->bins[size_class(SIZE)]) == 0);
}

// A hit that was under way writes its word when all is taken: what comes then finds the gap and misses, in every fast path.
static void a_gap_is_a_miss(size_t size) {
    unsigned class = size_class(size);
    void *objects[12];

    for (int i = 0; i < 12; i++)
        objects[i] = malloc(size);
    for (int i = 0; i < 12; i++)
        free(objects[i]);
    sleeper_close(words.front, &loot);
    CHECK(sleeper_take(words.front, &loot));
    sleeper_settle(words.front, &loot, true);
    CHECK(loot.count[class] > 0);
    words.top[class] = loot.top[class];
    for (int i = 0; i < 12; i++) {
        objects[i] = malloc(size);
        CHECK((intptr_t)objects[i] > 0 && !was_taken(class, objects[i]));
        memset(objects[i], i, size);
    }
    loot_give(&loot);
    for (int i = 0; i < 12; i++)
        free(objects[i]);
}

// One step of front_send_at_once; false: it missed.
static bool send_step(unsigned step, unsigned class, void *object) {
    static void **top;

    if (step == 0)
        top = words.front->outbound[class].top;
    else if (step == 1)
        *top = object;
    else if (step == 2)
        words.front->outbound[class].top = top + 1;
    return *top != MAGAZINE_FULL;
}

enum settling { FENCED, NOT_FENCED, NO_ROOM, SETTLINGS };

// Likewise of an object of another arena that goes into the outbound magazine, which is taken as a whole, or not at all where there was no fence or is no
// room for it. Whatever comes when, all go home and each once.
static void visit_a_send(const unsigned before[3], unsigned sent, enum settling how) {
    unsigned class = size_class(SIZE), visited = 0;
    struct arena *other = arena_make_automatic(words.front->arena->id == 1 ? 2 : 1);
    void *objects[OBJECTS];
    bool took = false, hits = true;

    CHECK(other != NULL && other != words.front->arena);
    CHECK_EQ(arena_fill(other, class, objects, sent + 1), sent + 1);
    for (unsigned i = 0; i < sent; i++)
        free(objects[i]);
    for (unsigned step = 0; step <= SEND_STEPS; step++) {
        for (; visited < 3 && before[visited] == step; visited++) {
            if (visited == 0)
                sleeper_close(words.front, &loot);
            else if (visited == 1) {
                took = sleeper_take(words.front, &loot);
                CHECK(took);
            } else {
                loot.rounds = how == NO_ROOM ? LOOT_ROUNDS - sent + 1 : loot.rounds;
                sleeper_settle(words.front, &loot, how != NOT_FENCED);
            }
        }
        if (hits && step < SEND_STEPS)
            hits = send_step(step, class, objects[sent]);
    }
    CHECK(took);
    if (!hits)
        free(objects[sent]);
    if (how == FENCED)
        CHECK_GE(loot.first_outbound[class + 1] - loot.first_outbound[class], sent);
    else
        CHECK_EQ(loot.first_outbound[class + 1], loot.first_outbound[class]);
    CHECK_EQ(bin_used(&other->bins[class]), sent + 1);
    loot_give(&loot);
    for (int step = 0; step < 3; step++) // again: what it finds where it took the rounds are none
        visit_step((unsigned)step);
    loot_give(&loot);
    front_flush(words.front);
    arena_reap(other, true);
    CHECK_EQ(bin_used(&other->bins[class]), 0);
}

static void a_visit_meets_every_send(void) {
    unsigned before[3];

    words.front->tidied_at += HOUR_MS; // however slow the machine is
    for (unsigned how = 0; how < SETTLINGS; how++)
        for (before[0] = 0; before[0] <= SEND_STEPS; before[0]++)
            for (before[1] = before[0]; before[1] <= SEND_STEPS; before[1]++)
                for (before[2] = before[1]; before[2] <= SEND_STEPS; before[2]++)
                    for (unsigned sent = 3; sent < OBJECTS; sent += 7)
                        visit_a_send(before, sent, (enum settling)how);
}

static void fill_both_magazines(void) {
    void *objects[MANY];

    for (int round = 0; round < 8; round++) { // a small magazine is alone until it has grown
        for (int i = 0; i < MANY; i++)
            objects[i] = malloc(SIZE);
        for (int i = 0; i < MANY; i++)
            free(objects[i]);
    }
}

// A front whose thread is in its slow path, or works with other words or for an arena that the program may reset, is left as it is.
static void not_everybody_is_visited(void) {
    unsigned class = size_class(SIZE), id, before = words.front->arena->id;

    fill_both_magazines();
    sleeper_close(words.front, &loot);
    CHECK(sleeper_take(words.front, &loot) && loot.count[class] > 0);
    sleeper_settle(words.front, &loot, false); // nothing is sure without a fence
    CHECK_EQ(loot.count[class], 0);
    loot_give(&loot);
    fill_both_magazines();
    CHECK(words.front->previous[class] != NULL && words.front->previous_rounds[class] > 0);
    sleeper_close(words.front, &loot);
    words.front->inside++;
    CHECK(!sleeper_take(words.front, &loot) && !sleeper_visit(words.front, &loot));
    words.front->inside--;
    words.door = DOOR_COUNT;
    CHECK(!sleeper_take(words.front, &loot) && !sleeper_visit(words.front, &loot));
    words.door = 0;
    atomic_store(&words.front->door_wanted, DOOR_COUNT);
    CHECK(!sleeper_take(words.front, &loot) && !sleeper_visit(words.front, &loot));
    atomic_store(&words.front->door_wanted, 0);
    CHECK(!atomic_load(&words.front->visited)); // nor waits the thread for whoever came by
    CHECK(words.front->previous[class] != NULL && words.front->previous_rounds[class] > 0);
    CHECK(sleeper_visit(words.front, &loot));
    CHECK(words.front->previous[class] == NULL && words.front->previous_rounds[class] == 0);
    CHECK(!atomic_load(&words.front->visited));
    loot_give(&loot);
    front_flush(words.front);
    arena_reap(words.front->arena, true);
    CHECK_EQ(bin_used(&words.front->arena->bins[class]), 0);
    CHECK(arenas_make(NULL, &id) == 0 && thread_set_arena(id) == 0);
    free(malloc(SIZE));
    CHECK(!sleeper_visit(words.front, &loot));
    CHECK(thread_set_arena(before) == 0 && arena_destroy(id, NULL) == 0);
}

enum { THREADS = 3, SLOTS = 300, OPERATIONS = 500000, SHARED = 64 };

static _Atomic bool ends;
static void *_Atomic shared[SHARED]; // objects on their way to other threads
static _Atomic unsigned long visited, running;

static void handler_sleeps(int signal) {
    struct timespec moment = { 0, signal * 10000 };

    nanosleep(&moment, NULL);
}

static unsigned char *filled(size_t size, unsigned char with) {
    unsigned char *object = malloc(size);

    *(size_t *)(void *)object = size;
    memset(object + sizeof size, with, size - sizeof size);
    object[size - 1] = with;
    return object;
}

static void check_free(unsigned char *object) {
    size_t size;

    if (object == NULL)
        return;
    size = *(size_t *)(void *)object;
    for (size_t i = sizeof size; i < size; i++)
        CHECK(object[i] == object[size - 1]);
    if (size % 2)
        heap_free_sized(object, 0, size, "test");
    else
        free(object);
}

static void *churn(void *seed) {
    struct random random = { (uintptr_t)seed };
    unsigned char *slots[SLOTS] = { 0 };

    for (int i = 0; i < OPERATIONS; i++) {
        size_t at = random_below(&random, SLOTS);

        check_free(slots[at]);
        slots[at] = filled(16 + random_below(&random, i % 64 == 0 ? 20000 : 150), (unsigned char)random_next(&random));
        if (i % 8 == 0)
            slots[at] = atomic_exchange(&shared[random_below(&random, SHARED)], slots[at]);
        if (random_below(&random, 2000) == 0)
            usleep(random_below(&random, 3000));
    }
    for (int at = 0; at < SLOTS; at++)
        check_free(slots[at]);
    running--;
    return NULL;
}

// Visits each thread, the one that runs as well as the one that sleeps.
static bool visit_one(struct front *front, void *random) {
    if (front == words.front || random_below(random, THREADS) != 0)
        return false;
    return sleeper_visit(front, &loot);
}

static void *visitor(void *seed) {
    struct random random = { (uintptr_t)seed };

    while (!ends)
        if (fronts_find(false, visit_one, &random)) {
            visited++;
            loot_give(&loot);
        }
    return NULL;
}

static void nothing_is_lost_under_visits(void) {
    struct sigaction action = { .sa_handler = handler_sleeps };
    struct random random = { 77 };
    pthread_t threads[THREADS], other;

    sigaction(SIGUSR1, &action, NULL);
    running = THREADS;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
    pthread_create(&other, NULL, visitor, (void *)(uintptr_t)99);
    while (running > 0) {
        size_t at = random_below(&random, THREADS);

        usleep(200);
        if (running == THREADS)
            pthread_kill(threads[at], SIGUSR1);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ends = true;
    pthread_join(other, NULL);
    for (int i = 0; i < SHARED; i++)
        check_free(shared[i]);
    CHECK(visited > 20);
}

static pthread_barrier_t worked, looked;

static void *work_and_sleep(void *unused) {
    void *objects[200];

    for (int i = 0; i < 200; i++)
        objects[i] = malloc(1000);
    for (int i = 0; i < 200; i++)
        free(objects[i]);
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&looked);
    CHECK(words.front->emptied && front_rounds(words.front, size_class(1000)) <= 2);
    for (int i = 0; i < 200; i++)
        CHECK((objects[i] = malloc(1000)) != NULL);
    for (int i = 0; i < 200; i++)
        free(objects[i]);
    return unused;
}

// With a clock of its own: half a second goes by between two steps.
static void sleepers_are_emptied(void) {
    pthread_t thread;
    uint64_t now = 1000000000;
    int steps = 0;

    pthread_barrier_init(&worked, NULL, 2);
    pthread_barrier_init(&looked, NULL, 2);
    pthread_create(&thread, NULL, work_and_sleep, NULL);
    pthread_barrier_wait(&worked);
    usleep(50000);
    while (sleepers_step(now += 500))
        CHECK(++steps < 20);
    CHECK(steps > 0);
    CHECK(!sleepers_step(now += 500));
    pthread_barrier_wait(&looked);
    pthread_join(thread, NULL);
    options.sleeper_ms = -1;
    CHECK(!sleepers_step(now += 500));
}

int main(void) {
    free(malloc(SIZE));
    options.background_thread = false;
    options.narenas = ARENAS;
    a_visit_meets_every_step();
    a_gap_is_a_miss(SIZE);
    a_gap_is_a_miss(2000);
    a_visit_meets_every_send();
    if (!os_fence())
        return 0; // nobody is visited here
    not_everybody_is_visited();
    nothing_is_lost_under_visits();
    sleepers_are_emptied();
    return 0;
}
