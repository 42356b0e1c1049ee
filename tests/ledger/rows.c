// vmag_ledger: its rows sum to what the kernel calls resident, and each moves by what the program does to it.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"
#include "../support/family.h"
#include "../support/resident.h"
#include "jemalloc/jemalloc.h"
#include "vmag/cache.h"
#include "vmag/ledger.h"

#include <pthread.h>
#include <sys/mman.h>

enum { MEBIBYTE = 1 << 20, SLACK = 256 * 1024 };
#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

static size_t sum(const struct vmag_ledger *ledger) {
    return ledger->live + ledger->rounding + ledger->cached + ledger->holes + ledger->slab_ends + ledger->caches + ledger->dirty +
           ledger->magazines + ledger->base + ledger->page_map + ledger->programs + ledger->files + ledger->shared +
           ledger->stacks + ledger->brk + ledger->anonymous + ledger->kernel;
}

static struct vmag_ledger take(void) {
    struct vmag_ledger ledger;
    CHECK_EQ(vmag_ledger(&ledger, sizeof ledger), 0);
    CHECK_EQ(sum(&ledger), ledger.resident);
    CHECK_LE(ledger.heap_pss, ledger.proportional);
    return ledger;
}

#define CHECK_MOVED(before, after, row, bytes)                                                                \
    CHECK_SAY((long)(after).row - (long)(before).row > (long)(bytes) - SLACK &&                               \
                  (long)(after).row - (long)(before).row < (long)(bytes) + SLACK,                             \
              #row ": %zu, then %zu; expected a move of %ld", (before).row, (after).row, (long)(bytes))

// The kernel's own sum, within the pages that taking it touches.
static void check_against_kernel(void) {
    struct vmag_ledger ledger = take();
    long kernel = resident_bytes();
    CHECK_SAY(labs(kernel - (long)ledger.resident) < SLACK, "kernel %ld, ledger %zu", kernel, ledger.resident);
}

enum { SIZE = 1000, ROUNDED = 1024, OBJECTS = 32 * MEBIBYTE / ROUNDED };
static void *objects[OBJECTS];

static void check_small(void) {
    struct vmag_ledger before = take();
    for (int i = 0; i < OBJECTS; i++)
        memset(objects[i] = malloc(SIZE), 1, SIZE);
    struct vmag_ledger held = take();
    CHECK_SAY(held.live + held.rounding - before.live - before.rounding > 32 * MEBIBYTE - SLACK &&
                  held.live + held.rounding - before.live - before.rounding < 32 * MEBIBYTE + SLACK,
              "%zu live, then %zu", before.live + before.rounding, held.live + held.rounding);
    CHECK_MOVED(before, held, rounding, 32 * MEBIBYTE / ROUNDED * 64); // class below: 896
    CHECK_GT(held.slab_ends + held.base + held.page_map, 0);

    for (int i = 0; i < OBJECTS; i += 2)
        free(objects[i]);
    struct vmag_ledger half = take();
    size_t freed = half.holes + half.cached - held.holes - held.cached;
    CHECK_SAY(freed > 16 * MEBIBYTE - SLACK && freed < 16 * MEBIBYTE + SLACK, "%zu freed", freed);
    malloc_trim(0);
    CHECK_MOVED(held, take(), holes, 16 * MEBIBYTE);

    for (int i = 1; i < OBJECTS; i += 2)
        free(objects[i]);
    malloc_trim(0);
    CHECK_MOVED(before, take(), live, 0);
}

// Only what was touched is resident; what was freed is dirty until it is given back.
static void check_large(void) {
    struct vmag_ledger before = take();
    char *block = malloc(32 * MEBIBYTE);
    memset(block, 1, 16 * MEBIBYTE);
    struct vmag_ledger held = take();
    CHECK_MOVED(before, held, live, 16 * MEBIBYTE);
    free(block);
    struct vmag_ledger freed = take();
    CHECK_MOVED(held, freed, live, -16 * MEBIBYTE);
    CHECK_MOVED(held, freed, dirty, 16 * MEBIBYTE);
    malloc_trim(0);
    CHECK_MOVED(before, take(), dirty, -(long)before.dirty);
}

// Sizes are rounded up in a large object's last page alone, which here is not resident.
static void check_large_begun(void) {
    enum { COUNT = 1000 };
    static char *begun[COUNT];
    malloc_trim(0);
    struct vmag_ledger before = take();
    for (int i = 0; i < COUNT; i++)
        memset(begun[i] = malloc(100000), 1, 100);
    struct vmag_ledger held = take();
    CHECK_MOVED(before, held, live, COUNT * PAGE);
    CHECK_MOVED(before, held, rounding, 0);
    for (int i = 0; i < COUNT; i++)
        free(begun[i]);
    malloc_trim(0);
}

// Pages that were only read are the kernel's page of zeroes: not resident, whatever the page map says.
static void check_zero_pages(void) {
    malloc_trim(0);
    struct vmag_ledger before = take();
    volatile char *block = calloc(16, MEBIBYTE);
    for (size_t i = 0; i < 16 * MEBIBYTE; i += PAGE)
        CHECK_EQ(block[i], 0);
    CHECK_MOVED(before, take(), live, 0);
    for (size_t i = 0; i < 4 * MEBIBYTE; i += PAGE)
        block[i] = 1;
    CHECK_MOVED(before, take(), live, 4 * MEBIBYTE);
    free((void *)block);
    malloc_trim(0);
}

static void check_cached(void) {
    enum { FEW = 60 };
    void *few[FEW];
    struct vmag_ledger before = take();
    for (int i = 0; i < FEW; i++)
        memset(few[i] = malloc(16000), 1, 16000);
    struct vmag_ledger held = take();
    for (int i = 0; i < FEW; i++)
        free(few[i]);
    struct vmag_ledger freed = take();
    size_t back = held.live + held.rounding - freed.live - freed.rounding;
    CHECK_SAY(back > FEW * 15000u, "live %zu, %zu, %zu", before.live, held.live, freed.live);
    CHECK_GT(freed.cached + freed.dirty, held.cached + held.dirty + FEW * 15000u);
    malloc_trim(0);
    CHECK_LT(take().cached, MEBIBYTE);
}

static void check_object_caches(void) {
    struct vmag_ledger before = take();
    vmag_cache_t *cache = vmag_cache_create("rows", 1000, 0, NULL, NULL, NULL, NULL, NULL, 0);
    CHECK(cache != NULL);
    for (int i = 0; i < OBJECTS / 2; i++)
        memset(objects[i] = vmag_cache_alloc(cache, VMAG_NOSLEEP), 1, 1000);
    struct vmag_ledger held = take();
    CHECK_MOVED(before, held, caches, OBJECTS / 2 * 1000 / 100 * (PAGE == 4096 ? 103 : 101)); // less is left over in larger slabs
    CHECK_MOVED(before, held, magazines, 0);
    for (int i = 0; i < OBJECTS / 2; i++)
        vmag_cache_free(cache, objects[i]);
    vmag_cache_destroy(cache);
    malloc_trim(0);
    CHECK_MOVED(before, take(), caches, 0);
}

static void *map(size_t size, int flags, int file) {
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, file, 0);
    CHECK(block != MAP_FAILED);
    memset(block, 1, size);
    return block;
}

static void check_others(void) {
    char path[] = "/tmp/vmag-test-ledger-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0 && ftruncate(file, 3 * MEBIBYTE) == 0);
    unlink(path);
    struct vmag_ledger before = take();
    map(8 * MEBIBYTE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    map(5 * MEBIBYTE, MAP_SHARED | MAP_ANONYMOUS, -1);
    map(3 * MEBIBYTE, MAP_SHARED, file);
    struct vmag_ledger after = take();
    CHECK_MOVED(before, after, anonymous, 8 * MEBIBYTE);
    CHECK_MOVED(before, after, shared, 5 * MEBIBYTE);
    CHECK_MOVED(before, after, files, 3 * MEBIBYTE);
    CHECK_MOVED(before, after, live, 0);
    CHECK_MOVED(before, after, base, 0);
    close(file);
}

static pthread_barrier_t touched, seen;

static __attribute__((noinline)) void *use_stack(void *unused) {
    volatile char room[6 * MEBIBYTE];
    for (size_t i = 0; i < sizeof room; i += PAGE)
        room[i] = 1;
    pthread_barrier_wait(&touched);
    pthread_barrier_wait(&seen);
    return unused;
}

static void check_stacks(void) {
    struct vmag_ledger before = take(), after;
    pthread_t thread;
    pthread_barrier_init(&touched, NULL, 2);
    pthread_barrier_init(&seen, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, use_stack, NULL), 0);
    pthread_barrier_wait(&touched);
    after = take();
    pthread_barrier_wait(&seen);
    pthread_join(thread, NULL);
    CHECK_MOVED(before, after, stacks, 6 * MEBIBYTE);
}

// As glibc makes stacks since 2.42, one behind the other, where the kernel tells which pages are guards (6.15).
static void check_stacks_in_one_area(void) {
    enum { GUARD_INSTALL = 102 };
    size_t size = 9 * MEBIBYTE;
    char *stacks = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    int file = open("/proc/self/pagemap", O_RDONLY);
    uint64_t entry = 0;

    CHECK(stacks != MAP_FAILED && file >= 0);
    for (int i = 0; i < 2; i++)
        if (madvise(stacks + (size_t)i * size, PAGE, GUARD_INSTALL) != 0)
            return;
    CHECK_EQ(pread(file, &entry, sizeof entry, (off_t)((uintptr_t)stacks / PAGE * sizeof entry)), sizeof entry);
    close(file);
    if ((entry >> 58 & 1) == 0)
        return;
    struct vmag_ledger before = take();
    for (int i = 1; i <= 2; i++)
        memset(stacks + (size_t)i * size - 6 * MEBIBYTE, 1, 6 * MEBIBYTE);
    struct vmag_ledger after = take();
    CHECK_MOVED(before, after, stacks, 12 * MEBIBYTE);
    CHECK_MOVED(before, after, anonymous, 0);
    munmap(stacks, 2 * size);
}

// In the child all pages are shared with the parent, and still belong somewhere.
static void check_fork(void) {
    char *block = malloc(16 * MEBIBYTE);
    memset(block, 1, 16 * MEBIBYTE);
    struct vmag_ledger before = take();
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        struct vmag_ledger after = take();
        CHECK_MOVED(before, after, live, 0);
        CHECK_LT(after.heap_pss, before.heap_pss * 3 / 4);
        _exit(0);
    }
    expect_child(child);
    free(block);
}

static char written[8192];
static size_t written_bytes;

static void append(void *argument, const char *text, size_t length) {
    CHECK(argument == &written_bytes && written_bytes + length < sizeof written);
    memcpy(written + written_bytes, text, length);
    written_bytes += length;
}

static void check_written(void) {
    CHECK_EQ(vmag_ledger_write(1, append, &written_bytes), 0);
    CHECK(strstr(written, "{\"format\":\"vmag-ledger-1\",\"resident_bytes\":") == written);
    CHECK(strstr(written, "\"rows\":{\"live_bytes\":") != NULL && strstr(written, "}\n") != NULL);
    written_bytes = 0;
    memset(written, 0, sizeof written);
    CHECK_EQ(vmag_ledger_write(0, append, &written_bytes), 0);
    CHECK(strstr(written, "objects of the program") != NULL && strstr(written, "100.0 %") != NULL);
}

// A caller built with an older header gets what it knows.
static void check_size(void) {
    size_t first[2] = { 7, 7 };
    CHECK_EQ(vmag_ledger((struct vmag_ledger *)(void *)first, sizeof first[0]), 0);
    CHECK(first[0] > MEBIBYTE && first[1] == 7);
}

static long told_resident(void) {
    uint64_t epoch = 1;
    size_t bytes, size = sizeof bytes;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.resident", &bytes, &size, NULL, 0), 0);
    return (long)bytes;
}

// stats.resident of jemalloc's controls moves as the kernel's sum does: up with what is touched, down with what is given back.
static void check_controls(void) {
    enum { LARGE_OBJECTS = 8 };
    void *large[LARGE_OBJECTS];
    long told[3], kernel[3];

    malloc_trim(0);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < OBJECTS; i++)
            if (step == 1)
                memset(objects[i] = malloc(SIZE), 1, SIZE);
            else if (step == 2)
                free(objects[i]);
        for (int i = 0; i < LARGE_OBJECTS; i++)
            if (step == 1)
                memset(large[i] = malloc(MEBIBYTE), 1, MEBIBYTE);
            else if (step == 2)
                free(large[i]);
        if (step == 2)
            malloc_trim(0);
        told[step] = told_resident();
        kernel[step] = resident_bytes();
    }
    CHECK_GT(told[1] - told[0], 40 * MEBIBYTE - SLACK);
    for (int step = 1; step < 3; step++)
        CHECK_SAY(labs(told[step] - told[step - 1] - (kernel[step] - kernel[step - 1])) < SLACK, "stats.resident moved by %ld, the kernel's by %ld",
                  told[step] - told[step - 1], kernel[step] - kernel[step - 1]);
}

int main(void) {
    if (access("/proc/self/pagemap", R_OK) != 0)
        SKIP("/proc/self/pagemap cannot be read");
    free(malloc(1));
    check_against_kernel();
    check_small();
    check_large();
    check_large_begun();
    check_zero_pages();
    check_cached();
    check_object_caches();
    check_others();
    check_stacks();
    check_stacks_in_one_area();
    check_fork();
    check_written();
    check_size();
    check_controls();
    check_against_kernel();
    return 0;
}
