// A process that has no thread-specific key left: threads allocate, and when they have ended nothing of theirs is touched any more.
// `no_keys LIBRARY`.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/pattern.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

enum { STACK = 256 * 1024, BLOCKS = 200, ROUNDS = 20 };
static void *(*other_malloc)(size_t);
static void (*other_free)(void *);

static void *thread_main(void *unused) {
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = other_malloc(i * 20);
        CHECK(blocks[i] != NULL);
        pattern_fill(blocks[i], i * 20, (uintptr_t)blocks[i]);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        pattern_verify(blocks[i], i * 20, (uintptr_t)blocks[i]);
        other_free(blocks[i]);
    }
    return unused;
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 2);
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0)
        ;
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    CHECK_SAY(library != NULL, "%s", dlerror());
    other_malloc = (void *(*)(size_t))dlsym(library, "malloc");
    other_free = (void (*)(void *))dlsym(library, "free");
    int (*control)(const char *, void *, size_t *, void *, size_t) = (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(library, "mallctl");
    CHECK(other_malloc != NULL && other_free != NULL && control != NULL);

    // A thread's words are on its stack's memory, which is another's now.
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_attr_t attributes;
        pthread_t thread;
        bool on = round % 2 == 0;
        pthread_attr_init(&attributes);
        CHECK_EQ(pthread_attr_setstack(&attributes, stack, STACK), 0);
        CHECK_EQ(pthread_create(&thread, &attributes, thread_main, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        memset(stack, 0x11, STACK);
        CHECK_EQ(control("prof.active", NULL, NULL, &on, sizeof on), 0); // reaches for the words of all threads
        for (int i = 0; i < STACK; i++)
            CHECK_SAY(stack[i] == 0x11, "round %d: byte %d of a dead thread's stack was written", round, i);
        memset(stack, 0, STACK);
    }
    thread_main(NULL);
    return 0;
}
