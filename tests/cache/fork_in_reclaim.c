// A reclaim callback that forks: in the child the cache can be destroyed, which nobody uses any more.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"

#include <vmag/cache.h>

enum { HANG_SECONDS = 300 };

static pid_t child = -1;

static void fork_once(void *unused) {
    (void)unused;
    if (child == -1)
        CHECK_GE(child = fork(), 0);
}

int main(void) {
    vmag_cache_t *cache = vmag_cache_create("forking", 100, 0, NULL, NULL, fork_once, NULL, NULL, 0);
    CHECK(cache != NULL);
    vmag_cache_free(cache, vmag_cache_alloc(cache, VMAG_NOSLEEP));
    vmag_caches_reap();
    if (child == 0)
        alarm(HANG_SECONDS);
    vmag_caches_reap();
    vmag_cache_destroy(cache);
    if (child != 0)
        expect_child(child);
    return 0;
}
