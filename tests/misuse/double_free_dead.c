// A small block of a thread that has ended, of an arena of its own, freed twice by another: it waits to go home when the process ends.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

#include <pthread.h>

static void *allocate(void *unused) {
    (void)unused;
    return malloc(24);
}

int main(void) {
    pthread_t thread;
    void *block;

    free(malloc(24)); // this thread has its arena
    CHECK_EQ(pthread_create(&thread, NULL, allocate, NULL), 0);
    pthread_join(thread, &block);
    announce("free", block);
    free(hidden(block));
    free(hidden(block));
    return 0;
}
