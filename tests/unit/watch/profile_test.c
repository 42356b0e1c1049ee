// Points on the line of bytes, tallies by key, resets, and the number of samples against its expectation.
// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

#include "unit.h"
#include "watch/profile.h"
#include "watch/sampled_threads.h"

static struct profile_thread self;
static int64_t until[PROFILE_LINES];
static uint32_t line_bytes[PROFILE_LINES];

// Sampled among `count` allocations of `bytes` on that line, which must be within 6 standard deviations of the expectation.
static size_t sample(unsigned line, size_t bytes, size_t count) {
    double p = -expm1(-(double)bytes / (double)(1ul << profile_settings.lg_sample));
    size_t hits = 0;

    for (size_t i = 0; i < count; i++)
        hits += profile_is_hit(&self, until, line, bytes);
    double off = ((double)hits - (double)count * p) / sqrt((double)count * p * (1 - p) + 1e-9);
    CHECK_SAY(fabs(off) < 6, "%zu of %zu allocations of %zu bytes: %.1f standard deviations off", hits, count, bytes, off);
    return hits;
}

static void set_rate(unsigned lg_sample) {
    profile_settings.lg_sample = (uint8_t)lg_sample;
    profile_redraw(&self, until);
}

static void points_fall_as_they_should(void) {
    for (unsigned line = 1; line < PROFILE_LINES; line++)
        line_bytes[line] = 48 * line;
    profile_settings.line_bytes = line_bytes;
    set_rate(12);
    sample(0, 8, 4000000);
    sample(0, 64, 1000000);
    sample(0, 5000, 100000);
    sample(0, 1 << 20, 1000);
    sample(1, 48, 1000000);
    sample(21, 48 * 21, 1000000);
    set_rate(19);
    sample(0, 1 << 20, 100000);
    sample(21, 48 * 21, 4000000);
    for (int i = 0; i < 10000; i++) { // to draw anew is no hit, and makes none
        set_rate(40);
        CHECK_SAY(!profile_is_hit(&self, until, i % 2 == 0 ? 0 : 3, 1), "hit at the %dth time", i);
    }
    set_rate(19);
    sample(5, 48 * 5, 100000);
    self.lg_sample = 30; // a point of the rate before, that was not told in time
    self.drawn = false;
    until[2] = 0;
    CHECK(profile_is_hit(&self, until, 2, 96));
    CHECK_EQ(self.drawn_with, 30);
    set_rate(0);
    CHECK_EQ(sample(0, 8, 1000), 1000);
    CHECK_EQ(sample(1, 48, 1000), 1000);
}

// Further than there are bytes is nowhere, not at the next allocation.
static void points_may_be_far(void) {
    profile_settings.lg_sample = PROFILE_LG_MOST;
    for (int i = 0; i < 1000; i++) {
        struct profile_thread fresh = { 0 };
        int64_t to[PROFILE_LINES];

        profile_thread_active(&fresh, to, true);
        for (unsigned line = 0; line < PROFILE_LINES; line++)
            CHECK(to[line] >= 0);
    }
    profile_settings.lg_sample = 0;
}

static void tallies_are_by_key(void) {
    uint32_t first = 0, again = 0, other;

    for (volatile int i = 0; i < 2; i++) // one call: one stack
        again = first, first = profile_record(&self, 48, 0);
    CHECK_NE(first, 0);
    CHECK_EQ(first, again);
    CHECK_EQ(tally_of(first)->live, 2);
    other = profile_record(&self, 64, 0);
    CHECK_NE(other, first);
    tally_freed(first);
    CHECK_EQ(tally_of(first)->live, 1);
    CHECK_EQ(tally_of(first)->total, 2);
    CHECK_GT(tally_of(first)->stack->depth, 1);
}

static void estimates_are_weighted(void) {
    struct tally tally = { .size = 64, .lg_sample = 19, .live = 3, .total = 7 };
    struct estimate sum = { 0 };

    estimate_add(&sum, &tally);
    CHECK(fabs(sum.live_objects / (3 / -expm1(-64.0 / (1 << 19))) - 1) < 1e-6);
    CHECK(fabs(sum.total_bytes / sum.total_objects - 64) < 1e-6);
}

// A tally with a live object survives the reset unseen; the next reset finds it without and uses it again.
static void reset_forgets(void) {
    uint32_t held = profile_record(&self, 96, 0), after;
    struct estimate sum = { 0 };

    profile_reset(19);
    estimate_add(&sum, tally_of(held));
    CHECK(sum.total_objects == 0);
    CHECK_EQ(profile_settings.lg_sample, 19);
    after = profile_record(&self, 96, 0);
    CHECK_NE(after, held);
    tally_freed(held);
    tally_freed(after);
    uint32_t known = tallies_last();
    profile_reset(19);
    for (uint32_t i = 0; i < known; i++)
        CHECK_NE(profile_record(&self, 1024 + 16 * i, 1), 0);
    CHECK_LE(tallies_last(), known + 3); // the retired ones of the test before live for ever
}

static _Atomic bool stop;

// At one place, so that its latest tallies serve; what it holds it frees.
static void *samples_and_frees(void *argument) {
    struct profile_thread own = { 0 };
    uint32_t held[8] = { 0 };
    (void)argument;

    for (unsigned turn = 0; !stop; turn++) {
        uint32_t *at = &held[turn % 8];

        if (*at != 0)
            tally_freed(*at);
        *at = turn % 3 == 0 ? 0 : profile_record(&own, 16 + turn % 5 * 16, 0);
        CHECK(*at == 0 || (tally_of(*at)->size == 16 + turn % 5 * 16 && tally_of(*at)->thread == own.thread));
    }
    for (int i = 0; i < 8; i++)
        if (held[i] != 0)
            tally_freed(held[i]);
    profile_thread_end(&own);
    return NULL;
}

// Whatever a reset comes in between: in the end none lives, but those that were held before.
static void counts_survive_resets(void) {
    pthread_t threads[2];
    uint64_t before = 0, after = 0;

    profile_reset(19);
    for (uint32_t number = 1; number <= tallies_last(); number++)
        before += tally_of(number)->live;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, samples_and_frees, NULL);
    for (int i = 0; i < 20000; i++)
        profile_reset(19);
    stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t number = 1; number <= tallies_last(); number++)
        after += tally_of(number)->live;
    CHECK_EQ(before, after);
}

static void names_are_cut(void) {
    profile_name(&self, "a name that is much longer than there is room for in the table");
    CHECK_EQ(strlen(profile_name_of(&self)), THREAD_NAME_BYTES - 1);
}

static void names_are_one_line(void) {
    struct profile_thread fresh = {0};

    prctl(PR_SET_NAME, "a\n@ 0x1\tb");
    profile_settings.system_thread_names = true;
    profile_name(&fresh, NULL);
    CHECK_EQ(strcmp(profile_name_of(&fresh), "a?@ 0x1?b"), 0);
}

int main(void) {
    profile_settings.active = true;
    points_fall_as_they_should();
    points_may_be_far();
    profile_settings.active = false; // from here on what the tests record is all there is: not what pthread_create allocates and keeps
    tallies_are_by_key();
    estimates_are_weighted();
    reset_forgets();
    counts_survive_resets();
    names_are_cut();
    names_are_one_line();
    return 0;
}
