// A fork while the black box is written: by a handler amid it, whose child goes on where its parent was, and beside another thread. Either child has a box of
// its own, and the parent's stays the parent's.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/black_box.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../support/child.h"
#include "conf/options.h"
#include "heap/sampling.h"
#include "os/clock.h"
#include "unit.h"
#include "watch/profile.h"

enum { MARK = 77, HOUR_MS = 3600 * 1000 };

static char folder[] = "/tmp/vmag-box-XXXXXX";
static void (*amid)(void); // once, while the counters are written
static uint64_t now; // later than it is

static void count(struct vmag_box_counters *counters) {
    void (*comes)(void) = amid;

    amid = NULL;
    if (comes != NULL)
        comes();
    counters->threads = MARK;
}

static void look(void) {
    black_box_look(now += 1000, true, 19, 0);
}

// Samples, each with its stack. Returns how many.
static size_t count_samples(struct vmag_box *box) {
    struct vmag_box_tally *tallies = (struct vmag_box_tally *)(void *)((char *)box + box->tallies);
    size_t count = 0;

    for (uint32_t i = 0; i < box->tallies_most; i++)
        if (tallies[i].stack != 0) {
            CHECK_GT(((struct vmag_box_stack *)(void *)((char *)box + tallies[i].stack))->depth, 0);
            count++;
        }
    return count;
}

static size_t samples; // of the parent's

// A box that is none but this process's is begun and written to, however soon.
static void check_own_box(void) {
    struct vmag_box *box;
    uint32_t written;

    sampling_look(); // perhaps the fork has done it, a moment ago or some milliseconds
    box = atomic_load(&black_box);
    CHECK(box != NULL && box->pid == (uint32_t)getpid());
    CHECK_EQ(count_samples(box), samples);
    written = box->counters_written;
    CHECK_GE(written, 1);
    CHECK_EQ(box->counters[written & 1].threads, MARK);
    black_box_look(now, true, 19, 0);
    CHECK_EQ(box->counters_written, written + 1);
    CHECK(box->maps_written == 1 && box->maps_used[1] > 0);
    black_box_end();
}

static pid_t child;

static void fork_here(void) {
    CHECK_GE(child = fork(), 0);
}

static void of_a_handler(void) {
    amid = fork_here;
    look();
    if (child == 0) {
        check_own_box();
        _exit(0);
    }
    expect_child(child);
}

static pthread_barrier_t barrier;

static void wait_here(void) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
}

static void *look_and_wait(void *unused) {
    look();
    return unused;
}

static void of_another_thread(void) {
    pthread_t thread;

    amid = wait_here;
    CHECK_EQ(pthread_create(&thread, NULL, look_and_wait, NULL), 0);
    pthread_barrier_wait(&barrier);
    fork_here();
    if (child == 0) {
        check_own_box();
        _exit(0);
    }
    expect_child(child);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

int main(void) {
    struct vmag_box *box;
    uint32_t written;
    void *volatile object;

    free(malloc(1));
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    pthread_barrier_init(&barrier, NULL, 2);
    options.background_thread = false;
    strcpy(options.black_box, "box");
    atomic_store(&black_box_wanted, true);
    now = os_clock_ms() + HOUR_MS;
    black_box_counters = count;
    CHECK(black_box_begin());
    box = atomic_load(&black_box);
    atomic_store(&profile_settings.lg_sample, 0);
    sampling_set(true);
    object = malloc(100);
    sampling_set(false);
    CHECK_GT(samples = count_samples(box), 0);
    look(); // and nobody else from now on
    written = box->counters_written;
    CHECK_GT(written, 0);
    of_a_handler();
    CHECK_EQ(box->counters_written, ++written);
    of_another_thread();
    CHECK_EQ(box->counters_written, ++written);
    CHECK(atomic_load(&black_box) == box && box->pid == (uint32_t)getpid());
    black_box_end();
    free(object);
    CHECK_EQ(system("rm -r \"$PWD\""), 0);
    return 0;
}
