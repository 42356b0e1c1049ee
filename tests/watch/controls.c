// The profiler through jemalloc's controls: on, off, named, dumped and forgotten while the program runs.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <sys/stat.h>

#include "../check.h"

enum { OBJECTS = 2000, BYTES = 20000 };

static char path[512];

static bool get(const char *name) {
    bool value;
    size_t size = sizeof value;
    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), 0);
    return value;
}

static void set(const char *name, bool value) {
    CHECK_EQ(mallctl(name, NULL, NULL, &value, sizeof value), 0);
}

// The estimate of live bytes in the dump, as the program asked for it.
static double dumped(void) {
    const char *name = path;
    unsigned long objects, bytes;
    char line[256];

    CHECK_EQ(mallctl("prof.dump", NULL, NULL, &name, sizeof name), 0);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
    CHECK(strcmp(line, "heap_v2/1\n") == 0);
    CHECK(fscanf(file, " t*: %lu: %lu [", &objects, &bytes) == 2);
    fclose(file);
    return (double)bytes / ((double)OBJECTS * BYTES);
}

static void *allocate(void *kept) {
    for (int i = 0; i < OBJECTS; i++)
        ((void **)kept)[i] = malloc(BYTES);
    return kept;
}

static void release(void **kept) {
    for (int i = 0; i < OBJECTS; i++)
        free(kept[i]);
}

static void *silent(void *kept) {
    CHECK(get("thread.prof.active"));
    set("thread.prof.active", false);
    CHECK(!get("thread.prof.active"));
    return allocate(kept);
}

// A dump of that name is there; it is taken away.
static void unlink_dump(const char *folder, const char *prefix, int number, const char *kind) {
    char name[512];
    snprintf(name, sizeof name, "%s/%s.%d.%d.%s.heap", folder, prefix, (int)getpid(), number, kind);
    CHECK_SAY(unlink(name) == 0, "no dump %s", name);
}

static void dump_by_prefix(const char *folder) {
    char prefix[256];
    const char *name = prefix;

    snprintf(prefix, sizeof prefix, "%s/p", folder);
    CHECK_EQ(mallctl("prof.prefix", NULL, NULL, &name, sizeof name), 0);
    CHECK_EQ(mallctl("prof.dump", NULL, NULL, NULL, 0), 0);
    unlink_dump(folder, "p", 0, "m0");
}

static int dump_to(const char *name) {
    return mallctl("prof.dump", NULL, NULL, &name, sizeof name);
}

static void check_holds(const char *name, const char *text) {
    char line[64] = "";
    FILE *file = fopen(name, "r");

    CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
    fclose(file);
    CHECK_SAY(strcmp(line, text) == 0, "%s holds %s", name, line);
}

static void put(const char *name, const char *text) {
    FILE *file = fopen(name, "w");

    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

// Paths of dumps may be foreseen by those who share the folder.
static void dumps_go_nowhere_else(const char *folder) {
    char kept[256], other[256], pipe[256], name[512];

    snprintf(kept, sizeof kept, "%s/kept", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    put(kept, "kept\n");
    CHECK_EQ(symlink(kept, other), 0);
    CHECK_EQ(dump_to(other), EFAULT);
    CHECK_EQ(unlink(other), 0);
    CHECK_EQ(symlink("/tmp/vmag-controls-nothing", other), 0);
    CHECK_EQ(dump_to(other), EFAULT);
    CHECK_EQ(unlink(other), 0);
    CHECK_EQ(link(kept, other), 0);
    CHECK_EQ(dump_to(other), EFAULT);
    CHECK_EQ(unlink(other), 0);
    CHECK_EQ(mkfifo(pipe, 0600), 0);
    CHECK_EQ(dump_to(pipe), EFAULT); // nobody reads it; to wait would be for ever
    CHECK_EQ(unlink(pipe), 0);
    if (geteuid() == 0) {
        CHECK_EQ(chown(kept, 4711, 4711), 0);
        CHECK_EQ(dump_to(kept), EFAULT);
    }
    check_holds(kept, "kept\n");

    // By the prefix: names that are taken are left out.
    snprintf(name, sizeof name, "%s/p.%d.1.m1.heap", folder, (int)getpid());
    CHECK_EQ(symlink(kept, name), 0);
    snprintf(name, sizeof name, "%s/p.%d.2.m1.heap", folder, (int)getpid());
    put(name, "kept\n");
    CHECK_EQ(dump_to(NULL), 0);
    check_holds(kept, "kept\n");
    check_holds(name, "kept\n");
    unlink_dump(folder, "p", 1, "m1");
    unlink_dump(folder, "p", 2, "m1");
    unlink_dump(folder, "p", 3, "m1");
    CHECK_EQ(unlink(kept), 0);
}

// What the program says outright: devices, a pipe with a reader, a file that is open already.
static void dumps_go_where_they_are_told(const char *folder) {
    char name[64], pipe[256], line[16] = "";
    FILE *file = tmpfile();
    int reader;

    CHECK_EQ(dump_to("/dev/null"), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", fileno(file));
    CHECK_EQ(dump_to(name), 0);
    CHECK(fgets(line, sizeof line, file) != NULL && strcmp(line, "heap_v2/1\n") == 0);
    fclose(file);
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    CHECK_EQ(mkfifo(pipe, 0600), 0);
    reader = open(pipe, O_RDONLY | O_NONBLOCK);
    CHECK(fcntl(reader, F_SETPIPE_SZ, 1 << 20) > 0);
    CHECK_EQ(dump_to(pipe), 0);
    CHECK_EQ(read(reader, line, 10), 10);
    CHECK(memcmp(line, "heap_v2/1\n", 10) == 0);
    close(reader);
    CHECK_EQ(unlink(pipe), 0);
}

// Samples of an explicit arena go with all that is in it.
static void reset_frees_samples(void **kept) {
    unsigned own, arena;
    size_t size = sizeof arena;
    char name[32];

    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    CHECK_EQ(mallctl("thread.arena", &own, &size, &arena, sizeof arena), 0);
    allocate(kept);
    CHECK(dumped() > 0.9);
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &own, sizeof own), 0);
    snprintf(name, sizeof name, "arena.%u.reset", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
    CHECK(dumped() < 0.02);
}

// The points of the rate before may be far.
static void rates_change_at_once(void **kept) {
    size_t coarse = 40, rate = 14;

    CHECK_EQ(mallctl("prof.reset", NULL, NULL, &coarse, sizeof coarse), 0);
    set("prof.active", true);
    allocate(kept);
    CHECK(dumped() < 0.02);
    release(kept);
    CHECK_EQ(mallctl("prof.reset", NULL, NULL, &rate, sizeof rate), 0);
    allocate(kept);
    CHECK_SAY(dumped() > 0.9 && dumped() < 1.1, "%f", dumped());
    release(kept);
    set("prof.active", false);
}

int main(void) {
    char folder[] = "/tmp/vmag-controls-XXXXXX";
    static void *first[OBJECTS], *second[OBJECTS];
    size_t rate = 14, size = sizeof rate;
    const char *name;
    pthread_t thread;

    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/controls.heap", folder);
    CHECK(get("config.prof"));
    CHECK(!get("prof.active"));
    allocate(first);
    CHECK_EQ(mallctl("prof.reset", NULL, NULL, &rate, sizeof rate), 0);
    CHECK_EQ(mallctl("prof.lg_sample", &rate, &size, NULL, 0), 0);
    CHECK_EQ(rate, 14); // the estimates are off by 1.5 %, so chance never fails this test

    rates_change_at_once(second);
    set("prof.active", true);
    CHECK(get("prof.active"));
    CHECK(dumped() < 0.02); // what was there before is not known
    allocate(second);
    CHECK_SAY(dumped() > 0.9 && dumped() < 1.1, "%f", dumped());
    set("prof.active", false);
    release(first);
    allocate(first);
    CHECK(dumped() < 1.1); // not sampled any more
    release(second);
    CHECK(dumped() < 0.02); // but known

    set("prof.active", true);
    pthread_create(&thread, NULL, silent, second);
    pthread_join(thread, NULL);
    CHECK(dumped() < 0.02);
    release(second);
    allocate(second);
    CHECK(dumped() > 0.9);
    CHECK_EQ(mallctl("prof.reset", NULL, NULL, NULL, 0), 0);
    CHECK(dumped() < 0.02);
    release(second);
    CHECK(dumped() < 0.02); // and the frees of what was forgotten do not count
    reset_frees_samples(second);

    name = "a worker";
    CHECK_EQ(mallctl("thread.prof.name", NULL, NULL, (void *)&name, sizeof name), 0);
    name = NULL;
    size = sizeof name;
    CHECK_EQ(mallctl("thread.prof.name", (void *)&name, &size, NULL, 0), 0);
    CHECK(strcmp(name, "a worker") == 0);
    name = "a\nworker";
    CHECK_EQ(mallctl("thread.prof.name", NULL, NULL, (void *)&name, sizeof name), EFAULT);
    name = "/nowhere/at/all";
    CHECK_EQ(mallctl("prof.dump", NULL, NULL, (void *)&name, sizeof name), EFAULT);
    release(first);

    uint64_t interval;
    size = sizeof interval;
    CHECK_EQ(mallctl("prof.interval", &interval, &size, NULL, 0), 0);
    CHECK_EQ(interval, 0);
    dump_by_prefix(folder);
    dumps_go_nowhere_else(folder);
    dumps_go_where_they_are_told(folder);
    set("prof.thread_active_init", false);
    CHECK(!get("prof.thread_active_init"));
    set("prof.gdump", true);
    set("prof.active", true);
    free(malloc(512ul << 20)); // more than there ever was
    unlink_dump(folder, "p", 4, "u0");
    unlink(path);
    CHECK_EQ(rmdir(folder), 0);
    return 0;
}
