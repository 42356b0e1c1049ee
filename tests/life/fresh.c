// A fresh process that allocates a few KiB, and then shows the memory that it holds: its /proc/self/smaps on stdout.
// `fresh busy` also allocates and frees a thousand objects of 16 to 512 bytes over and over; `fresh threads` has two threads do so.
// SPDX-License-Identifier: BSD-2-Clause
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OBJECTS = 1000, ROUNDS = 300 };

static void *work(void *unused) {
    void *objects[OBJECTS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OBJECTS; i++)
            objects[i] = malloc(16 + (size_t)((i * 7 + round) % 497));
        for (int i = 0; i < OBJECTS; i++)
            free(objects[round % 2 == 0 ? i : OBJECTS - 1 - i]);
    }
    return unused;
}

static void work_in_threads(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            _exit(1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

int main(int count, char **arguments) {
    static char text[4096];
    for (int i = 0; i < 40; i++) {
        void *volatile block = malloc(100);
        if (block == NULL)
            return 1;
        memset(block, 1, 100);
    }
    if (count > 1 && strcmp(arguments[1], "busy") == 0)
        work(NULL);
    else if (count > 1)
        work_in_threads();
    int file = open("/proc/self/smaps", O_RDONLY);
    for (ssize_t length; (length = read(file, text, sizeof text)) > 0;)
        if (write(STDOUT_FILENO, text, (size_t)length) != length)
            return 1;
    return 0;
}
