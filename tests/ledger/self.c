// Holds a known heap, prints its own ledger as JSON, and waits for a line: to be compared with `vmag explain`.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "vmag/cache.h"
#include "vmag/ledger.h"

#include <pthread.h>
#include <sys/mman.h>

enum { MEBIBYTE = 1 << 20, SMALL = 40000, THREADS = 3 };
static void *small[SMALL];
static pthread_barrier_t ready;

static void print(void *unused, const char *text, size_t length) {
    (void)unused;
    CHECK_EQ(write(STDOUT_FILENO, text, length), length);
}

static void nothing(void *unused, const char *text, size_t length) {
    (void)unused, (void)text, (void)length;
}

static void *other_thread(void *unused) {
    for (int i = 0; i < 100; i++)
        free(memset(malloc(100 + i * 7), 1, 100));
    pthread_barrier_wait(&ready);
    pause();
    return unused;
}

int main(void) {
    pthread_t thread;
    char line[8];
    for (int i = 0; i < SMALL; i++)
        memset(small[i] = malloc(1 + i % 1500), 1, 1 + i % 1500);
    for (int i = 0; i < SMALL; i += 3)
        free(small[i]);
    memset(malloc(24 * MEBIBYTE), 1, 10 * MEBIBYTE);
    char *freed = malloc(8 * MEBIBYTE);
    free(memset(freed, 1, 8 * MEBIBYTE));
    for (int i = 0; i < 20; i++)
        memset(malloc(20000 + 1000 * i), 1, 20000);
    void *mapped = mmap(NULL, 4 * MEBIBYTE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mapped, 1, 4 * MEBIBYTE);
    vmag_cache_t *cache = vmag_cache_create("self", 500, 0, NULL, NULL, NULL, NULL, NULL, 0);
    for (int i = 0; i < 10000; i++)
        memset(vmag_cache_alloc(cache, VMAG_NOSLEEP), 1, 500);
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_barrier_wait(&ready);
    // What taking and printing it touches, and waiting, is there before: each page of code that is missing brings fifteen more.
    if (vmag_ledger_write(1, nothing, NULL) != 0 || read(STDIN_FILENO, line, 0) != 0 || write(STDOUT_FILENO, line, 0) != 0)
        SKIP("/proc/self/pagemap cannot be read");
    CHECK_EQ(vmag_ledger_write(1, print, NULL), 0);
    return read(STDIN_FILENO, line, sizeof line) < 0;
}
