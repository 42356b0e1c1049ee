// Threads that end leave arenas that nobody uses: what is dirty in these goes back at the background thread's next steps, long before it
// would by decay (VMAG_CONF makes that a minute, and an arena for each thread).
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/resident.h"

#include <pthread.h>
#include <unistd.h>

enum { THREADS = 3, OBJECTS = 20000, BYTES = 1000, LOOKS = 200, LOOK_US = 100000, RESIDENT_MOST = 8 << 20 };

static void *work(void *unused) {
    void **objects = malloc(OBJECTS * sizeof *objects);
    CHECK(objects != NULL);
    for (int i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = malloc(BYTES)) != NULL);
        memset(objects[i], 1, BYTES);
    }
    for (int i = 0; i < OBJECTS; i++) free(objects[i]);
    free(objects);
    return unused;
}

static void *little(void *unused) {
    void *volatile first = malloc(1);
    free(first);
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    void *volatile first = malloc(1); // this thread has an arena of its own
    free(first);
    CHECK_EQ(pthread_create(&threads[0], NULL, little, NULL), 0); // until one thread has counted the processors, others share that arena
    CHECK_EQ(pthread_join(threads[0], NULL), 0);
    long before = anonymous_bytes(), held = 0;
    for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
    say("%ld MiB resident when the threads have ended", (anonymous_bytes() - before) >> 20);
    for (int look = 0; look < LOOKS && (look == 0 || held > RESIDENT_MOST); look++) {
        usleep(LOOK_US);
        held = anonymous_bytes() - before;
    }
    say("%ld KiB then", held >> 10);
    CHECK_LE(held, (long)RESIDENT_MOST);
    return 0;
}
