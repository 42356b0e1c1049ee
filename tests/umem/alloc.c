// umem_alloc and its kin: size 0, NULL, zeroes, alignment, sizes of all classes; the same with and without debugging.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <jemalloc/jemalloc.h>
#include <stdint.h>
#include <umem.h>

#include "../check.h"

static size_t alignment(const void *buffer) {
    return (size_t)((uintptr_t)buffer & -(uintptr_t)buffer);
}

static void test_nothing(void) {
    CHECK(umem_alloc(0, UMEM_DEFAULT) == NULL);
    CHECK(umem_alloc(0, UMEM_NOFAIL) == NULL);
    CHECK(umem_zalloc(0, UMEM_NOFAIL) == NULL);
    CHECK(umem_alloc_align(0, 64, UMEM_NOFAIL) == NULL);
    umem_free(NULL, 0);
    umem_free_align(NULL, 0);
}

static void test_sizes(void) {
    for (size_t size = 1; size < 300000; size += size < 2000 ? 1 : size / 13) {
        unsigned char *buffer = umem_alloc(size, UMEM_DEFAULT), *zeroed = umem_zalloc(size, UMEM_NOFAIL);
        CHECK(buffer != NULL && zeroed != NULL && buffer != zeroed);
        CHECK(alignment(buffer) >= (size < 16 ? 8 : 16));
        if (size % 64 == 0) CHECK(alignment(buffer) >= 64);
        if (size % 4096 == 0) CHECK(alignment(buffer) >= 4096);
        for (size_t i = 0; i < size; i++) CHECK(zeroed[i] == 0);
        memset(buffer, 0x5a, size);
        memset(zeroed, 0xa5, size);
        umem_free(buffer, size);
        umem_free(zeroed, size);
    }
}

static void test_alignments(void) {
    for (size_t align = 1; align <= 65536; align *= 2)
        for (size_t size = 1; size < 70000; size = size * 3 + 1) {
            char *buffer = umem_alloc_align(size, align, UMEM_DEFAULT);
            CHECK(buffer != NULL && alignment(buffer) >= align);
            memset(buffer, 1, size);
            umem_free_align(buffer, size);
        }
    umem_free_align(umem_alloc_align(10, 0, UMEM_NOFAIL), 10); // no alignment asked for
    CHECK(umem_alloc_align(10, 24, UMEM_DEFAULT) == NULL);
}

static void test_failure(void) {
    errno = 0;
    CHECK(umem_alloc(SIZE_MAX, UMEM_DEFAULT) == NULL);
    CHECK(umem_alloc(SIZE_MAX / 2 + 2, UMEM_DEFAULT) == NULL);
    CHECK(umem_zalloc(SIZE_MAX / 4, UMEM_DEFAULT) == NULL);
    CHECK(umem_alloc_align(SIZE_MAX / 4, 4096, UMEM_DEFAULT) == NULL);
}

// Fault injection at run time belongs to debugging.
static void test_injection(void) {
    void *buffer;

    umem_setmtbf(1);
    buffer = umem_alloc(24, UMEM_DEFAULT);
    umem_setmtbf(0);
    CHECK((buffer == NULL) == (getenv("UMEM_DEBUG") != NULL));
    umem_free(buffer, buffer == NULL ? 0 : 24);
    buffer = umem_alloc(24, UMEM_DEFAULT);
    CHECK(buffer != NULL);
    umem_free(buffer, 24);
}

// The size last asked for is the one to free with, although the object may stay where it is.
static void test_resized(void) {
    for (size_t size = 16; size < 100000; size *= 2) {
        char *buffer = mallocx(size, 0);
        CHECK(buffer != NULL);
        buffer = rallocx(buffer, size - 1, 0);
        CHECK(buffer != NULL);
        sdallocx(buffer, size - 1, 0);
    }
}

int main(void) {
    test_nothing();
    test_sizes();
    test_alignments();
    test_failure();
    test_injection();
    test_resized();
    return 0;
}
