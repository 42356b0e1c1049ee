// A program whose _umem_debug_init allocates: it gets nothing, for the heap is just being made, and says nothing then; the program goes on.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <errno.h>
#include <umem.h>

enum { HANG_SECONDS = 300 };

const char *_umem_debug_init(void);

static int asked;

const char *_umem_debug_init(void) {
    void *volatile object = malloc(20);
    alarm(HANG_SECONDS);
    asked++;
    CHECK(object == NULL && errno == ENOMEM);
    free(object);
    return NULL;
}

int main(void) {
    umem_free(umem_alloc(10, UMEM_DEFAULT), 10);
    free(malloc(10));
    CHECK_EQ(asked, 1);
    return 0;
}
