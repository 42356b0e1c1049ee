// Tests heap/reclaim.h: while one thread gives back, a trim waits for what it has in hand, a second step does nothing, and fork waits a while.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/reclaim.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conf/options.h"
#include "heap/arena.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "jemalloc/jemalloc.h"
#include "os/clock.h"
#include "unit.h"

enum { BYTES = 512 * 1024, TRIM_MS = 200, FORK_MS = 30, MOST_EARLY = 40, HANG_SECONDS = 300 };

static _Atomic bool purging, purged, may_end; // the stepping thread's purge goes on until it may end, and `purge_ms` from then on
static _Thread_local bool is_stepping;
static _Atomic long purge_ms;

static void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

// A system that takes its time.
static bool purge_slowly(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length, unsigned arena) {
    (void)hooks, (void)address, (void)size, (void)offset, (void)length, (void)arena;
    if (!is_stepping)
        return false;
    purging = true;
    while (!may_end)
        sleep_ms(1);
    sleep_ms(purge_ms);
    purged = true;
    return false;
}

static void *step(void *unused) {
    is_stepping = true;
    reclaim_step(os_clock_ms(), false);
    return unused;
}

// Leaves dirty pages that a step purges, has another thread take it, and waits until it is in the middle.
static pthread_t begin_step(long ms) {
    static extent_hooks_t hooks;
    struct pages *pages = &words.front->arena->pages;
    pthread_t stepping;
    bool zeroed;

    extents_set_hooks(&pages->extents, NULL);
    uintptr_t run = pages_alloc(pages, BYTES, 0, &zeroed), last = pages_alloc(pages, BYTES, 0, &zeroed);
    CHECK(run != 0 && last != 0);
    hooks = *extents_hooks(&pages->extents);
    hooks.purge_forced = hooks.purge_lazy = purge_slowly;
    extents_set_hooks(&pages->extents, &hooks);
    purging = purged = may_end = false;
    purge_ms = ms;
    pages_free(pages, run, BYTES);
    pages->dirty_before = pages_dirty_bytes(pages); // long ago: all of it is due
    atomic_store(&pages->step_at, os_clock_ms() - 60000);
    CHECK_EQ(pthread_create(&stepping, NULL, step, NULL), 0);
    while (!purging)
        sleep_ms(1);
    return stepping;
}

static void trim_waits(void) {
    pthread_t stepping = begin_step(TRIM_MS);

    CHECK(!purged);
    CHECK(reclaim_step(os_clock_ms(), false)); // something is left, and it is not for us
    CHECK(!purged);
    may_end = true;
    heap_trim();
    CHECK(purged);
    pthread_join(stepping, NULL);
}

// Whether the child came after the purge.
static bool child_gives_back(void) {
    pid_t child = fork();
    int status;

    CHECK_GE(child, 0);
    if (child == 0) {
        uint64_t now = os_clock_ms();

        heap_trim();
        atomic_store(&words.front->arena->pages.step_at, now > 60000 ? now - 60000 : 0);
        reclaim_step(now, false); // it is this thread's turn, whosever it was in the parent
        CHECK(!pages_decay_is_due(&words.front->arena->pages, now));
        _exit(purged ? 0 : 1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status & 0xff, 0);
    return status == 0;
}

// Not for ever: a machine that is busy elsewhere may let it go on too early, but not always.
static void fork_waits(void) {
    unsigned early = 0;

    for (bool waited = false; !waited && early < MOST_EARLY; early += !waited) {
        pthread_t stepping = begin_step(FORK_MS);

        may_end = true;
        waited = child_gives_back();
        pthread_join(stepping, NULL);
    }
    CHECK(early < MOST_EARLY);
}

static void fork_does_not_wait_for_ever(void) {
    pthread_t stepping = begin_step(0);

    CHECK(!child_gives_back());
    may_end = true;
    pthread_join(stepping, NULL);
}

int main(void) {
    alarm(HANG_SECONDS);
    free(malloc(1)); // the heap, and a front
    options.background_thread = false;
    trim_waits();
    fork_waits();
    fork_does_not_wait_for_ever();
    return 0;
}
