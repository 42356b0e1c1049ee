// The process's first arena is not number 0, for the program named another one before all else, and there is no memory for that one when its second
// thread comes: the thread has the arena that there is.
// SPDX-License-Identifier: BSD-2-Clause
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../check.h"

enum { SIZE = 100, OBJECTS = 200 };

static pthread_barrier_t turn;

static void *come_second(void *unused) {
    unsigned char *objects[OBJECTS];
    unsigned got = 0;

    (void)unused;
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    for (unsigned i = 0; i < OBJECTS; i++) {
        objects[i] = malloc(SIZE);
        if (objects[i] != NULL)
            memset(objects[i], (int)i, SIZE);
        got += objects[i] != NULL;
        if (i % 20 == 0) // the clock goes on, and what is known after a while is looked at
            usleep(1000);
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        CHECK(objects[i] == NULL || (objects[i][0] == i && objects[i][SIZE - 1] == i));
        free(objects[i]);
    }
    CHECK_GT(got, 0);
    return NULL;
}

int main(void) {
    struct rlimit limit;
    unsigned arenas;
    size_t size = sizeof arenas;
    pthread_t thread;

    CHECK_EQ(mallctl("arenas.narenas", &arenas, &size, NULL, 0), 0);
    if (arenas < 2)
        SKIP("there is no arena 1");
    free(mallocx(SIZE, MALLOCX_ARENA(1) | MALLOCX_TCACHE_NONE));
    free(malloc(SIZE));
    pthread_barrier_init(&turn, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, come_second, NULL), 0);
    pthread_barrier_wait(&turn);
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = 1;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    pthread_barrier_wait(&turn);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}
