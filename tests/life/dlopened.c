// The library opened by dlopen in a program that runs on the C library's malloc: both work beside each other.
// `dlopened PATH`: threads that exist already and threads that come later use it; closing it must not pull the rug.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"
#include "../support/pattern.h"

#include <dlfcn.h>
#include <pthread.h>

enum { THREADS = 8, BLOCKS = 500 };

static void *(*other_malloc)(size_t);
static void *(*other_realloc)(void *, size_t);
static void (*other_free)(void *);
static pthread_barrier_t opened;

static void use_both(void) {
    void *ours[BLOCKS], *theirs[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        theirs[i] = other_malloc(i * 13);
        ours[i] = malloc(i * 13);
        CHECK(theirs[i] != NULL && ours[i] != NULL);
        pattern_fill(theirs[i], i * 13, (uintptr_t)theirs[i]);
        pattern_fill(ours[i], i * 13, (uintptr_t)ours[i]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        pattern_verify(theirs[i], i * 13, (uintptr_t)theirs[i]);
        pattern_verify(ours[i], i * 13, (uintptr_t)ours[i]);
        theirs[i] = other_realloc(theirs[i], i * 100 + 1);
        CHECK(theirs[i] != NULL);
        other_free(theirs[i]);
        free(ours[i]);
    }
}

static void *thread_main(void *unused) {
    pthread_barrier_wait(&opened);
    use_both();
    return unused;
}

static void *find(void *library, const char *name) {
    void *entry = dlsym(library, name);
    CHECK_SAY(entry != NULL, "%s: %s", name, dlerror());
    return entry;
}

static void fork_once(void) {
    pid_t child = fork();
    if (child == 0) {
        alarm(300);
        use_both();
        _exit(0);
    }
    expect_child(child);
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 2);
    pthread_t threads[THREADS];
    pthread_barrier_init(&opened, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, thread_main, NULL), 0);
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    CHECK_SAY(library != NULL, "%s", dlerror());
    other_malloc = (void *(*)(size_t))find(library, "malloc");
    other_realloc = (void *(*)(void *, size_t))find(library, "realloc");
    other_free = (void (*)(void *))find(library, "free");
    CHECK(other_malloc != malloc);
    pthread_barrier_wait(&opened);
    use_both();
    fork_once();
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    pthread_t late;
    pthread_barrier_init(&opened, NULL, 2);
    CHECK_EQ(pthread_create(&late, NULL, thread_main, NULL), 0);
    pthread_barrier_wait(&opened);
    dlclose(library);
    CHECK_EQ(pthread_join(late, NULL), 0);
    return 0;
}
