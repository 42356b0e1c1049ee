// Tests the way of objects between fronts in every interleaving: logical threads malloc and free each other's objects through
// real fronts, depots and slabs, all orders of their steps by depth-first search.
//
// A logical thread is a front with its own copy of the thread-local words, which are put in place for its steps; so one
// real thread plays all of them. A step is one malloc, one free or one reap. Magazines hold two rounds, so that a few steps
// reach the depot and the owner's depot. Checked: no object is given out twice, its bytes stay, and when all is freed and
// reaped every bin has back what it gave.
// SPDX-License-Identifier: BSD-2-Clause
#include "conf/options.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "os/thread.h"
#include "unit.h"

#include <pthread.h>

enum { SIZE = 48, SLOTS = 12, THREADS_MOST = 3, STEPS_MOST = 12, RUNS_MOST = 200000 };

static struct choices choices;

// What a step does: allocate into a slot, free what is in a slot (waiting until something is), or reap its arena.
enum what { END, MALLOC, FREE, REAP, FLUSH };

struct step {
    enum what what;
    unsigned slot;
};

struct thread {
    struct front_words words;
    const struct step *script;
    unsigned at;
};

static struct thread threads[THREADS_MOST];
static unsigned thread_count;
static uint64_t *slots[SLOTS];
static uint64_t stamps;

static void object_stamp(uint64_t *object, uint64_t stamp) {
    for (size_t i = 0; i < SIZE / sizeof *object; i++)
        object[i] = stamp;
}

static void check_slots(void) {
    for (unsigned slot = 0; slot < SLOTS; slot++)
        for (size_t i = 0; slots[slot] != NULL && i < SIZE / sizeof **slots; i++)
            CHECK_EQ(slots[slot][i], stamps + slot);
}

static void step_do(const struct step *step) {
    uint64_t **slot = &slots[step->slot];

    switch (step->what) {
    case MALLOC:
        CHECK(*slot == NULL && (*slot = heap_malloc(SIZE)) != NULL);
        object_stamp(*slot, stamps + step->slot);
        break;
    case FREE:
        heap_free(*slot, "free");
        *slot = NULL;
        break;
    case REAP:
        arena_reap(words.front->arena, true);
        break;
    case FLUSH:
        front_flush(words.front);
        break;
    case END:
        break;
    }
}

// Puts the logical thread's words in place for one step.
static void thread_step(struct thread *thread, const struct step *step) {
    struct front_words own = words;

    words = thread->words;
    step_do(step);
    thread->words = words;
    words = own;
}

static bool can_step(const struct thread *thread) {
    const struct step *step = &thread->script[thread->at];

    return step->what != END && (step->what != FREE || slots[step->slot] != NULL);
}

static struct thread *choose_thread(void) {
    struct thread *ready[THREADS_MOST];
    unsigned count = 0;

    for (unsigned i = 0; i < thread_count; i++)
        if (can_step(&threads[i]))
            ready[count++] = &threads[i];
    return count == 0 ? NULL : ready[choose(&choices, count)];
}

// All is freed and reaped: every bin has what it gave, and no depot believes to hold anything.
static void settle(void) {
    static const struct step flush = { FLUSH, 0 };

    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (slots[slot] != NULL)
            thread_step(&threads[slot % thread_count], &(struct step){ FREE, slot });
    for (unsigned i = 0; i < thread_count; i++)
        thread_step(&threads[i], &flush);
    for (unsigned i = 1; i < arenas_live(); i++) {
        struct arena *arena = arena_of(i);
        struct bin *bin = &arena->bins[size_class(SIZE)];

        arena_reap(arena, true);
        CHECK_EQ(arena_depot_bytes(arena), 0);
        CHECK_EQ(bin->filled, bin->drained);
        bin_trim(bin, true);
        CHECK_EQ(bin->slabs, 0);
        bin_check(bin);
    }
}

struct scenario {
    const char *name;
    struct step scripts[THREADS_MOST][STEPS_MOST];
};

// Threads 0 and 2 share an arena, thread 1 has another.
static const struct scenario scenarios[] = {
    { "one makes, another arena's frees",
      { { { MALLOC, 0 }, { MALLOC, 1 }, { MALLOC, 2 }, { MALLOC, 3 }, { MALLOC, 4 }, { MALLOC, 5 }, { MALLOC, 6 } },
        { { FREE, 0 }, { FREE, 1 }, { FREE, 2 }, { FREE, 3 }, { FREE, 4 }, { FREE, 5 } } } },
    { "the same, and a third takes them again",
      { { { MALLOC, 0 }, { MALLOC, 1 }, { MALLOC, 2 }, { MALLOC, 3 }, { MALLOC, 4 } },
        { { FREE, 0 }, { FREE, 1 }, { FREE, 2 }, { FREE, 3 }, { FREE, 4 } },
        { { MALLOC, 5 }, { MALLOC, 6 }, { MALLOC, 7 }, { MALLOC, 8 } } } },
    { "two free what the other made",
      { { { MALLOC, 0 }, { MALLOC, 1 }, { MALLOC, 2 }, { FREE, 6 }, { FREE, 7 }, { FREE, 8 } },
        { { MALLOC, 6 }, { MALLOC, 7 }, { MALLOC, 8 }, { FREE, 0 }, { FREE, 1 }, { FREE, 2 } } } },
    { "a depot shared by two threads",
      { { { MALLOC, 0 }, { MALLOC, 1 }, { MALLOC, 2 }, { MALLOC, 3 }, { FREE, 8 }, { FREE, 9 }, { FREE, 10 }, { FREE, 11 } },
        { { END, 0 } },
        { { MALLOC, 8 }, { MALLOC, 9 }, { MALLOC, 10 }, { MALLOC, 11 }, { FREE, 0 }, { FREE, 1 }, { FREE, 2 }, { FREE, 3 } } } },
    { "reaped by others at any moment",
      { { { MALLOC, 0 }, { MALLOC, 1 }, { MALLOC, 2 }, { MALLOC, 3 }, { MALLOC, 4 } },
        { { FREE, 0 }, { FREE, 1 }, { FREE, 2 }, { FREE, 3 }, { FLUSH, 0 } },
        { { REAP, 0 }, { REAP, 0 } } } },
};

static void every_interleaving(const struct scenario *scenario) {
    size_t runs = 0;

    do {
        struct thread *thread;

        CHECK_LT(runs++, RUNS_MOST);
        stamps += SLOTS;
        for (unsigned i = 0; i < thread_count; i++) {
            threads[i].script = scenario->scripts[i];
            threads[i].at = 0;
        }
        while ((thread = choose_thread()) != NULL) {
            thread_step(thread, &thread->script[thread->at++]);
            check_slots();
        }
        for (unsigned i = 0; i < thread_count; i++)
            CHECK_EQ(threads[i].script[threads[i].at].what, END); // nobody waits for ever
        settle();
    } while (choices_next(&choices));
    say("%s: %zu interleavings", scenario->name, runs);
}

// The words of a thread before its first use.
static void *words_at_first(void *place) {
    *(struct front_words *)place = words;
    return NULL;
}

static void threads_make(const struct front_words *first) {
    struct front_words own = words;

    arena_of(0)->threads += THREADS_MOST; // arena 0 is for this program itself
    for (; thread_count < THREADS_MOST; thread_count++) {
        words = *first;
        CHECK(front_get() != NULL && words.front->arena->id == 1 + thread_count % 2);
        threads[thread_count].words = words;
        words = own;
    }
    os_thread_exit_value(OS_THREAD_END_HEAP, words.front);
}

int main(void) {
    struct front_words first;
    pthread_t id;

    free(malloc(1));
    CHECK_EQ(pthread_create(&id, NULL, words_at_first, &first), 0);
    pthread_join(id, NULL);
    CHECK(first.front == NULL && first.word == 0);
    options.narenas = 3;
    options.background_thread = false;
    options.magazine_bytes = 64;
    threads_make(&first);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        every_interleaving(&scenarios[i]);
    return 0;
}
