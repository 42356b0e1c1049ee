// A wholly static program (-static, no loader): threads, fork, large blocks and exit handlers on the library's archive.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/sizes.h"

#include <pthread.h>

static void *work(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    for (int i = 0; i < 20000; i++) {
        size_t size = random_below(&random, i % 100 == 0 ? 1000000 : 2000);
        void *block = malloc(size);
        pattern_fill(block, size, (uintptr_t)block);
        pattern_verify(block, size, (uintptr_t)block);
        free(block);
    }
    return NULL;
}

static void at_exit(void) {
    free(malloc(100));
}

int main(void) {
    pthread_t threads[4];
    atexit(at_exit);
    CHECK_EQ(malloc_usable_size(malloc(1)), 8); // this library's answer; glibc's own malloc says 24
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(300);
        work(NULL);
        _exit(0);
    }
    expect_child(child);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
