// Threads one after the other, for who counts their instructions: `thread_cost used|idle SIZE COUNT`; a used one allocates an object of that size
// and frees it, an idle one does nothing.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdlib.h>

#include "../check.h"

static size_t size;

static void *use(void *unused) {
    void *volatile object = malloc(size);

    free(object);
    return unused;
}

static void *idle(void *unused) { return unused; }

int main(int count, char **arguments) {
    CHECK_EQ(count, 4);
    size = (size_t)atol(arguments[2]);
    for (long threads = atol(arguments[3]); threads > 0; threads--) {
        pthread_t thread;

        CHECK_EQ(pthread_create(&thread, NULL, arguments[1][0] == 'u' ? use : idle, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    return 0;
}
