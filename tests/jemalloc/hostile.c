// One misuse of the *x functions, by name, for expect_report.py.
// SPDX-License-Identifier: BSD-2-Clause
#include <jemalloc/jemalloc.h>

#include "../misuse/misuse.h"

static void commit(const char *crime) {
    void *object = mallocx(100, 0), *large = mallocx(100000, 0);

    if (strcmp(crime, "arena") == 0) {
        announce("mallocx", NULL);
        object = mallocx(1, MALLOCX_ARENA(3000));
    } else if (strcmp(crime, "cache") == 0) {
        announce("mallocx", NULL);
        object = mallocx(1, MALLOCX_TCACHE(77));
    } else if (strcmp(crime, "free_cache") == 0) {
        announce("dallocx", NULL);
        dallocx(object, MALLOCX_TCACHE(77));
    } else if (strcmp(crime, "size") == 0) {
        announce("sdallocx", object);
        sdallocx(object, 500, 0);
    } else if (strcmp(crime, "size_none") == 0) {
        announce("sdallocx", object);
        sdallocx(object, 500, MALLOCX_TCACHE_NONE);
    } else if (strcmp(crime, "size_align") == 0) {
        announce("sdallocx", object);
        sdallocx(object, 100, MALLOCX_ALIGN(64));
    } else if (strcmp(crime, "size_large") == 0) {
        announce("sdallocx", large);
        sdallocx(large, 200000, 0);
    } else if (strcmp(crime, "double") == 0) {
        announce("dallocx", object);
        dallocx(object, MALLOCX_TCACHE_NONE);
        dallocx(object, MALLOCX_TCACHE_NONE);
    } else if (strcmp(crime, "double_large") == 0) {
        announce("dallocx", large);
        dallocx(large, 0);
        dallocx(large, 0);
    } else if (strcmp(crime, "overrun") == 0 || strcmp(crime, "overrun_resized") == 0) { // sampled
        volatile size_t end = sallocx(object, 0);

        announce("free", object);
        ((char *)object)[end] = 1;
        if (crime[7] == '\0')
            dallocx(object, 0);
        else
            object = rallocx(object, 300, 0);
    } else if (strcmp(crime, "inside") == 0) {
        announce("xallocx", (char *)large + 8);
        xallocx((char *)large + 8, 10, 0, 0);
    } else if (strcmp(crime, "foreign") == 0) {
        announce("sallocx", &crime);
        say("%zu", sallocx(&crime, 0));
    }
    exit(unnoticed());
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 2);
    commit(arguments[1]);
}
