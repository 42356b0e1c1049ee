// Tests quantum caches: slabs as the paper says, nothing refused while there is a place, one owner for each integer.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>

#include "../check.h"
#include "../support/child.h"

#define AT(integer) ((void *)(uintptr_t)(integer))
enum { PAGE = 4096 };

static size_t first_import;

static void *note_import(vmag_vmem_t *source, size_t size, int flags) {
    if (first_import == 0)
        first_import = size;
    return vmag_vmem_alloc(source, size, flags);
}

static vmag_vmem_t *space(void) {
    return vmag_vmem_create("space", AT(1 << 20), (size_t)1 << 30, 1, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
}

static void count_caches(void *found, vmag_cache_t *cache) {
    *(int *)found += !strncmp(vmag_cache_name(cache), "foo_", 4);
}

// 2001, §4.4.4: quantum of a page, qcache_max of five: a request for three pages takes a slab of 16, which holds five of them.
static void the_papers_example(void) {
    vmag_vmem_t *source = space();
    vmag_vmem_t *foo = vmag_vmem_create("foo", NULL, 0, PAGE, note_import, vmag_vmem_free, source, 5 * PAGE, VMAG_VM_SLEEP);
    struct vmag_vmem_stats stats;
    void *got[6];
    int caches = 0;

    first_import = 0;
    vmag_cache_each(count_caches, &caches);
    CHECK_EQ(caches, 5);
    for (int i = 0; i < 5; i++)
        CHECK((uintptr_t)(got[i] = vmag_vmem_alloc(foo, 3 * PAGE, VMAG_VM_SLEEP)) % PAGE == 0);
    vmag_vmem_stats(foo, &stats, sizeof stats);
    CHECK(first_import == 16 * PAGE && stats.in_use_bytes == 16 * PAGE && stats.segments == 1 && stats.qcache_max == 5 * PAGE);
    got[5] = vmag_vmem_alloc(foo, 3 * PAGE, VMAG_VM_SLEEP);
    vmag_vmem_stats(foo, &stats, sizeof stats);
    CHECK_EQ(stats.segments, 2);
    void *large = vmag_vmem_alloc(foo, 6 * PAGE, VMAG_VM_SLEEP), *exact = vmag_vmem_xalloc(foo, 1, 0, 0, 0, NULL, NULL, 0);
    vmag_vmem_stats(foo, &stats, sizeof stats);
    CHECK_EQ(stats.segments, 4); // neither went through a cache
    vmag_vmem_free(foo, large, 6 * PAGE);
    vmag_vmem_xfree(foo, exact, 1);
    for (int i = 0; i < 6; i++)
        vmag_vmem_free(foo, got[i], 3 * PAGE);
    for (uint64_t i = 0; i < 100000; i++)
        vmag_vmem_free(foo, vmag_vmem_alloc(foo, PAGE + i % 4 * PAGE, VMAG_VM_SLEEP), PAGE + i % 4 * PAGE);
    vmag_vmem_stats(foo, &stats, sizeof stats);
    CHECK_LE(stats.allocs, 16); // a hundred thousand allocations, and so few of segments
    vmag_vmem_destroy(foo);
    CHECK_EQ(vmag_vmem_size(source, VMAG_VMEM_ALLOC), 0);
    vmag_vmem_destroy(source);
}

// The slab size for qcache_max of one to 16 quanta, and no more.
static void slab_sizes(void) {
    static const size_t want[] = {4, 8, 16, 16, 16, 32, 32, 32, 32, 32, 64, 64, 64, 64, 64, 64, 64, 64};
    vmag_vmem_t *source = space();

    for (size_t max = 1; max <= 18; max++) {
        vmag_vmem_t *foo = vmag_vmem_create("foo", NULL, 0, PAGE, note_import, vmag_vmem_free, source, max * PAGE, VMAG_VM_SLEEP);

        first_import = 0;
        vmag_vmem_free(foo, vmag_vmem_alloc(foo, PAGE, VMAG_VM_SLEEP), PAGE);
        CHECK_EQ(first_import, want[max - 1] * PAGE);
        vmag_vmem_destroy(foo);
    }
    vmag_vmem_destroy(source);
}

// An arena that no multiple of slabs fills: all of it can be had, and again in another size.
static void nothing_is_refused(void) {
    vmag_vmem_t *ids = vmag_vmem_create("ids", AT(1), 200, 1, NULL, NULL, NULL, 8, VMAG_VM_SLEEP);

    for (size_t round = 0; round < 64; round++) {
        size_t size = 1 + round * 3 % 8, count = 0;
        bool used[201] = {false};
        uintptr_t got[200];

        while ((got[count] = (uintptr_t)vmag_vmem_alloc(ids, size, VMAG_VM_NOSLEEP)) != 0) {
            for (uintptr_t i = got[count]; i < got[count] + size; i++) {
                CHECK(i >= 1 && i <= 200 && !used[i]);
                used[i] = true;
            }
            if (++count == 200)
                break;
        }
        CHECK_EQ(count, 3 * (64 / size) + 8 / size); // three slabs, and the rest past the cache
        errno = 0;
        CHECK(vmag_vmem_alloc(ids, 1 + round % 8, VMAG_VM_NOSLEEP) == NULL || size > 1);
        for (size_t i = 0; i < count; i++)
            vmag_vmem_free(ids, AT(got[(i + round) % count]), size);
    }
    vmag_vmem_destroy(ids);
}

// Threads share few integers; who finds none sleeps.
enum { THREADS = 6, INTEGERS = 70, TURNS = 4000 };
static _Atomic int owner[INTEGERS + 1];

static void own(uintptr_t start, size_t size, int by) {
    for (uintptr_t i = start; i < start + size; i++)
        CHECK(i >= 1 && i <= INTEGERS && atomic_fetch_add(&owner[i], by) == (by > 0 ? 0 : 1));
}

static void *take_turns(void *ids) {
    uintptr_t got[16];

    for (size_t i = 0; i < TURNS; i++) {
        size_t size = 1 + i % 4;

        got[0] = (uintptr_t)vmag_vmem_alloc(ids, size, VMAG_VM_SLEEP);
        own(got[0], size, 1);
        for (int more = 1; more < 16; more++)
            if ((got[more] = (uintptr_t)vmag_vmem_alloc(ids, 1, VMAG_VM_NOSLEEP)) != 0)
                own(got[more], 1, 1);
        for (int more = 1; more < 16; more++)
            if (got[more] != 0) {
                own(got[more], 1, -1);
                vmag_vmem_free(ids, AT(got[more]), 1);
            }
        own(got[0], size, -1);
        vmag_vmem_free(ids, AT(got[0]), size);
    }
    return NULL;
}

static void crowd(void) {
    vmag_vmem_t *ids = vmag_vmem_create("crowd", AT(1), INTEGERS, 1, NULL, NULL, NULL, 4, VMAG_VM_SLEEP);
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, take_turns, ids), 0);
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            void *one = vmag_vmem_alloc(ids, 2, VMAG_VM_NOSLEEP);

            if (one != NULL)
                vmag_vmem_free(ids, one, 2);
            _exit(0);
        }
        expect_child(pid);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    vmag_vmem_destroy(ids);
}

// A sleeper gets what another thread frees, although that thread would keep it in a magazine.
static void *sleep_for_one(void *ids) {
    return vmag_vmem_alloc(ids, 1, VMAG_VM_SLEEP);
}

static void sleeper_is_served(void) {
    vmag_vmem_t *ids = vmag_vmem_create("served", AT(1), 64, 1, NULL, NULL, NULL, 4, VMAG_VM_SLEEP);
    struct vmag_vmem_stats stats;
    uintptr_t got[64];
    pthread_t thread;
    void *served;

    for (int i = 0; i < 64; i++)
        CHECK((got[i] = (uintptr_t)vmag_vmem_alloc(ids, 1, VMAG_VM_SLEEP)) != 0);
    CHECK_EQ(pthread_create(&thread, NULL, sleep_for_one, ids), 0);
    do {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        vmag_vmem_stats(ids, &stats, sizeof stats);
    } while (stats.waits == 0);
    vmag_vmem_free(ids, AT(got[0]), 1);
    CHECK(pthread_join(thread, &served) == 0 && served == AT(got[0]));
    for (int i = 0; i < 64; i++)
        vmag_vmem_free(ids, AT(got[i]), 1);
    vmag_vmem_destroy(ids);
}

// Frees twice, or nothing: told when it comes to light, and at once.
static void misuse(int which) {
    int ends[2], status;
    char said[400] = {0};

    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        vmag_vmem_t *ids = vmag_vmem_create("misused", AT(1), 64, 1, NULL, NULL, NULL, 4, VMAG_VM_SLEEP);
        void *one = vmag_vmem_alloc(ids, 1, VMAG_VM_SLEEP);

        vmag_vmem_free(ids, which == 0 ? one : NULL, 1);
        vmag_vmem_free(ids, one, 1);
        vmag_vmem_destroy(ids);
        _exit(0);
    }
    close(ends[1]);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_GT(read(ends[0], said, sizeof said - 1), 0);
    close(ends[0]);
    CHECK_SAY(strstr(said, which == 0 ? "double free of an object of cache 'misused_1'" : "misused: not an integer of this arena") != NULL,
              "%d said: %s", which, said);
}

static size_t qcache_max_of(vmag_vmem_t *arena) {
    struct vmag_vmem_stats stats;

    vmag_vmem_stats(arena, &stats, sizeof stats);
    return stats.qcache_max;
}

static void serves(vmag_vmem_t *arena, size_t quantum) {
    void *one = vmag_vmem_alloc(arena, quantum, VMAG_VM_NOSLEEP), *two = vmag_vmem_alloc(arena, 2 * quantum, VMAG_VM_NOSLEEP);

    CHECK(one != NULL && two != NULL && one != two);
    vmag_vmem_free(arena, one, quantum);
    vmag_vmem_free(arena, two, 2 * quantum);
}

static _Atomic bool over;

static void serves_late_ones(void *unused, vmag_vmem_t *arena) {
    (void)unused;
    if (strcmp(vmag_vmem_name(arena), "late") == 0)
        serves(arena, 1);
}

static void *walks(void *unused) {
    while (!over)
        vmag_vmem_each(serves_late_ones, unused);
    return unused;
}

// An arena has no quantum caches, and serves all the same, when the process has no number left for them, or no slab is so large. Whoever finds it in a walk
// finds it so.
static void without_caches(void) {
    enum { ARENAS = 1600, EARLY = 1000, CACHES = 16 };
    pthread_t walker;
    static vmag_vmem_t *arenas[ARENAS];
    size_t huge = (size_t)1 << 52;
    vmag_vmem_t *wide = vmag_vmem_create("wide", AT(huge), 64 * huge, huge, NULL, NULL, NULL, SIZE_MAX, VMAG_VM_NOSLEEP);

    CHECK(wide != NULL && qcache_max_of(wide) == 0);
    serves(wide, huge);
    vmag_vmem_destroy(wide);
    errno = 0;
    for (int i = 0; i < ARENAS; i++) {
        if (i == EARLY)
            CHECK_EQ(pthread_create(&walker, NULL, walks, NULL), 0);
        arenas[i] = vmag_vmem_create(i < EARLY ? "early" : "late", AT(1), 1000, 1, NULL, NULL, NULL, CACHES, VMAG_VM_SLEEP);
        CHECK(arenas[i] != NULL && errno == 0);
    }
    over = true;
    CHECK_EQ(pthread_join(walker, NULL), 0);
    CHECK(qcache_max_of(arenas[0]) == CACHES && qcache_max_of(arenas[ARENAS - 1]) == 0);
    serves(arenas[ARENAS - 1], 1);
    for (int i = 0; i < ARENAS; i++)
        vmag_vmem_destroy(arenas[i]);
    wide = vmag_vmem_create("afterwards", AT(1), 1000, 1, NULL, NULL, NULL, CACHES, VMAG_VM_SLEEP);
    CHECK_EQ(qcache_max_of(wide), CACHES);
    vmag_vmem_destroy(wide);
}

int main(void) {
    the_papers_example();
    slab_sizes();
    nothing_is_refused();
    crowd();
    sleeper_is_served();
    without_caches();
    misuse(0);
    misuse(1);
    return 0;
}
