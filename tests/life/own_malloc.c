// A program with malloc, calloc, realloc and free of its own, and no others: reallocarray goes through its realloc, as the C library's does, so that
// its free knows the objects.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <stdint.h>

enum { POOL_BYTES = 8 << 20, HEAD = 16, RESIZED = 100 };
#define OWN __attribute__((visibility("default"), noinline))

static _Alignas(HEAD) char pool[POOL_BYTES];
static size_t used;

static int is_own(const void *object) {
    return (uintptr_t)object - (uintptr_t)pool < POOL_BYTES;
}

OWN void *malloc(size_t size) {
    char *block = pool + used;
    if (size > POOL_BYTES - HEAD - used)
        return NULL;
    used += HEAD + (size + HEAD - 1) / HEAD * HEAD;
    memcpy(block, &size, sizeof size);
    return block + HEAD;
}

OWN void free(void *object) {
    CHECK(object == NULL || is_own(object));
}

OWN void *calloc(size_t count, size_t size) {
    return malloc(count * size); // what is handed out was never used
}

OWN void *realloc(void *object, size_t size) {
    void *fresh = malloc(size);
    size_t before = 0;
    CHECK(object == NULL || is_own(object));
    if (object != NULL)
        memcpy(&before, (char *)object - HEAD, sizeof before);
    if (fresh != NULL && object != NULL)
        memcpy(fresh, object, before < size ? before : size);
    return fresh;
}

int main(void) {
    char *volatile object = reallocarray(NULL, RESIZED, 1);
    CHECK(is_own(object));
    strcpy(object, "kept");
    object = reallocarray(object, 2, RESIZED);
    CHECK(is_own(object));
    CHECK(strcmp(object, "kept") == 0);
    CHECK(reallocarray(object, SIZE_MAX / 2, 3) == NULL);
    free(object);
    object = reallocarray(malloc(1), 10, 10);
    CHECK(is_own(object));
    free(object);
    return 0;
}
