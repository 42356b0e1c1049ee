// A program linked with libjemalloc.so.2: what answers is vmag, wherever the name comes from.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <jemalloc/jemalloc.h>

#include "../check.h"

int main(void) {
    Dl_info home;
    void *object = mallocx(100, MALLOCX_ALIGN(64));

    CHECK(object != NULL && sallocx(object, 0) == 128);
    sdallocx(object, 100, MALLOCX_ALIGN(64));
    free(malloc(10));
    CHECK(dladdr((void *)(uintptr_t)&mallocx, &home) != 0);
    CHECK_SAY(dlsym(RTLD_DEFAULT, "vmag_root") != NULL, "mallocx is that of %s, not vmag's", home.dli_fname);
    return 0;
}
