// What illumos' own tests use the library for: a program that asks for debugging itself and lets every allocation fail for a while
// (libc's memory streams and aligned_alloc, strings that grow, callers that must say "no memory"). Frees never fail,
// nor does what is allocated with UMEM_NOFAIL.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <umem.h>

#include "../check.h"

enum { ROUNDS = 200, CHUNK = 64 };

const char *_umem_debug_init(void);
const char *_umem_logging_init(void);
const char *_umem_options_init(void);

const char *_umem_debug_init(void) {
    return "default,verbose";
}

const char *_umem_logging_init(void) {
    return "fail,contents";
}

const char *_umem_options_init(void) {
    return "perthread_cache=0";
}

// The call gives nothing and says why.
#define FAILS(call)                                  \
    do {                                             \
        errno = 0;                                   \
        CHECK((call) == NULL);                       \
        CHECK(errno == ENOMEM || errno == EAGAIN);   \
    } while (0)

static void test_malloc(void) {
    char *kept = malloc(100), *again;
    void *place = kept;

    strcpy(kept, "still here");
    umem_setmtbf(1);
    FAILS(malloc(16));
    FAILS(calloc(3, 100));
    FAILS(realloc(kept, 5000));
    FAILS(aligned_alloc(4096, 4096));
    FAILS(memalign(64, 100));
    FAILS(strdup("text"));
    CHECK_EQ(posix_memalign(&place, 64, 100), ENOMEM);
    CHECK(place == kept);
    umem_setmtbf(0);
    CHECK(strcmp(kept, "still here") == 0);
    again = realloc(kept, 5000);
    CHECK(again != NULL && strcmp(again, "still here") == 0);
    umem_setmtbf(1);
    errno = E2BIG;
    free(again);
    CHECK_EQ(errno, E2BIG);
    umem_setmtbf(0);
}

static int constructed, retries;

static int construct(void *object, void *unused, int flags) {
    (void)unused;
    CHECK_EQ(flags, UMEM_DEFAULT);
    memset(object, 7, CHUNK);
    constructed++;
    return 0;
}

static void destruct(void *object, void *unused) {
    (void)unused;
    CHECK_EQ(((char *)object)[CHUNK - 1], 7);
    constructed--;
}

static int memory_is_back(void) {
    CHECK(++retries < 3);
    return UMEM_CALLBACK_RETRY;
}

static void test_umem(void) {
    umem_cache_t *cache = umem_cache_create((char *)"faults", CHUNK, 0, construct, destruct, NULL, NULL, NULL, 0);
    void *object = umem_cache_alloc(cache, UMEM_DEFAULT), *buffer = umem_alloc(1000, UMEM_DEFAULT);

    umem_setmtbf(1);
    CHECK(umem_alloc(24, UMEM_DEFAULT) == NULL);
    CHECK(umem_zalloc(24, UMEM_DEFAULT) == NULL);
    CHECK(umem_alloc(1 << 20, UMEM_DEFAULT) == NULL);
    CHECK(umem_alloc_align(24, 256, UMEM_DEFAULT) == NULL);
    CHECK(umem_cache_alloc(cache, UMEM_DEFAULT) == NULL);
    umem_cache_free(cache, object);
    umem_free(buffer, 1000);
    umem_nofail_callback(memory_is_back);
    object = umem_cache_alloc(cache, UMEM_NOFAIL);
    CHECK(object != NULL);
    buffer = umem_zalloc(77, UMEM_NOFAIL);
    CHECK(buffer != NULL && retries == 0);
    umem_free(buffer, 77);
    buffer = umem_alloc_align(24, 256, UMEM_NOFAIL);
    CHECK(buffer != NULL && retries == 0);
    umem_free_align(buffer, 24);
    umem_setmtbf(0);
    umem_cache_free(cache, object);
    umem_cache_destroy(cache);
    CHECK_EQ(constructed, 0);
}

static void test_streams(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream;

    umem_setmtbf(1);
    FAILS(open_memstream(&text, &size));
    FAILS(fmemopen(NULL, 10, "w+"));
    umem_setmtbf(0);
    stream = open_memstream(&text, &size);
    CHECK(stream != NULL && fputs("twelve bytes", stream) >= 0 && fclose(stream) == 0);
    CHECK(size == 12 && strcmp(text, "twelve bytes") == 0);
    free(text);
}

// Grows by one byte at a time until the n-th growth fails: what was written stays, and nothing is written beyond.
static void test_growing(void) {
    for (size_t fail_at = 1; fail_at < ROUNDS; fail_at += 9) {
        char *string = NULL;
        size_t length = 0;

        for (;; length++) {
            umem_setmtbf(length == fail_at);
            char *longer = realloc(string, length + 1);
            umem_setmtbf(0);
            if (longer == NULL)
                break;
            string = longer;
            string[length] = (char)('a' + length % 26);
        }
        CHECK_EQ(length, fail_at);
        for (size_t i = 0; i < length; i++)
            CHECK_EQ(string[i], (char)('a' + i % 26));
        free(string);
    }
}

int main(void) {
    test_malloc();
    test_umem();
    test_streams();
    test_growing();
    return 0;
}
