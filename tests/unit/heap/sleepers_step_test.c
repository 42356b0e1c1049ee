// Tests sleepers_step of heap/sleepers.h by a clock of its own: who has done something of late is not visited, whatever it was; who has not is, whatever it
// holds, once until it does something again; and nobody is looked at too soon or against the option.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/sleepers.h"

#include <pthread.h>

#include "conf/options.h"
#include "heap/heap.h"
#include "os/fence.h"
#include "unit.h"

enum { STEP_MS = 500, STEPS = 6, BYTES = 200, SMALL = 48, OBJECTS = 500, LARGE = 200000, PAIRS = 100, HOUR_MS = 3600 * 1000 };

static uint64_t now = 1000000000;
static struct front *front; // of the other thread
static void *objects[OBJECTS], *foreign[OBJECTS], *large;
static unsigned next;

// What the other thread does, one thing after the other; it waits in between, without allocating.
static void (*job)(void);
static pthread_barrier_t begins, done;

static void *work(void *unused) {
    for (;;) {
        pthread_barrier_wait(&begins);
        if (job == NULL)
            return unused;
        job();
        pthread_barrier_wait(&done);
    }
}

static void let(void (*what)(void)) {
    job = what;
    pthread_barrier_wait(&begins);
    pthread_barrier_wait(&done);
}

static void begin(void) {
    free(malloc(1));
    front = words.front;
    front->tidied_at += HOUR_MS; // however slow the machine is
}

static void fill_magazines(void) {
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = malloc(BYTES);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
}

static void give_all(void) {
    front_flush(words.front);
    front_flush(words.front);
}

static void free_one_foreign(void) {
    free(foreign[next++]);
}

static void hold_a_run(void) {
    for (int i = 0; i < PAIRS; i++)
        free(malloc(LARGE));
}

static void take_the_run(void) {
    large = malloc(LARGE);
}

static void free_the_run(void) {
    free(large);
}

// The round ahead becomes another one, and the word is as it was.
static void exchange_ahead(void) {
    void *first = malloc(SMALL), *second = malloc(SMALL);

    free(first);
    free(second);
}

static bool step(void) {
    return sleepers_step(now += STEP_MS);
}

static bool step_often(void) {
    bool more = true;

    for (int i = 0; i < STEPS; i++)
        more = step();
    return more;
}

// While it does that it is not emptied.
static void stays(void (*what)(void), void (*then)(void)) {
    for (int i = 0; i < STEPS; i++) {
        let(i % 2 == 0 ? what : then);
        step();
        CHECK_EQ(front->still_since, now);
        CHECK(!front->emptied);
    }
}

// Who holds that alone is emptied, when it has stood still for as long as the option says, and then not again.
static void emptied(void (*what)(void)) {
    uint64_t before;

    let(give_all);
    let(what);
    for (before = now + STEP_MS; now < before + (uint64_t)options.sleeper_ms - STEP_MS;) {
        CHECK(step());
        CHECK(!front->emptied);
    }
    CHECK(!step() && front->emptied);
    before = front->still_since;
    CHECK(!step_often());
    CHECK_EQ(front->still_since, before);
}

static void fill_foreign_magazine(void) {
    for (int i = 0; i < 20; i++)
        free_one_foreign();
}

static void check_magazines(void) {
    unsigned class = size_class(BYTES);

    CHECK(words.front->loaded[class] != NULL && words.front->previous[class] != NULL);
}

static void check_outbound_alone(void) {
    unsigned class = size_class(BYTES);

    CHECK(words.front->loaded[class] == NULL && words.front->outbound_capacity[class] * class_size(class) >= 4096);
}

static void check_run_alone(void) {
    CHECK(words.front->own_bytes >= LARGE && words.front->loaded[size_class(BYTES)] == NULL);
}

static void not_too_soon(void) {
    uint64_t looked = front->looked_at;

    CHECK(sleepers_step(now + STEP_MS - 1));
    CHECK_EQ(front->looked_at, looked);
    options.sleeper_ms = -1;
    CHECK(!step());
    CHECK_EQ(front->looked_at, looked);
}

static pthread_t thread;

// Another one, which never had a magazine, and objects that are of none of its arenas.
static void begin_thread(void) {
    struct arena *owner;

    CHECK_EQ(pthread_create(&thread, NULL, work, NULL), 0);
    let(begin);
    owner = arena_make_automatic(front->arena->id == 2 ? 1 : 2);
    CHECK(owner != front->arena && owner != front->common);
    next = 0;
    for (size_t left = OBJECTS; left > 0;)
        left -= arena_fill(owner, size_class(BYTES), foreign, left);
    CHECK(step()); // the first look, which is none at the thread's words
}

static void end_thread(void) {
    job = NULL;
    pthread_barrier_wait(&begins);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void whoever_works_stays(void) {
    let(hold_a_run);
    stays(take_the_run, free_the_run);
    let(fill_foreign_magazine);
    stays(free_one_foreign, free_one_foreign);
    let(exchange_ahead);
    stays(exchange_ahead, exchange_ahead);
}

static void whoever_holds_that_is_emptied(void (*what)(void), void (*check)(void)) {
    end_thread();
    begin_thread();
    let(what);
    let(check);
    emptied(what);
    emptied(what); // again
}

int main(void) {
    CHECK(heap_ready());
    options.background_thread = false;
    options.narenas = 3;
    fill_magazines(); // this thread's, which is not visited
    if (!os_fence())
        SKIP("no fence here: nobody is visited");
    pthread_barrier_init(&begins, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    begin_thread();
    whoever_works_stays();
    whoever_holds_that_is_emptied(fill_magazines, check_magazines);
    whoever_holds_that_is_emptied(hold_a_run, check_run_alone);
    whoever_holds_that_is_emptied(fill_foreign_magazine, check_outbound_alone);
    CHECK(!words.front->emptied);
    not_too_soon();
    end_thread();
    return 0;
}
