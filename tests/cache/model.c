// Caches against a model: random operations on several caches with constructors; every object is constructed once, keeps its
// state, is never given out twice, and nothing is left in the end.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdint.h>
#include <vmag/cache.h>
#include <vmag/vmem.h>

#include "unit.h"

enum { CACHES = 6, OBJECTS = 3000, STEPS = 50000 };

struct object {
    uint64_t magic;
    struct model *model;
    uint32_t users; // 0 while nobody has it
    uint32_t filler[];
};

struct model {
    vmag_cache_t *cache;
    size_t size;
    size_t constructed, destructed;
    struct object *live[OBJECTS];
    size_t count;
    unsigned fail_every; // constructor
};

enum { MAGIC = 0x1234567 };
static struct random randomness = { 0x9e3779b97f4a7c15u };

static int construct(void *memory, void *argument, int flags) {
    struct object *object = memory;
    struct model *model = argument;

    CHECK(flags == VMAG_NOSLEEP || flags == VMAG_SLEEP);
    if (model->fail_every != 0 && random_below(&randomness, model->fail_every) == 0)
        return -1;
    model->constructed++;
    object->magic = MAGIC;
    object->model = model;
    object->users = 0;
    return 0;
}

static void destruct(void *memory, void *argument) {
    struct object *object = memory;

    CHECK(object->magic == MAGIC && object->model == argument && object->users == 0);
    object->magic = 0;
    object->model->destructed++;
}

static void take(struct model *model, struct object *object) {
    CHECK(object->magic == MAGIC && object->model == model && object->users == 0);
    object->users = 1;
    model->live[model->count++] = object;
}

static struct object *give(struct model *model) {
    size_t i = random_below(&randomness, model->count);
    struct object *object = model->live[i];

    CHECK(object->magic == MAGIC && object->model == model && object->users == 1);
    object->users = 0;
    model->live[i] = model->live[--model->count];
    return object;
}

static void alloc_some(struct model *model) {
    size_t count = random_below(&randomness, OBJECTS - model->count + 1);

    for (count = count > 300 ? 300 : count; count > 0; count--) {
        struct object *object = vmag_cache_alloc(model->cache, VMAG_NOSLEEP);

        CHECK(object != NULL || model->fail_every != 0);
        if (object != NULL)
            take(model, object);
    }
}

static void free_some(struct model *model) {
    size_t count = random_below(&randomness, model->count + 1);

    for (count = count > 300 ? 300 : count; count > 0; count--)
        vmag_cache_free(model->cache, give(model));
}

static void batches(struct model *model) {
    void *objects[64];
    size_t count = random_below(&randomness, 65), got;

    if (model->count + count > OBJECTS)
        return;
    got = vmag_cache_alloc_batch(model->cache, objects, count, VMAG_NOSLEEP);
    CHECK(got == count || model->fail_every != 0);
    for (size_t i = 0; i < got; i++)
        take(model, objects[i]);
    count = random_below(&randomness, 65);
    for (got = 0; got < count && model->count > 0; got++)
        objects[got] = give(model);
    vmag_cache_free_batch(model->cache, objects, got);
}

static void reserves(struct model *model) {
    size_t count = random_below(&randomness, 200), taken = random_below(&randomness, count + 2);
    vmag_reserve_t *reserve;

    if (model->count + count > OBJECTS)
        return;
    reserve = vmag_cache_reserve(model->cache, count, VMAG_NOSLEEP);
    CHECK(reserve != NULL || model->fail_every != 0);
    if (reserve == NULL)
        return;
    CHECK_EQ(vmag_reserve_left(reserve), count);
    for (size_t i = 0; i < taken; i++) {
        struct object *object = vmag_reserve_alloc(reserve);

        CHECK((object != NULL) == (i < count));
        if (object != NULL)
            take(model, object);
    }
    vmag_reserve_release(reserve);
}

static void count_one(void *argument, void *memory) {
    struct object *object = memory;

    CHECK(object->magic == MAGIC && object->users == 1);
    ++*(size_t *)argument;
}

static void look(struct model *model) {
    struct vmag_cache_stats stats;
    size_t seen = 0;

    vmag_cache_stats(model->cache, &stats, sizeof stats);
    CHECK_EQ(stats.in_use, model->count);
    CHECK_EQ(stats.in_use + stats.cached, model->constructed - model->destructed);
    CHECK_EQ(stats.slab_allocs - stats.slab_frees, stats.in_use + stats.cached);
    CHECK_EQ(stats.slab_creates - stats.slab_destroys, stats.slabs);
    CHECK(vmag_cache_walk(model->cache, count_one, &seen));
    CHECK_EQ(seen, model->count);
}

static void step(struct model *model) {
    switch (random_below(&randomness, 64)) {
    case 0: vmag_cache_reap(model->cache); break;
    case 1: look(model); break;
    case 2 ... 6: batches(model); break;
    case 7 ... 11: reserves(model); break;
    case 12 ... 38: alloc_some(model); break;
    default: free_some(model); break;
    }
}

int main(void) {
    static struct model models[CACHES];
    static const size_t sizes[CACHES] = { 24, 64, 200, 1000, 5000, 24 };
    static const int flags[CACHES] = { 0, 0, VMAG_CACHE_NOMAGAZINE, 0, 0, 0 };
    vmag_vmem_alloc_t *import;
    vmag_vmem_free_t *release;
    vmag_vmem_t *heap = vmag_vmem_heap_arena(&import, &release);
    vmag_vmem_t *pages = vmag_vmem_create("pages", NULL, 0, 4096, import, release, heap, 0, VMAG_VM_SLEEP);

    for (int i = 0; i < CACHES; i++) {
        models[i].size = sizes[i];
        models[i].fail_every = i == 1 ? 50 : 0;
        models[i].cache = vmag_cache_create("model", sizes[i], 0, construct, destruct, NULL, &models[i], i == 5 || i == 3 ? pages : NULL,
                                            flags[i]);
        CHECK(models[i].cache != NULL);
    }
    for (long i = 0; i < STEPS; i++)
        step(&models[random_below(&randomness, CACHES)]);
    for (int i = 0; i < CACHES; i++) {
        while (models[i].count > 0)
            vmag_cache_free(models[i].cache, give(&models[i]));
        look(&models[i]);
        vmag_cache_destroy(models[i].cache);
        CHECK_EQ(models[i].constructed, models[i].destructed);
    }
    CHECK_EQ(vmag_vmem_size(pages, VMAG_VMEM_ALLOC), 0);
    vmag_vmem_destroy(pages);
    return 0;
}
