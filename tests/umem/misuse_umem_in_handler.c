// umem_alloc in a signal handler, which UMEM_DEBUG=nosignal does not let pass; before it, one that is not in a handler.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

#include <signal.h>

static void on_signal(int number) {
    (void)number;
    umem_free(umem_alloc(SIZE, UMEM_DEFAULT), SIZE);
}

int main(void) {
    umem_free(umem_alloc(SIZE, UMEM_DEFAULT), SIZE);
    announce("umem_alloc", NULL);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    return unnoticed();
}
