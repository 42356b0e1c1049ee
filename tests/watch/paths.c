// Objects by each way there is to allocate, resize and free, replaced at random and freed but for some: `paths SEED`.  Of odd seeds with exact counters, too.  Prints of each site
// the objects that live and their usable bytes.  Bursts with pauses between them, so that what is done in time is done meanwhile.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <umem.h>
#include <unistd.h>

#include "../check.h"
#include "../support/child.h"

#define SITE __attribute__((noinline, noclone)) static
#define MORE __asm__ volatile("" ::: "memory")

enum { OBJECTS = 400, ROUNDS = 3000, BURST = 1000, PAUSE_US = 12000, KEPT = 3 };

void *_Znwm(size_t);
void _ZdlPv(void *);
void _ZdlPvm(void *, size_t);
void *_ZnwmSt11align_val_t(size_t, size_t);
void _ZdlPvmSt11align_val_t(void *, size_t, size_t);

static uint64_t state;
static unsigned explicit_arena, explicit_cache;

static uint64_t next(void) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du >> 16;
}

// As a server's values: most are small, most bytes are in large ones.
static size_t any_size(void) {
    uint64_t kind = next() % 100;

    return 1 + (kind < 50 ? 16 + next() % 200 : kind < 90 ? 200 + next() % 4000 : kind < 98 ? 16000 + next() % 100000 : 300000 + next() % 600000);
}

struct path {
    const char *site;
    void *(*make)(size_t size);
    void *(*resize)(void *object, size_t size); // NULL: none
    void (*drop)(void *object, size_t size);
};

static void drop(void *object, size_t size) { (void)size; free(object); }
static void *make_calloc(size_t size) { return calloc(1, size); }
static void *make_aligned(size_t size) { return aligned_alloc((size_t)16 << next() % 10, size); }
static void *make_posix(size_t size) { void *object = NULL; CHECK_EQ(posix_memalign(&object, (size_t)8 << next() % 12, size), 0); return object; }
static void *resize_realloc(void *object, size_t size) { return realloc(object, size); }
// By a little, up and down, as strings grow: in place where that can be.
static void *resize_little(void *object, size_t size) {
    size_t now = malloc_usable_size(object);
    return realloc(object, size % 2 ? now + now / 4 + 1 : now - now / 5);
}
static int any_flags(void) {
    const int flags[] = { 0, MALLOCX_ZERO, MALLOCX_LG_ALIGN(6), MALLOCX_LG_ALIGN(13), MALLOCX_TCACHE_NONE };
    return flags[next() % 5];
}
static void *make_mallocx(size_t size) { return mallocx(size, any_flags()); }
static void drop_dallocx(void *object, size_t size) { dallocx(object, size % 2 ? 0 : MALLOCX_TCACHE_NONE); }
static void *make_arena(size_t size) { return mallocx(size, MALLOCX_ARENA(explicit_arena) | (next() % 2 ? MALLOCX_TCACHE_NONE : 0)); }
static void *resize_arena(void *object, size_t size) { return rallocx(object, size, MALLOCX_ARENA(explicit_arena)); }
static void *make_cache(size_t size) { return mallocx(size, MALLOCX_TCACHE(explicit_cache)); }
static void *resize_cache(void *object, size_t size) { return rallocx(object, size, MALLOCX_TCACHE(explicit_cache)); }
static void drop_cache(void *object, size_t size) { sdallocx(object, size, MALLOCX_TCACHE(explicit_cache)); }
static void *resize_rallocx(void *object, size_t size) { return rallocx(object, size, any_flags()); }
static void *resize_xallocx(void *object, size_t size) { xallocx(object, size, next() % 2 ? size / 2 : 0, 0); return object; }
static void *make_plain(size_t size) { return mallocx(size, 0); }
static void drop_sized(void *object, size_t size) { sdallocx(object, size, 0); }
static void *make_umem(size_t size) { return umem_alloc(size, UMEM_DEFAULT); }
static void drop_umem(void *object, size_t size) { umem_free(object, size); }
static void *make_new(size_t size) { return _Znwm(size); }
static void drop_new(void *object, size_t size) { if (size % 2) _ZdlPv(object); else _ZdlPvm(object, size); }
static void *make_new_aligned(size_t size) { return _ZnwmSt11align_val_t(size, 128); }
static void drop_new_aligned(void *object, size_t size) { _ZdlPvmSt11align_val_t(object, size, 128); }

// What one thread allocates another frees.
static void *free_in_thread(void *object) { free(object); return NULL; }
static void drop_elsewhere(void *object, size_t size) {
    pthread_t thread;

    if (size % 32 != 0) {
        free(object);
        return;
    }
    CHECK_EQ(pthread_create(&thread, NULL, free_in_thread, object), 0);
    pthread_join(thread, NULL);
}

// A child frees all of it, which is nothing to us.
static void child(void **objects) {
    pid_t pid = fork();

    if (pid == 0) {
        for (int i = 0; i < OBJECTS; i++)
            free(objects[i]);
        _exit(0);
    }
    expect_child(pid);
}

static void churn(const struct path *path) {
    void *objects[OBJECTS] = { NULL };
    size_t sizes[OBJECTS], live = 0, bytes = 0;

    for (int i = 0; i < ROUNDS; i++) {
        size_t at = next() % OBJECTS, size = any_size();

        if (i % BURST == BURST - 1) {
            usleep(PAUSE_US);
            if (path->drop == drop_elsewhere)
                child(objects);
        }
        if (objects[at] != NULL && path->resize != NULL && next() % 4 != 0)
            objects[at] = path->resize(objects[at], size);
        else {
            if (objects[at] != NULL)
                path->drop(objects[at], sizes[at]);
            objects[at] = path->make(size);
        }
        CHECK(objects[at] != NULL);
        sizes[at] = size;
    }
    for (int i = 0; i < OBJECTS; i++)
        if (objects[i] != NULL && i % KEPT != 0)
            path->drop(objects[i], sizes[i]);
        else if (objects[i] != NULL) {
            live++;
            bytes += malloc_usable_size(objects[i]);
        }
    printf("%s %zu %zu\n", path->site, live, bytes);
}

#define PATH(name, make, resize, drop) \
    SITE void site_##name(void) { churn(&(struct path){ "site_" #name, make, resize, drop }); MORE; }
PATH(malloc, malloc, NULL, drop)
PATH(calloc, make_calloc, NULL, drop)
PATH(aligned, make_aligned, resize_realloc, drop)
PATH(posix, make_posix, NULL, drop)
PATH(realloc, malloc, resize_realloc, drop)
PATH(little, malloc, resize_little, drop)
PATH(mallocx, make_mallocx, NULL, drop_dallocx)
PATH(arena, make_arena, resize_arena, drop_dallocx)
PATH(cache, make_cache, resize_cache, drop_cache)
PATH(rallocx, make_mallocx, resize_rallocx, drop)
PATH(xallocx, malloc, resize_xallocx, drop)
PATH(sized, make_plain, NULL, drop_sized)
PATH(umem, make_umem, NULL, drop_umem)
PATH(new, make_new, NULL, drop_new)
PATH(new_aligned, make_new_aligned, NULL, drop_new_aligned)
PATH(elsewhere, malloc, resize_realloc, drop_elsewhere)

int main(int argc, char **argv) {
    size_t length = sizeof explicit_arena;

    state = (uint64_t)(argc > 1 ? atol(argv[1]) : 1) * 0x9e3779b97f4a7c15u | 1;
    if (argc > 1 && atol(argv[1]) % 2 != 0) {
        uint64_t *counter;
        size_t size = sizeof counter;
        CHECK_EQ(mallctl("thread.allocatedp", &counter, &size, NULL, 0), 0);
    }
    CHECK_EQ(mallctl("arenas.create", &explicit_arena, &length, NULL, 0), 0);
    CHECK_EQ(mallctl("tcache.create", &explicit_cache, &length, NULL, 0), 0);
    site_malloc(), site_calloc(), site_aligned(), site_posix(), site_realloc(), site_little(), site_mallocx(), site_arena(), site_cache();
    site_rallocx(), site_xallocx(), site_sized(), site_umem(), site_new(), site_new_aligned(), site_elsewhere();
    return 0;
}
