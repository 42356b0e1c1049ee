// Loses ten buffers in two places, keeps some in every way that counts, and frees others: what reports.py looks for.
// SPDX-License-Identifier: BSD-2-Clause
#include <sys/resource.h>
#include <umem.h>
#include <vmag/report.h>

#include "../check.h"

enum { LOST = 5, FREED_BYTES = 4000000 };

void lose_pairs(int count);
void overwrite_stack(void);

void *kept;   // by a variable,
void **chain; // through another buffer,
__thread void *kept_by_thread;

__attribute__((noinline)) void lose_pairs(int count) {
    for (int i = 0; i < count; i++) {
        void **first = umem_alloc(48, UMEM_DEFAULT);
        *first = umem_alloc(200, UMEM_DEFAULT);
    }
}

__attribute__((noinline)) void overwrite_stack(void) {
    volatile char bytes[4096];
    memset((char *)bytes, 0, sizeof bytes);
}

int main(int count, char **words) {
    umem_cache_t *cache = umem_cache_create((char *)"lose", 72, 0, NULL, NULL, NULL, NULL, NULL, 0);
    static char *inside, *object, *freed;
    kept = umem_alloc(300, UMEM_DEFAULT);
    chain = umem_alloc(64, UMEM_DEFAULT);
    *chain = umem_alloc(3000, UMEM_DEFAULT);
    inside = (char *)umem_alloc(100000, UMEM_DEFAULT) + 5000;
    kept_by_thread = malloc(700);
    object = umem_cache_alloc(cache, UMEM_DEFAULT);
    umem_free(umem_alloc(123, UMEM_DEFAULT), 123);
    freed = umem_alloc(FREED_BYTES, UMEM_DEFAULT);
    CHECK(freed != NULL);
    freed[0] = 1;
    umem_free(freed, FREED_BYTES);
    lose_pairs(LOST);
    overwrite_stack();
    CHECK(inside != NULL && object != NULL);
    for (int i = 1; i < count; i++) {
        char request[64];
        if (strcmp(words[i], "damage") == 0) {
            memset(object + 72, 7, 8);
            inside[95000] = 7;
            continue;
        }
        if (strcmp(words[i], "no files") == 0) { // can be opened any more
            CHECK_EQ(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0}), 0);
            continue;
        }
        if (strcmp(words[i], "whatis") == 0) snprintf(request, sizeof request, "whatis %p", (void *)(object + 5));
        else if (strcmp(words[i], "whatis inside") == 0) snprintf(request, sizeof request, "whatis %p", (void *)(inside + 60000));
        else if (strcmp(words[i], "whatis freed") == 0) snprintf(request, sizeof request, "whatis %p", (void *)(freed + FREED_BYTES / 2));
        else if (strcmp(words[i], "whatis code") == 0) snprintf(request, sizeof request, "whatis %p", (void *)(uintptr_t)main);
        else snprintf(request, sizeof request, "%s", words[i]);
        CHECK_EQ(vmag_umem_report(1, request, VMAG_REPORT_JSON), 0);
    }
    return 0;
}
