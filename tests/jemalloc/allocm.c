// The *allocm functions: what they return, in place and moving.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/allocm.h>

#include "../check.h"

#include <stdint.h>

static void check_sizes(void) {
    for (size_t size = 1; size < 40000; size += 7)
        for (int lg = 0; lg < 14; lg++) {
            size_t told = 0, usable = 0, asked = 0;
            unsigned char *object = NULL;

            CHECK_EQ(nallocm(&told, size, ALLOCM_LG_ALIGN(lg)), ALLOCM_SUCCESS);
            CHECK_EQ(allocm((void **)&object, &usable, size, ALLOCM_LG_ALIGN(lg) | ALLOCM_ZERO), ALLOCM_SUCCESS);
            CHECK(object[0] == 0 && object[usable - 1] == 0 && (uintptr_t)object % ((size_t)1 << lg) == 0);
            CHECK_EQ(sallocm(object, &asked, 0), ALLOCM_SUCCESS);
            CHECK(asked == usable && told == usable && usable >= size);
            CHECK_EQ(dallocm(object, 0), ALLOCM_SUCCESS);
        }
}

static void check_resize(void) {
    void *object, *before;
    size_t usable;

    CHECK_EQ(allocm(&object, &usable, 42, 0), ALLOCM_SUCCESS);
    before = object;
    CHECK_EQ(rallocm(&object, NULL, usable, 0, ALLOCM_NO_MOVE), ALLOCM_SUCCESS);
    CHECK_EQ(rallocm(&object, &usable, usable + 5, 0, ALLOCM_NO_MOVE), ALLOCM_ERR_NOT_MOVED);
    CHECK(object == before);
    memset(object, 7, 42);
    CHECK_EQ(rallocm(&object, &usable, 100000, 20000, 0), ALLOCM_SUCCESS);
    CHECK(usable >= 100000 && ((char *)object)[41] == 7);
    CHECK_EQ(rallocm(&object, NULL, SIZE_MAX / 2, 0, 0), ALLOCM_ERR_OOM);
    CHECK_EQ(rallocm(&object, &usable, 10, SIZE_MAX, ALLOCM_NO_MOVE), ALLOCM_SUCCESS);
    CHECK_EQ(dallocm(object, ALLOCM_ARENA(0)), ALLOCM_SUCCESS);
    CHECK_EQ(allocm(&object, NULL, SIZE_MAX / 2, 0), ALLOCM_ERR_OOM);
    CHECK_EQ(nallocm(&usable, SIZE_MAX, 0), ALLOCM_ERR_OOM);
}

int main(void) {
    check_sizes();
    check_resize();
    return 0;
}
