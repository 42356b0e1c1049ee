// Objects of object caches in profiles: by cache, allocated here and freed there, in batches, until the cache is destroyed.
// Run with prof:true; the rate is such that chance never fails it.
// SPDX-License-Identifier: BSD-2-Clause
#include <jemalloc/jemalloc.h>
#include <math.h>
#include <pthread.h>

#include "../check.h"
#include "vmag/cache.h"

enum { OBJECTS = 60000, SMALL = 64, LARGE = 1000, CACHES = 0x8000, LG_SAMPLE = 12 };

static char path[512];
static vmag_cache_t *small, *large;
static void *smalls[OBJECTS], *larges[OBJECTS];

// The number of the cache in the dump's head, plus CACHES; 0: not there.
static unsigned number_of(const char *head, const char *name) {
    char word[64];

    for (unsigned id = 0; id < 1000; id++) {
        snprintf(word, sizeof word, " cache.%u=%s", id, name);
        const char *found = strstr(head, word);
        if (found != NULL && (found[strlen(word)] == ' ' || found[strlen(word)] == '\n')) return CACHES + id;
    }
    return 0;
}

// How many objects of the cache live, by the profile.
static double live(const char *name) {
    const char *to = path;
    char line[65536];
    bool ours = false;
    unsigned number = 0;
    double objects = 0;

    CHECK_EQ(mallctl("prof.dump", NULL, NULL, &to, sizeof to), 0);
    FILE *file = fopen(path, "r");
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned stack, thread, arena, lg;
        unsigned long bytes, samples, ever;

        if (strstr(line, "lg_sample=") == line) number = number_of(line, name);
        if (strcmp(line, "VMAG_PROFILE:\n") == 0) ours = true;
        if (ours && sscanf(line, "%u %u %u %lu %u %lu %lu", &stack, &thread, &arena, &bytes, &lg, &samples, &ever) == 7 &&
            arena == number && number != 0)
            objects += (double)samples / -expm1(-(double)bytes / (double)(1ul << lg));
    }
    fclose(file);
    return objects;
}

static void expect(const char *name, double objects, size_t bytes) {
    double p = -expm1(-(double)bytes / (1 << LG_SAMPLE)), error = sqrt(OBJECTS * (1 - p) / p), told = live(name);

    CHECK_SAY(fabs(told - objects) < 6 * error + 1, "%s: %.0f objects, not %.0f", name, told, objects);
}

static void *free_half(void *unused) {
    for (int i = 0; i < OBJECTS; i += 2) {
        vmag_cache_free(small, smalls[i]);
        vmag_cache_free(large, larges[i]);
    }
    return unused;
}

int main(void) {
    char folder[] = "/tmp/vmag-cached-XXXXXX";
    void *batch[100];
    pthread_t thread;
    bool off = false;

    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/p.heap", folder);
    small = vmag_cache_create("small", SMALL, 0, NULL, NULL, NULL, NULL, NULL, 0);
    large = vmag_cache_create("large \303\266nes", LARGE, 0, NULL, NULL, NULL, NULL, NULL, 0);
    for (int i = 0; i < OBJECTS; i++) {
        smalls[i] = vmag_cache_alloc(small, 0);
        larges[i] = vmag_cache_alloc(large, 0);
    }
    expect("small", OBJECTS, SMALL);
    expect("large_\303\266nes", OBJECTS, vmag_cache_object_size(large));
    CHECK_EQ(pthread_create(&thread, NULL, free_half, NULL), 0);
    pthread_join(thread, NULL);
    expect("small", OBJECTS / 2, SMALL);
    expect("large_\303\266nes", OBJECTS / 2, vmag_cache_object_size(large));
    for (int i = 1; i < OBJECTS; i += 2) vmag_cache_free(large, larges[i]);
    CHECK(live("large_\303\266nes") < 0.5);
    for (int i = 0; i < OBJECTS / 100; i++) {
        CHECK_EQ(vmag_cache_alloc_batch(small, batch, 100, 0), 100);
        vmag_cache_free_batch(small, batch, 100);
    }
    expect("small", OBJECTS / 2, SMALL);
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &off, sizeof off), 0);
    for (int i = 1; i < OBJECTS; i += 2) vmag_cache_free(small, smalls[i]); // sampled before: still noticed
    CHECK(live("small") < 0.5);
    for (int i = 0; i < 1000; i++) vmag_cache_free(small, vmag_cache_alloc(small, 0));
    vmag_cache_destroy(small);
    vmag_cache_destroy(large);
    unlink(path);
    rmdir(folder);
    return 0;
}
