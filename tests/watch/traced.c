// A program that traces itself: `traced PREFIX`.  Objects of malloc, of an object cache and of a resource arena, with stacks,
// then again without; what happens while nothing is traced must not be in the files. In the end the same stacks three times more, the last time by a child.
// `traced thread`: frees all that it allocates, and has the library's own thread come and go. `traced names`: caches of which some are gone, and arenas.
// `traced libraries FILE…`: opens these, and calls `allocate` in each.
// SPDX-License-Identifier: BSD-2-Clause
#include <dlfcn.h>
#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "../check.h"

#define SITE __attribute__((noinline, noclone)) static

enum { OBJECTS = 3000, KEPT = 1000, LARGE = 100000, LARGES = 40, THREADS = 8, STACK = 16 << 20, CACHES = 2500 };

static void *objects[OBJECTS];

static int set(const char *name, bool value) {
    return mallctl(name, NULL, NULL, &value, sizeof value);
}

SITE void site_malloc(void) {
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = malloc(200);
    for (int i = KEPT; i < OBJECTS; i++)
        free(objects[i]);
    __asm__ volatile("");
}

SITE void site_cache(vmag_cache_t *cache) {
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = vmag_cache_alloc(cache, 0);
    for (int i = KEPT; i < OBJECTS; i++)
        vmag_cache_free(cache, objects[i]);
    __asm__ volatile("");
}

SITE void site_arena(vmag_vmem_t *arena) {
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = vmag_vmem_alloc(arena, 3, VMAG_VM_NOSLEEP);
    for (int i = KEPT; i < OBJECTS; i++)
        vmag_vmem_free(arena, objects[i], 3);
    __asm__ volatile("");
}

// So much at once that the background thread is started.
SITE void site_freed(void) {
    for (int i = 0; i < LARGES; i++)
        memset(objects[i] = malloc(LARGE), 1, LARGE);
    for (int i = 0; i < LARGES; i++)
        free(objects[i]);
    __asm__ volatile("");
}

// Caches with long names, of which each holds ten objects; and one that is gone before, whose number another cache has, of no memory, next.
static int names(void) {
    vmag_vmem_t *arena = vmag_vmem_create("places", (void *)1, 100000, 1, NULL, NULL, NULL, 8, VMAG_VM_NOSLEEP);
    vmag_cache_t *first = vmag_cache_create("gone_first", 4096, 0, NULL, NULL, NULL, NULL, NULL, 0);

    for (int i = 0; i < OBJECTS; i++)
        objects[i] = vmag_cache_alloc(first, 0);
    for (int i = 0; i < OBJECTS; i++)
        vmag_cache_free(first, objects[i]);
    vmag_cache_destroy(first);
    vmag_vmem_t *second = vmag_vmem_create("gone_arena", (void *)1, 100000, 1, NULL, NULL, NULL, 8, VMAG_VM_NOSLEEP);
    site_arena(second);
    for (int i = 0; i < KEPT; i++)
        vmag_vmem_free(second, objects[i], 3);
    vmag_vmem_destroy(second);
    site_arena(arena);
    for (int i = 0; i < CACHES; i++) {
        char name[64];
        vmag_cache_t *cache;

        sprintf(name, "connection_state_of_worker_%d", i);
        cache = vmag_cache_create(name, 256, 0, NULL, NULL, NULL, NULL, NULL, 0);
        CHECK(cache != NULL);
        for (int k = 0; k < 10; k++)
            CHECK(vmag_cache_alloc(cache, 0) != NULL);
    }
    return 0;
}

static int libraries(char **files) {
    for (; *files != NULL; files++) {
        void *library = dlopen(*files, RTLD_NOW | RTLD_LOCAL);
        void (*allocate)(void);

        CHECK_SAY(library != NULL, "%s", dlerror());
        *(void **)&allocate = dlsym(library, "allocate");
        allocate();
    }
    return 0;
}

static pthread_barrier_t barrier;

static void *meet(void *unused) {
    pthread_barrier_wait(&barrier);
    return unused;
}

// It ends, and glibc, which keeps 40 MiB of stacks, frees what it had of the oldest.
static int come_and_go(void) {
    pthread_t threads[THREADS];
    pthread_attr_t attributes;

    site_freed();
    CHECK_EQ(set("background_thread", false), 0);
    usleep(100000);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], &attributes, meet, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(set("background_thread", true), 0);
    site_freed();
    return 0;
}

int main(int argc, char **argv) {
    const char *prefix = argv[1];
    vmag_cache_t *cache = vmag_cache_create("frobs", 96, 0, NULL, NULL, NULL, NULL, NULL, 0);
    vmag_vmem_t *ids = vmag_vmem_create("ids", (void *)1, 100000, 1, NULL, NULL, NULL, 0, VMAG_VM_NOSLEEP);
    uint64_t bytes = 1 << 20;
    int status;

    if (argc == 2 && strcmp(prefix, "thread") == 0)
        return come_and_go();
    if (argc == 2 && strcmp(prefix, "names") == 0)
        return names();
    if (argc > 2 && strcmp(prefix, "libraries") == 0)
        return libraries(argv + 2);
    CHECK(argc == 2 && cache != NULL && ids != NULL);
    CHECK_EQ(mallctl("trace.prefix", NULL, NULL, &prefix, sizeof prefix), 0);
    CHECK_EQ(mallctl("trace.bytes", NULL, NULL, &bytes, sizeof bytes), 0);
    CHECK_EQ(set("trace.stacks", true), 0);
    vmag_cache_free(cache, vmag_cache_alloc(cache, 0));
    CHECK_EQ(set("trace.active", true), 0);
    CHECK_EQ(set("trace.stacks", false), EFAULT); // not while one is on
    site_malloc();
    for (int i = 0; i < 300; i++) // the door of caches closes at the next miss
        objects[i] = vmag_cache_alloc(cache, 0);
    for (int i = 0; i < 300; i++)
        vmag_cache_free(cache, objects[i]);
    site_cache(cache);
    site_arena(ids);
    CHECK_EQ(set("trace.active", false), 0);
    site_malloc(); // untraced
    site_cache(cache);
    CHECK_EQ(set("trace.stacks", false), 0);
    CHECK_EQ(set("trace.active", true), 0);
    site_malloc();
    CHECK_EQ(set("trace.stacks", true), EFAULT);
    CHECK_EQ(set("trace.active", false), 0);
    CHECK_EQ(set("trace.stacks", true), 0);
    for (volatile int turn = 0; turn < 3; turn++) {
        pid_t child = 0;

        if (turn < 2)
            CHECK_EQ(set("trace.active", false) | set("trace.active", true), 0);
        else
            child = fork();
        if (child == 0)
            site_malloc();
        if (turn < 2)
            continue;
        CHECK_EQ(set("trace.active", false), 0);
        if (child == 0)
            _exit(0);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return 0;
}
