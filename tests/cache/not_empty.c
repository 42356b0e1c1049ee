// A cache is destroyed while three of its objects live: they stay readable, and another cache may be made.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/cache.h>

#include "check.h"

int main(void) {
    vmag_cache_t *cache = vmag_cache_create("leaky", 1000, 0, NULL, NULL, NULL, NULL, NULL, 0);
    char *objects[100];

    for (int i = 0; i < 100; i++) {
        objects[i] = vmag_cache_alloc(cache, VMAG_SLEEP);
        memset(objects[i], i, 1000);
    }
    for (int i = 3; i < 100; i++)
        vmag_cache_free(cache, objects[i]);
    vmag_cache_destroy(cache);
    cache = vmag_cache_create("tidy", 1000, 0, NULL, NULL, NULL, NULL, NULL, 0);
    for (int i = 3; i < 100; i++)
        memset(objects[i] = vmag_cache_alloc(cache, VMAG_SLEEP), 0xff, 1000);
    for (int i = 0; i < 3; i++)
        CHECK(objects[i][0] == i && objects[i][999] == i);
    for (int i = 3; i < 100; i++)
        vmag_cache_free(cache, objects[i]);
    vmag_cache_destroy(cache);
    return 0;
}
