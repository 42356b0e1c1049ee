// A small block freed by two threads, one after the other; both threads end.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

#include <pthread.h>

static void *release(void *block) {
    free(hidden(block));
    return NULL;
}

int main(void) {
    void *block = malloc(112);
    announce("free", block);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, release, block), 0);
        pthread_join(thread, NULL);
    }
    return 0;
}
