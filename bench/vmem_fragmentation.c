// Latency of alloc + free against fragmentation (2001, §4.5.1): vmem's policies, its quantum caches, and a resource map.
//
//   vmem_fragmentation ALLOCATOR MODE SEGMENTS     → one line of JSON
//
// ALLOCATOR  instant, best, next, quantum: vmem;  rmap: the resource map of the old Unix systems, a list of free segments in address
//            order, searched from its head by alloc and by free (written here for the comparison);  judy: a Judy1 array as an
//            allocator of single ids, the lowest free one first (libJudy.so.1; for mode ids alone)
// SEGMENTS   free segments of 1 to 64 integers, each between two allocated ones; behind them all is free
// MODE       pair: a segment is allocated and freed at once, of 65 to 128 integers in a fixed random order: all the fragments are
//            in the way
//            fit: the same with 1 to 64 integers: fragments may do
//            churn: one of SEGMENTS live segments, at random, is freed, and one of 1 to 64 integers is allocated: the
//            processor's caches miss
//            ids: single integers; every other one is free; one is allocated and freed at once
//
// What is printed is the least time of a batch, so that what else the machine does counts little.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/vmem.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INT(address) ((uintptr_t)(address))
#define AT(integer) ((void *)(uintptr_t)(integer))
enum { LARGEST = 64, SIZES = 4096 };

static size_t least_size = 1, largest = LARGEST;

static uint64_t random_state = 2001;

static uint64_t random_next(void) {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state;
}

static double now_ns(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

// The resource map: free segments [start, start + size), a list in address order.
struct free_segment {
    struct free_segment *next;
    uintptr_t start;
    size_t size;
};

static struct free_segment *map, *unused;

static struct free_segment *segment_get(void) {
    struct free_segment *segment = unused;

    if (segment == NULL)
        return malloc(sizeof *segment);
    unused = segment->next;
    return segment;
}

static uintptr_t map_alloc(size_t size) {
    for (struct free_segment **at = &map; *at != NULL; at = &(*at)->next)
        if ((*at)->size >= size) {
            struct free_segment *segment = *at;
            uintptr_t start = segment->start;

            segment->start += size;
            if ((segment->size -= size) == 0) {
                *at = segment->next;
                segment->next = unused;
                unused = segment;
            }
            return start;
        }
    return 0;
}

static void map_free(uintptr_t start, size_t size) {
    struct free_segment **at = &map, *before = NULL, *after;

    while (*at != NULL && (*at)->start < start) {
        before = *at;
        at = &before->next;
    }
    after = *at;
    if (before != NULL && before->start + before->size == start) {
        before->size += size;
        if (after != NULL && before->start + before->size == after->start) {
            before->size += after->size;
            before->next = after->next;
            after->next = unused;
            unused = after;
        }
    } else if (after != NULL && start + size == after->start) {
        after->start = start;
        after->size += size;
    } else {
        struct free_segment *segment = segment_get();

        *segment = (struct free_segment){after, start, size};
        *at = segment;
    }
}

// A set of the ids that are out.
static void *judy;
static int (*judy_first_empty)(const void *set, unsigned long *index, void *error);
static int (*judy_set)(void **set, unsigned long index, void *error);
static int (*judy_unset)(void **set, unsigned long index, void *error);

static void judy_open(void) {
    void *library = dlopen("libJudy.so.1", RTLD_NOW);

    if (library == NULL)
        exit(77);
    *(void **)&judy_first_empty = dlsym(library, "Judy1FirstEmpty");
    *(void **)&judy_set = dlsym(library, "Judy1Set");
    *(void **)&judy_unset = dlsym(library, "Judy1Unset");
}

static uintptr_t judy_alloc(void) {
    unsigned long id = 1;

    judy_first_empty(judy, &id, NULL);
    judy_set(&judy, id, NULL);
    return id;
}

static vmag_vmem_t *arena;
static int policy;
static bool is_map, is_judy;

static inline uintptr_t take(size_t size) {
    if (is_judy)
        return judy_alloc();
    return is_map ? map_alloc(size) : INT(vmag_vmem_alloc(arena, size, policy | VMAG_VM_NOSLEEP));
}

static inline void give(uintptr_t start, size_t size) {
    if (is_judy)
        judy_unset(&judy, start, NULL);
    else if (is_map)
        map_free(start, size);
    else
        vmag_vmem_free(arena, AT(start), size);
}

static void choose(const char *name, size_t span) {
    static const struct {
        const char *name;
        int policy;
    } policies[] = {{"instant", VMAG_VM_INSTANTFIT}, {"best", VMAG_VM_BESTFIT}, {"next", VMAG_VM_NEXTFIT}, {"quantum", 0}};

    is_map = !strcmp(name, "rmap");
    is_judy = !strcmp(name, "judy");
    if (is_judy)
        judy_open();
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (!strcmp(name, policies[i].name))
            policy = policies[i].policy;
    if (is_map)
        map_free(1, span);
    else if (!is_judy) // quantum caches serve up to 16 quanta: a quantum of 8 covers all sizes
        arena = vmag_vmem_create(name, AT(8), span * 8, strcmp(name, "quantum") ? 1 : 8, NULL, NULL, NULL,
                                 strcmp(name, "quantum") ? 0 : 2 * LARGEST, VMAG_VM_SLEEP);
}

struct live {
    uintptr_t start;
    size_t size;
};

// Holes between allocated segments, from low addresses on. The map frees from high addresses down, lest that take for ever.
static struct live *fragment(size_t segments, size_t *allocated) {
    struct live *live = malloc((2 * segments + 1) * sizeof *live);

    for (size_t i = 0; i < 2 * segments + 1; i++) {
        live[i].size = 1 + random_next() % largest;
        live[i].start = is_map || is_judy ? take(live[i].size) : INT(vmag_vmem_xalloc(arena, live[i].size, 0, 0, 0, NULL, NULL, VMAG_VM_NEXTFIT));
    }
    for (size_t i = 2 * segments + 1; i-- > 0;)
        if (i % 2 == 1) {
            if (is_map || is_judy)
                give(live[i].start, live[i].size);
            else
                vmag_vmem_xfree(arena, AT(live[i].start), live[i].size);
        }
    *allocated = segments + 1;
    for (size_t i = 0; i < segments + 1; i++)
        live[i] = live[2 * i];
    return live;
}

static uint8_t sizes[SIZES];

static void pairs(size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t size = sizes[i % SIZES];

        give(take(size), size);
    }
}

// vmem's first segments came from xalloc and go back by xfree; both names do the same unless there are quantum caches.
static void churn(struct live *live, size_t lives, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct live *one = &live[random_next() % lives];

        give(one->start, one->size);
        one->size = sizes[i % SIZES];
        one->start = take(one->size);
    }
}

int main(int argc, char **argv) {
    if (argc != 4)
        return fprintf(stderr, "usage: vmem_fragmentation instant|best|next|quantum|rmap|judy pair|fit|churn|ids SEGMENTS\n"), 2;
    size_t segments = strtoul(argv[3], NULL, 10), lives;
    bool is_churn = !strcmp(argv[2], "churn");

    if (!strcmp(argv[2], "pair"))
        least_size = 1 + LARGEST;
    if (!strcmp(argv[2], "ids"))
        largest = 1;

    choose(argv[1], segments * 2 * LARGEST * 2 + (1 << 20));
    for (size_t i = 0; i < SIZES; i++)
        sizes[i] = (uint8_t)(least_size + random_next() % largest);
    struct live *live = fragment(segments, &lives);
    // A batch of the slow ones is short: a list of a million is looked through in milliseconds.
    size_t batch = is_map ? 1 + 4000000 / (segments + 1000) : 20000, batches = is_map ? 5 : 15;
    double least = 1e18, begin = now_ns();

    for (size_t i = 0; i < batches + 3 && now_ns() - begin < 4e9; i++) {
        double start = now_ns();

        if (is_churn)
            churn(live, lives, batch);
        else
            pairs(batch);
        double each = (now_ns() - start) / (double)batch;
        if (i >= 3 && each < least) // the first ones warm up
            least = each;
    }
    printf("{\"allocator\": \"%s\", \"mode\": \"%s\", \"segments\": %zu, \"ns\": %.1f}\n", argv[1], argv[2], segments, least);
    return 0;
}
