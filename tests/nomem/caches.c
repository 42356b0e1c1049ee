// Where there is no address space any more, what object caches keep is given back for malloc.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <malloc.h>
#include <sys/resource.h>
#include <vmag/cache.h>

enum { OBJECTS = 8192, OBJECT = 16 << 10, ROOM = 16 << 20, WANTED = 64 << 20 };

static size_t address_space(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    CHECK(file != NULL && fscanf(file, "%zu", &pages) == 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

int main(void) {
    static void *objects[OBJECTS];
    vmag_cache_t *cache = vmag_cache_create("hoard", OBJECT, 0, NULL, NULL, NULL, NULL, NULL, 0);
    struct rlimit limit;
    rlim_t all;
    void *volatile object;

    CHECK(cache != NULL);
    // What else is given back where there is none is so before: the page map's address space.
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    all = limit.rlim_cur;
    limit.rlim_cur = address_space() + ROOM;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    free(malloc(WANTED));
    limit.rlim_cur = all;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    malloc_trim(0);
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = vmag_cache_alloc(cache, VMAG_NOSLEEP)) != NULL);
    for (int i = 0; i < OBJECTS; i++)
        vmag_cache_free(cache, objects[i]);
    limit.rlim_cur = address_space() + ROOM;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    object = malloc(WANTED);
    CHECK(object != NULL);
    free(object);
    vmag_cache_destroy(cache);
    return 0;
}
