// Threads whose end no hook tells of: one that allocates for the first time in the last round of its key destructors, and one that ends by the
// system's call alone. Their words are gone with their stacks: who reaches for all threads' words, as the event trace and a profile begun anew do, leaves those alone, and
// no arena counts these threads any more. One without thread-local memory of its own leaves its maker's as it is.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "jemalloc/jemalloc.h"

enum { ROUNDS = 8, STACK = 256 * 1024, MILLISECONDS = 300000 };

static pthread_key_t key;
static _Thread_local long calls;
static _Atomic pid_t number;
static _Atomic long last_rounds;

static void use(void) {
    void *volatile objects[40];

    for (size_t i = 0; i < 40; i++)
        objects[i] = malloc(i * 50);
    for (int i = 0; i < 40; i++)
        free(objects[i]);
}

static void in_last_round(void *value) {
    if (++calls < PTHREAD_DESTRUCTOR_ITERATIONS) {
        CHECK_EQ(pthread_setspecific(key, value), 0);
        return;
    }
    last_rounds++;
    use();
}

static void *allocate_last(void *unused) {
    number = (pid_t)syscall(SYS_gettid);
    CHECK_EQ(pthread_setspecific(key, &key), 0);
    return unused;
}

static __attribute__((unused)) void *end_by_system(void *unused) {
    use();
    number = (pid_t)syscall(SYS_gettid);
    syscall(SYS_exit, 0);
    return unused;
}

static bool is_there(pid_t thread) {
    return thread == 0 || syscall(SYS_tgkill, getpid(), thread, 0) == 0 || errno != ESRCH;
}

// On a stack of the program's, which is gone when the thread is.
static void run(void *(*body)(void *)) {
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;

    CHECK(stack != MAP_FAILED);
    number = 0;
    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstack(&attributes, stack, STACK), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, body, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    for (int i = 0; i < MILLISECONDS && is_there(number); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHECK(!is_there(number));
    CHECK_EQ(mprotect(stack, STACK, PROT_NONE), 0); // nobody else comes to lie there
}

static void trace(bool on) {
    CHECK_EQ(mallctl("trace.active", NULL, NULL, &on, sizeof on), 0);
}

static unsigned threads_counted(void) {
    unsigned sum = 0, threads;
    uint64_t epoch = 1;
    size_t size = sizeof threads;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    for (unsigned i = 0; i < 240; i++) {
        char name[64];

        snprintf(name, sizeof name, "stats.arenas.%u.nthreads", i);
        threads = 0;
        if (mallctl(name, &threads, &size, NULL, 0) == 0)
            sum += threads;
    }
    return sum;
}

static void leave_garbage(void) {
    for (int i = 0; i < 3; i++)
        free(memset(malloc(4 << 20), 1, 4 << 20));
}

#ifdef __GLIBC__
enum { LIKE_A_THREAD = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM };

static int allocate_for_maker(void *unused) {
    (void)unused;
    use();
    syscall(SYS_exit, 0);
    return 0;
}

static unsigned without_maker;

// Of a thread that has not allocated yet.
static void *have_memory_used(void *stack) {
    pid_t user = clone(allocate_for_maker, (char *)stack + STACK, LIKE_A_THREAD, NULL);

    if (user < 0) // not on emulators
        return NULL;
    for (int i = 0; i < MILLISECONDS && is_there(user); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHECK(!is_there(user));
    trace(true);
    trace(false);
    CHECK_GT(threads_counted(), without_maker);
    use();
    return NULL;
}

static void check_maker(void) {
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;

    CHECK(stack != MAP_FAILED);
    without_maker = threads_counted();
    CHECK_EQ(pthread_create(&thread, NULL, have_memory_used, stack), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}
#endif

int main(int count, char **arguments) {
    const char *prefix = count > 1 ? arguments[1] : "unseen_ends";
    unsigned counted;

    use();
    CHECK_EQ(pthread_key_create(&key, in_last_round), 0);
    CHECK_EQ(mallctl("trace.prefix", NULL, NULL, &prefix, sizeof prefix), 0);
#ifdef __GLIBC__
    check_maker();
#endif
    counted = threads_counted();
    leave_garbage(); // the background thread looks at all threads, too, if there is one
    for (int round = 0; round < ROUNDS; round++) {
        run(allocate_last);
#ifdef __GLIBC__ // others would wait for it for ever
        run(end_by_system);
#endif
        CHECK_EQ(mallctl("prof.reset", NULL, NULL, NULL, 0), 0);
        trace(true);
        trace(false);
        use();
    }
    CHECK_EQ(last_rounds, ROUNDS);
    CHECK_LE(threads_counted(), counted + 1);
    nanosleep(&(struct timespec){1, 200000000}, NULL); // the background thread looks twice
    return 0;
}
