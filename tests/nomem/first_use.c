// The library's very first calls while requests for memory fail: `first_use LIBRARY`, run by inject.c.
// The window opens before dlopen, so that whatever the library does at load is in it; a refused dlopen ends the run well.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/pattern.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "window.h"

enum { BLOCKS = 60 };
static void *(*vmag_malloc)(size_t);
static void *(*vmag_calloc)(size_t, size_t);
static void (*vmag_free)(void *);

static size_t size_of(int index) {
    return ((size_t)1 << (index % 20)) + (size_t)index;
}

// All blocks at once, freed again; with `strict` none may be refused.
static void use(int strict) {
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        errno = 0;
        blocks[i] = i % 2 ? vmag_malloc(size_of(i)) : vmag_calloc(size_of(i), 1);
        if (blocks[i] == NULL)
            CHECK_EQ(errno, ENOMEM);
        else
            pattern_fill(blocks[i], size_of(i), (uintptr_t)blocks[i]);
        CHECK_SAY(!strict || blocks[i] != NULL, "%zu bytes refused with nothing failing any more: errno %d", size_of(i), errno);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i] != NULL) {
            pattern_verify(blocks[i], size_of(i), (uintptr_t)blocks[i]);
            vmag_free(blocks[i]);
        }
}

static void *thread_main(void *unused) {
    use(0);
    return unused;
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 2);
    alarm(300);
    prctl(WINDOW_OPEN);
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return 0;
    vmag_malloc = (void *(*)(size_t))dlsym(library, "malloc");
    vmag_calloc = (void *(*)(size_t, size_t))dlsym(library, "calloc");
    vmag_free = (void (*)(void *))dlsym(library, "free");
    CHECK(vmag_malloc != NULL && vmag_calloc != NULL && vmag_free != NULL);
    use(0);
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_main, NULL) == 0)
        CHECK_EQ(pthread_join(thread, NULL), 0);
    prctl(WINDOW_CLOSE);
    use(1);
    return 0;
}
