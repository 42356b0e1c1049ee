// Sampled objects that consolidating moves to other slabs: in the profile they live on there, and are freed there, or when the program
// does not need them. Every object is sampled.
// SPDX-License-Identifier: BSD-2-Clause
#include <jemalloc/jemalloc.h>

#include "../check.h"
#include "vmag/cache.h"

enum { OBJECTS = 4000, KEPT_EVERY = 8, SIZE = 512, CACHES = 0x8000 };

struct object {
    struct object **home;
    char filler[SIZE - sizeof(struct object **)];
};

static char path[512];
static struct object *objects[OBJECTS];
static enum vmag_move_answer answer;

static enum vmag_move_answer move(void *from, void *to, size_t size, void *argument) {
    struct object *old = from, *fresh = to;

    (void)argument;
    if (old->home == NULL) return VMAG_MOVE_DONT_KNOW;
    if (answer == VMAG_MOVE_YES) {
        memcpy(fresh, old, size);
        *fresh->home = fresh;
    } else
        *old->home = NULL;
    old->home = NULL;
    return answer;
}

// Objects of caches, by the dump. What others allocate is not looked at: the background thread's beginning is sampled, too.
static size_t live(void) {
    const char *to = path;
    char line[4096];
    size_t count = 0;
    bool ours = false;

    CHECK_EQ(mallctl("prof.dump", NULL, NULL, &to, sizeof to), 0);
    FILE *file = fopen(path, "r");
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned arena;
        size_t samples;

        if (strcmp(line, "VMAG_PROFILE:\n") == 0) ours = true;
        if (ours && sscanf(line, "%*u %*u %u %*u %*u %zu", &arena, &samples) == 2 && arena >= CACHES) count += samples;
    }
    fclose(file);
    return count;
}

static void release(vmag_cache_t *cache, int i) {
    if (objects[i] == NULL) return;
    objects[i]->home = NULL;
    vmag_cache_free(cache, objects[i]);
    objects[i] = NULL;
}

static size_t in_use(void) {
    size_t count = 0;

    for (int i = 0; i < OBJECTS; i++) count += objects[i] != NULL;
    return count;
}

static void consolidate(enum vmag_move_answer with) {
    vmag_cache_t *cache = vmag_cache_create("moves", sizeof(struct object), 0, NULL, NULL, NULL, NULL, NULL, 0);
    struct object *before[OBJECTS];
    size_t gone = 0;

    answer = with;
    vmag_cache_set_move(cache, move);
    for (int i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = vmag_cache_alloc(cache, 0)) != NULL);
        objects[i]->home = &objects[i];
    }
    CHECK_EQ(live(), OBJECTS);
    for (int i = 0; i < OBJECTS; i++)
        if (i % KEPT_EVERY != 0) release(cache, i);
    memcpy(before, objects, sizeof before);
    vmag_cache_reap(cache);
    vmag_cache_consolidate(cache);
    for (int i = 0; i < OBJECTS; i++) gone += objects[i] != before[i];
    CHECK_SAY(gone > OBJECTS / KEPT_EVERY / 4, "%zu objects moved", gone);
    CHECK_EQ(live(), in_use());
    for (int i = 0; i < OBJECTS; i++) release(cache, i);
    CHECK_EQ(live(), 0);
    vmag_cache_destroy(cache);
}

int main(void) {
    char folder[] = "/tmp/vmag-moved-XXXXXX";
    size_t every_byte = 0;
    bool on = true;

    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/p.heap", folder);
    CHECK_EQ(mallctl("prof.reset", NULL, NULL, &every_byte, sizeof every_byte), 0);
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &on, sizeof on), 0);
    consolidate(VMAG_MOVE_YES);
    consolidate(VMAG_MOVE_DONT_NEED);
    unlink(path);
    rmdir(folder);
    return 0;
}
