// Values of controls: the profiler.
// SPDX-License-Identifier: BSD-2-Clause
#include "values.h"

#include <errno.h>

static unsigned backtraces;
static char dumped[256];

static void counting_backtrace(void **frames, unsigned *count, unsigned most) {
    CHECK(most >= 1);
    backtraces++;
    frames[0] = (void *)(uintptr_t)counting_backtrace;
    *count = 1;
}

static void note_dump(const char *path) {
    strcpy(dumped, path);
}

void test_profiler(void) {
    uint64_t live[2], pair = sizeof live, other;
    void (*before)(void **, unsigned *, unsigned), (*own)(void **, unsigned *, unsigned) = counting_backtrace;
    void (*no_hook)(const char *) = NULL, (*hook)(const char *) = note_dump;
    size_t size = sizeof before;
    void *objects[50];

    saw("experimental.hooks.prof_backtrace");
    saw("experimental.hooks.prof_dump");
    CHECK_EQ(mallctl("experimental.hooks.prof_backtrace", &before, &size, &own, sizeof own), 0);
    CHECK(before != NULL && before != own);
    CHECK_EQ(mallctl("experimental.hooks.prof_backtrace", NULL, NULL, &no_hook, sizeof no_hook), EINVAL);
    saw("prof.reset");
    saw("prof.lg_sample");
    SET_OK("prof.reset", size_t, 0); // every allocation
    CHECK_EQ(get("prof.lg_sample"), 0);
    saw("prof.active");
    CHECK_EQ(get("prof.active"), 0);
    SET_OK("prof.active", bool, true);
    CHECK_EQ(get("prof.active"), 1);
    saw("prof.stats.bins.<>.live");
    saw("prof.stats.bins.<>.accum");
    saw("prof.stats.lextents.<>.live");
    saw("prof.stats.lextents.<>.accum");
    for (int i = 0; i < 50; i++)
        objects[i] = malloc(i % 2 ? SMALL : LARGE);
    CHECK(backtraces >= 50);
    for (int large = 0; large < 2; large++) {
        const char *name = large ? "prof.stats.lextents.30.live" : "prof.stats.bins.17.live";

        CHECK_EQ(mallctl(name, live, &pair, NULL, 0), 0);
        CHECK_EQ(live[1], 25);
        CHECK_EQ(live[0], (uint64_t)25 * (large ? LARGE : SMALL));
    }
    for (int i = 0; i < 50; i++)
        free(objects[i]);
    CHECK_EQ(mallctl("prof.stats.bins.17.live", live, &pair, NULL, 0), 0);
    CHECK_EQ(live[1], 0);
    CHECK_EQ(mallctl("prof.stats.bins.17.accum", live, &pair, NULL, 0), 0);
    CHECK_EQ(live[1], 25);
    saw("thread.prof.active");
    CHECK_EQ(get("thread.prof.active"), 1);
    SET_OK("thread.prof.active", bool, false);
    CHECK_EQ(get("thread.prof.active"), 0);
    other = backtraces;
    free(malloc(SMALL));
    CHECK_EQ(backtraces, other);
    SET_OK("thread.prof.active", bool, true);
    saw("thread.prof.name");
    SET_OK("thread.prof.name", const char *, "a name");
    CHECK_EQ(strcmp(text("thread.prof.name"), "a name"), 0);
    CHECK_EQ(SET("thread.prof.name", const char *, "a\nname"), EFAULT);
    CHECK_EQ(SET("thread.prof.name", const char *, "n\303\244me"), EFAULT); // on any processor
    saw("prof.thread_active_init");
    SET_OK("prof.thread_active_init", bool, false);
    CHECK_EQ(get("prof.thread_active_init"), 0);
    saw("prof.gdump");
    SET_OK("prof.gdump", bool, true);
    CHECK_EQ(get("prof.gdump"), 1);
    SET_OK("prof.gdump", bool, false);
    saw("prof.interval");
    CHECK_EQ(get("prof.interval"), 0);
    saw("prof.dump");
    saw("prof.prefix");
    CHECK_EQ(mallctl("experimental.hooks.prof_dump", NULL, NULL, &hook, sizeof hook), 0);
    SET_OK("prof.prefix", const char *, "");
    CHECK_EQ(mallctl("prof.dump", NULL, NULL, NULL, 0), EFAULT); // no name
    SET_OK("prof.prefix", const char *, "./ctl_values");
    ACT("prof.dump");
    CHECK_EQ(strncmp(dumped, "./ctl_values.", 13), 0);
    CHECK_EQ(unlink(dumped), 0);
    CHECK_EQ(SET("prof.dump", const char *, "/no/such/folder/profile"), EFAULT);
    CHECK_EQ(mallctl("experimental.hooks.prof_dump", NULL, NULL, &no_hook, sizeof no_hook), 0);
    SET_OK("prof.active", bool, false);
    CHECK_EQ(mallctl("experimental.hooks.prof_backtrace", NULL, NULL, &before, sizeof before), 0);
}
