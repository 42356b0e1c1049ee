// The door: exact counts while it is closed, and closing and opening from outside while threads run: nothing is lost.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/door.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../support/child.h"
#include "heap/fronts.h"
#include "heap/heap.h"
#include "heap/reclaim.h"
#include "os/clock.h"
#include "os/thread.h"
#include "unit.h"

enum { SLOTS = 500, THREADS = 3, ROUNDS = 400 };

void free_sized(void *object, size_t size); // C23

static void *kept[SLOTS];

static void counts_are_exact(void) {
    uint64_t allocated, freed;

    door_close(DOOR_COUNT);
    allocated = words.front->allocated;
    freed = words.front->freed;
    for (size_t size = 1; size < 300000; size += size / 3 + 1) {
        void *object = malloc(size);
        size_t usable = heap_usable_size(object, "test");

        CHECK(words.front->allocated - allocated == usable && words.front->freed == freed);
        allocated += usable;
        object = realloc(object, size * 2);
        free(object);
        CHECK(words.front->allocated - words.front->freed == allocated - freed - usable);
        allocated = words.front->allocated;
        freed = words.front->freed;
    }
    door_open(DOOR_COUNT);
    free(malloc(100));
    CHECK(words.front->allocated == allocated && words.front->freed == freed);
}

// Objects freed before closing come back, the last one first: the loaded magazine stays loaded, and so does the round ahead of it, which is the
// next one while the thread counts and nothing else is wanted.
static void magazines_stay(enum door why) {
    void *first = malloc(48), *second = malloc(48), *ahead, *next;

    free(first);
    free(second);
    ahead = words.ahead[size_class(48)];
    next = why == DOOR_COUNT ? ahead : second;
    door_close(why);
    CHECK(malloc(48) == next);
    door_open(why);
    CHECK(malloc(48) == (next == ahead ? second : ahead));
    CHECK(words.ahead[size_class(48)] == first);
    free(ahead);
    free(second);
}

static bool counts_fast(unsigned class) {
    return words.top[class] == (void **)&words.front->counted[FRONT_COUNTED_TOP];
}

// One of each way to allocate and to free, each exact at once.
static void count_one_of_each(void) {
    const uint64_t *allocated = &words.front->allocated, *freed = &words.front->freed;
    uint64_t before[2] = { *allocated, *freed };
    void *objects[] = { malloc(1), malloc(100), calloc(3, 30), realloc(NULL, 700), aligned_alloc(64, 128), malloc(20000), calloc(1, 20000) };
    size_t count = sizeof objects / sizeof *objects, sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += heap_usable_size(objects[i], "test");
    CHECK(*allocated - before[0] == sum && *freed == before[1]);
    objects[1] = realloc(objects[1], 400);
    sum += heap_usable_size(objects[1], "test");
    CHECK(*allocated - before[0] == sum && *freed - before[1] == 112);
    free_sized(objects[0], 1);
    free_sized(objects[2], 90);
    free_sized(NULL, 90);
    CHECK(*freed - before[1] == 112 + 8 + 96);
    for (size_t i = 1; i < count; i++)
        if (i != 2)
            free(objects[i]);
    CHECK(*allocated - before[0] == sum && *freed - before[1] == sum);
}

// Only while nothing else closes the door; and again after each disturbance.
static void counts_fast_when_alone(void) {
    unsigned class = size_class(100);

    door_close(DOOR_COUNT);
    CHECK(counts_fast(class));
    doors_close(DOOR_COUNT); // nothing new for this thread
    CHECK(counts_fast(class));
    count_one_of_each();
    door_close(DOOR_PEAK);
    CHECK(!counts_fast(class));
    count_one_of_each();
    door_open(DOOR_PEAK);
    CHECK(counts_fast(class));
    count_one_of_each();
    words.top[class] = FRONT_CLOSED;
    count_one_of_each();
    CHECK(counts_fast(class));
    words.top[class]--;
    count_one_of_each();
    CHECK(counts_fast(class));
    doors_open(DOOR_COUNT);
    door_open(DOOR_COUNT);
    free(malloc(100));
    CHECK(!counts_fast(class) && words.door == 0);
}

enum { STEPS = 5, FREE_STEPS = 3, NEVER = STEPS + 1, AFTERWARDS, OBJECTS = 40 };

// The hit of fast_malloc in steps. Before one of them all words are closed from outside, as another thread does it; before another
// the thread leaves, by a longjmp out of a handler. NULL: it left, or missed.
static void *malloc_in_steps(unsigned class, unsigned closed, unsigned left) {
    void **top = NULL, *next = NULL, *object = NULL;

    for (unsigned step = 0; step < STEPS; step++) {
        if (step == closed)
            doors_close(DOOR_COUNT);
        if (step == left)
            return NULL;
        if (step == 0) {
            top = words.top[class];
            next = top[-1];
            if (next == NULL)
                return NULL;
        } else if (step == 1)
            object = words.ahead[class];
        else if (step == 2)
            words.top[class]--;
        else if (step == 3)
            words.ahead[class] = next;
        else
            top[-1] = (void *)(words.word + class);
    }
    return object;
}

// That of fast_free likewise. False: it left, or missed.
static bool free_in_steps(void *object, unsigned closed, unsigned left) {
    unsigned word = page_map_word(object);
    void **top = NULL;

    for (unsigned step = 0; step < FREE_STEPS; step++) {
        if (step == closed)
            doors_close(DOOR_COUNT);
        if (step == left)
            return false;
        if (step == 0) {
            top = words.top[word_class(word)];
            if ((uintptr_t)*top != word)
                return false;
        } else if (step == 1)
            *top = object;
        else
            words.top[word_class(word)] = top + 1;
    }
    return true;
}

// An object of which a free was left is free or lost, and given out once at most.
static void disturb_a_free(unsigned closed, unsigned left, unsigned held) {
    void *objects[OBJECTS], *other = malloc(80);

    for (unsigned i = 0; i < held; i++)
        objects[i] = malloc(80);
    for (unsigned i = 1; i < held; i++)
        free(objects[i]);
    if (!free_in_steps(objects[0], closed, left) && left == NEVER)
        free(objects[0]);
    if (closed == AFTERWARDS)
        doors_close(DOOR_COUNT);
    free(other);
    for (unsigned i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(80);
        for (unsigned before = 0; before < i; before++)
            CHECK(objects[before] != objects[i]);
        if (i == held)
            doors_open(DOOR_COUNT);
    }
    for (unsigned i = 0; i < OBJECTS; i++)
        free(objects[i]);
    front_flush(words.front);
    CHECK(words.ahead[size_class(80)] == NULL);
}

// Whatever the moment, no object is given out twice, and the slabs take all of them back.
static void disturb_a_hit(unsigned closed, unsigned left, unsigned held) {
    unsigned class = size_class(80);
    void *objects[OBJECTS], *other = malloc(80);

    for (unsigned i = 0; i < held; i++)
        objects[i] = malloc(80);
    for (unsigned i = 0; i < held; i++)
        free(objects[i]);
    objects[0] = malloc_in_steps(class, closed, left);
    if (closed == AFTERWARDS)
        doors_close(DOOR_COUNT);
    free(other);
    if (objects[0] == NULL)
        objects[0] = malloc(80);
    for (unsigned i = 1; i < OBJECTS; i++) {
        objects[i] = malloc(80);
        for (unsigned before = 0; before < i; before++)
            CHECK(objects[before] != objects[i]);
        if (i == held)
            doors_open(DOOR_COUNT);
        if (i == held / 2) {
            free(objects[i]);
            objects[i] = malloc(80);
        }
    }
    for (unsigned i = 0; i < OBJECTS; i++)
        free(objects[i]);
    front_flush(words.front);
    CHECK(words.ahead[class] == NULL);
}

static void a_hit_is_disturbed_at_every_step(void) {
    for (unsigned step = 0; step <= STEPS; step++)
        for (unsigned held = 1; held < OBJECTS; held++) {
            disturb_a_hit(step, NEVER, held);
            disturb_a_hit(NEVER, step, held);
            disturb_a_hit(AFTERWARDS, step, held);
            disturb_a_free(step, NEVER, held);
            disturb_a_free(NEVER, step, held);
            disturb_a_free(AFTERWARDS, step, held);
        }
}

static void *churn(void *seed) {
    struct random random = { (uintptr_t)seed };
    unsigned char *slots[SLOTS] = { 0 };
    size_t sizes[SLOTS];

    for (int i = 0; i < 400000; i++) {
        size_t at = random_below(&random, SLOTS);

        if (slots[at] != NULL) {
            CHECK(slots[at][0] == (unsigned char)at && slots[at][sizes[at] - 1] == (unsigned char)at);
            free(slots[at]);
        }
        sizes[at] = 1 + random_below(&random, i % 64 == 0 ? 40000 : 200);
        slots[at] = malloc(sizes[at]);
        memset(slots[at], (int)at, sizes[at]);
    }
    for (int at = 0; at < SLOTS; at++)
        free(slots[at]);
    return NULL;
}

static void closing_from_outside_loses_nothing(void) {
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
    for (int i = 0; i < ROUNDS; i++) {
        doors_close(i % 2 ? DOOR_COUNT : DOOR_TRACE);
        usleep((unsigned)i % 50);
        doors_open(i % 2 ? DOOR_COUNT : DOOR_TRACE);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static pthread_barrier_t started, closed;

static void *pairs(void *unused) {
    free(malloc(64));
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&closed);
    free(malloc(64));
    CHECK(words.door == DOOR_COUNT && words.front->allocated == 64 && words.front->freed == 64);
    return unused;
}

static void other_threads_obey(void) {
    pthread_t thread;

    pthread_barrier_init(&started, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    pthread_create(&thread, NULL, pairs, NULL);
    pthread_barrier_wait(&started);
    doors_close(DOOR_COUNT);
    pthread_barrier_wait(&closed);
    pthread_join(thread, NULL);
    doors_open(DOOR_COUNT);
}

static _Atomic(struct front_words *) steady;
static atomic_bool over;

// Misses never, once its magazine has what it needs. With exact counters they are exact.
static void *steady_pairs(void *counts) {
    void *volatile object;
    uint64_t before, pairs = 0;

    free(malloc(500));
    if (counts != NULL)
        front_want_door(words.front, DOOR_COUNT);
    before = words.front->allocated;
    for (steady = &words; !atomic_load_explicit(&over, memory_order_relaxed); pairs++) {
        object = malloc(500);
        free(object);
    }
    CHECK(words.front->allocated - before == (counts != NULL ? pairs * 512 : 0));
    return NULL;
}

static void obeys(uint8_t door) {
    for (int i = 0; i < 5000 && __atomic_load_n(&steady->door, __ATOMIC_RELAXED) != door; i++) {
        usleep(1000);
        front_look(words.front); // as misses do
    }
    CHECK(__atomic_load_n(&steady->door, __ATOMIC_RELAXED) == door);
}

// What it writes to a word just when that is closed opens it again.
static void who_never_misses_obeys(bool counts) {
    uint8_t otherwise = (words.door & DOOR_CPU) | (counts ? DOOR_COUNT : 0);
    pthread_t thread;

    over = false;
    steady = NULL;
    pthread_create(&thread, NULL, steady_pairs, counts ? &over : NULL);
    while (steady == NULL)
        usleep(100);
    for (int i = 0; i < 50; i++) {
        usleep(1000);
        doors_close(DOOR_TRACE);
        obeys(otherwise | DOOR_TRACE);
        doors_open(DOOR_TRACE);
        obeys(otherwise);
    }
    over = true;
    pthread_join(thread, NULL);
}

// In a child that another thread made meanwhile nobody else would open them.
static void a_child_opens_sizes(void) {
    pthread_t thread;
    pid_t child;

    over = false;
    steady = NULL;
    pthread_create(&thread, NULL, steady_pairs, &over); // else nothing is made up for in the child
    while (steady == NULL)
        usleep(100);
    fronts_close_sizes();
    child = fork();
    if (child == 0)
        _exit(front_sizes_closed());
    fronts_watch_sizes();
    over = true;
    pthread_join(thread, NULL);
    expect_child(child);
}

static jmp_buf outside;
static volatile bool leaves;

void __real_os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ms);
void __wrap_os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ms);
void __wrap_os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ms) {
    if (leaves) {
        leaves = false;
        longjmp(outside, 1);
    }
    __real_os_word_wait(word, value, timeout_ms);
}

static void *stands_still(void *unused) {
    free(malloc(40));
    steady = &words;
    while (!over)
        usleep(1000);
    return unused;
}

// By a handler's longjmp: whoever comes by opens them.
static void sizes_that_were_left_are_opened(void) {
    pthread_t thread;

    over = false;
    steady = NULL;
    pthread_create(&thread, NULL, stands_still, NULL);
    while (steady == NULL)
        usleep(100);
    leaves = true;
    if (setjmp(outside) == 0)
        doors_close(DOOR_TRACE);
    CHECK(!leaves && front_sizes_closed());
    for (int ms = 0; ms < 20000 && front_sizes_closed(); ms++) {
        reclaim_look(words.front->arena, os_clock_ms()); // as misses do
        usleep(1000);
    }
    CHECK(!front_sizes_closed());
    doors_open(DOOR_TRACE);
    over = true;
    pthread_join(thread, NULL);
}

// `steady`: only that, where fronts of processors may serve.
int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "steady") == 0) {
        free(malloc(40));
        who_never_misses_obeys(false);
        who_never_misses_obeys(true);
        return 0;
    }
    for (int i = 0; i < SLOTS; i++)
        kept[i] = malloc(40);
    counts_are_exact();
    magazines_stay(DOOR_COUNT);
    magazines_stay(DOOR_PEAK);
    counts_fast_when_alone();
    a_hit_is_disturbed_at_every_step();
    other_threads_obey();
    closing_from_outside_loses_nothing();
    who_never_misses_obeys(false);
    who_never_misses_obeys(true);
    a_child_opens_sizes();
    sizes_that_were_left_are_opened();
    for (int i = 0; i < SLOTS; i++)
        free(kept[i]);
    return 0;
}
