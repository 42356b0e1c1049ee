// A program with functions of its own that C17 does not know: linked with the static library it has its own.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

void *reallocarray(void *object, size_t count, size_t size) {
    (void)object, (void)count, (void)size;
    return (void *)7;
}

void free_sized(void *object, size_t size) {
    (void)object, (void)size;
}

int mallopt(int what, int value) {
    return what + value;
}

int main(void) {
    void *volatile object = malloc(100);
    void *volatile none = reallocarray(object, 1, 1);

    CHECK(object != NULL && none == (void *)7 && mallopt(3, 4) == 7);
    free_sized(object, 1);
    free(object);
    return 0;
}
