// A second copy of the library in a process (dlmopen): each has its own part of the addresses, far from the other's.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <dlfcn.h>
#include <stdint.h>

enum { LG_FAR = 28 };

#ifdef LM_ID_NEWLM
int main(int count, char **arguments) {
    uintptr_t first = (uintptr_t)malloc(100), second;
    void *copy, *(*allocate)(size_t);

    CHECK_EQ(count, 2);
    copy = dlmopen(LM_ID_NEWLM, arguments[1], RTLD_NOW);
    if (copy == NULL)
        SKIP("%s", dlerror());
    *(void **)&allocate = dlsym(copy, "malloc");
    CHECK(allocate != NULL && allocate != malloc);
    second = (uintptr_t)allocate(100);
    CHECK(first != 0 && second != 0);
    CHECK_GE(first < second ? second - first : first - second, (uintptr_t)1 << LG_FAR);
    return 0;
}
#else
int main(void) {
    SKIP("this C library has no dlmopen");
}
#endif
