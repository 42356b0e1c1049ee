// A program that locks all its memory, now and to come, before anything was ever given back: what it frees stays, in the mappings that there are, and goes
// back once nothing is locked any more.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <malloc.h>

#include "mapping_count.h"

enum { OBJECTS = 4000, BYTES = 20000, NOTICED = 200, STATM_PAGES = 1 };

static long resident_pages(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages[2];
    CHECK(file != NULL && fscanf(file, "%ld %ld", &pages[0], &pages[1]) == 2);
    fclose(file);
    return pages[STATM_PAGES];
}

int main(void) {
    static char *objects[OBJECTS];
    long before, locked;
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        say("memory cannot be locked here: %s", strerror(errno));
        return SKIPPED;
    }
    for (int i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = malloc(BYTES)) != NULL);
        memset(objects[i], i, BYTES);
    }
    before = mappings();
    for (int i = 0; i < OBJECTS; i += 2)
        free(objects[i]);
    malloc_trim(0);
    say("%ld mappings, %ld before", mappings(), before);
    CHECK_LT(mappings(), before + NOTICED);
    for (int i = 1; i < OBJECTS; i += 2)
        CHECK(objects[i][0] == (char)i && objects[i][BYTES - 1] == (char)i);
    locked = resident_pages();
    CHECK_EQ(munlockall(), 0);
    malloc_trim(0);
    say("%ld resident pages, %ld while they were locked", resident_pages(), locked);
    CHECK_LT(resident_pages(), locked / 4 * 3);
    return 0;
}
