// UMEM_NOFAIL: what the callback's answers do, each in a process of its own.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <umem.h>

#include "../check.h"

enum { NEVER = 99 };

static const size_t impossible = SIZE_MAX / 4;
static int calls;
static jmp_buf back;

static void say_exit(void) {
    CHECK_EQ(write(STDOUT_FILENO, "x", 1), 1);
}

static int status_of(void (*child)(void), int *exits) {
    int status, ends[2];
    char byte;
    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        atexit(say_exit);
        child();
        exit(NEVER);
    }
    close(ends[1]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    for (*exits = 0; read(ends[0], &byte, 1) == 1;) ++*exits;
    close(ends[0]);
    return status;
}

static void expect_exit(void (*child)(void), int code) {
    int exits, status = status_of(child, &exits);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), code);
    CHECK_EQ(exits, 1);
}

static void no_callback(void) {
    umem_alloc(impossible, UMEM_NOFAIL);
}

static int says_seven(void) {
    return UMEM_CALLBACK_EXIT(7);
}

static void with_seven(void) {
    umem_nofail_callback(says_seven);
    umem_zalloc(impossible, UMEM_NOFAIL);
}

static void callback_taken_back(void) {
    umem_nofail_callback(says_seven);
    umem_nofail_callback(NULL);
    umem_alloc(impossible, UMEM_NOFAIL);
}

static int says_nonsense(void) {
    return 42;
}

static void with_nonsense(void) {
    umem_nofail_callback(says_nonsense);
    umem_alloc_align(impossible, 64, UMEM_NOFAIL);
}

static int tries_three_times(void) {
    if (++calls < 3) return UMEM_CALLBACK_RETRY;
    longjmp(back, 1);
}

static void retries_and_jumps(void) {
    umem_nofail_callback(tries_three_times);
    if (setjmp(back) == 0) umem_alloc(impossible, UMEM_NOFAIL);
    CHECK_EQ(calls, 3);
    void *buffer = umem_alloc(100, UMEM_NOFAIL);
    CHECK(buffer != NULL);
    umem_free(buffer, 100);
    exit(3);
}

static int ends_thread(void) {
    pthread_exit((void *)5);
}

static void *allocate(void *unused) {
    umem_alloc(impossible, UMEM_NOFAIL);
    return unused;
}

static void thread_ends(void) {
    pthread_t thread;
    void *result;
    umem_nofail_callback(ends_thread);
    CHECK_EQ(pthread_create(&thread, NULL, allocate, NULL), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == (void *)5);
    exit(4);
}

static void many_threads(void) {
    pthread_t threads[8];
    umem_nofail_callback(says_seven);
    for (int i = 0; i < 8; i++) CHECK_EQ(pthread_create(&threads[i], NULL, allocate, NULL), 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
}

static int constructs_at_second_try(void *object, void *unused, int flags) {
    (void)object;
    (void)unused;
    CHECK_EQ(flags, UMEM_DEFAULT);
    return calls == 0;
}

static int counts(void) {
    calls++;
    return UMEM_CALLBACK_RETRY;
}

static void constructor_fails(void) {
    umem_cache_t *cache = umem_cache_create((char *)"moody", 40, 0, constructs_at_second_try, NULL, NULL, NULL, NULL, 0);
    CHECK(umem_cache_alloc(cache, UMEM_DEFAULT) == NULL);
    umem_nofail_callback(counts);
    void *object = umem_cache_alloc(cache, UMEM_NOFAIL);
    CHECK(object != NULL && calls == 1);
    umem_cache_free(cache, object);
    umem_cache_destroy(cache);
    exit(6);
}

static void allocates_at_exit(void) {
    umem_alloc(impossible, UMEM_NOFAIL);
}

static int says_seven_then_retries(void) {
    return calls++ == 0 ? UMEM_CALLBACK_EXIT(7) : calls == 4 ? (_exit(8), 0) : UMEM_CALLBACK_RETRY;
}

// The callback is asked for a handler of exit as well.
static void handler_retries(void) {
    umem_nofail_callback(says_seven_then_retries);
    atexit(allocates_at_exit);
    umem_alloc(impossible, UMEM_NOFAIL);
}

static void handler_of_exit(void) {
    CHECK_EQ(freopen("/dev/null", "w", stderr) == NULL, 0);
    atexit(allocates_at_exit);
    umem_alloc(impossible, UMEM_NOFAIL);
}

int main(void) {
    int exits, status;
    expect_exit(no_callback, 255);
    expect_exit(with_seven, 7);
    expect_exit(callback_taken_back, 255);
    expect_exit(with_nonsense, 255);
    expect_exit(retries_and_jumps, 3);
    expect_exit(thread_ends, 4);
    for (int i = 0; i < 5; i++) expect_exit(many_threads, 7);
    expect_exit(constructor_fails, 6);
    status = status_of(handler_retries, &exits);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 8 && exits == 0);
    status = status_of(handler_of_exit, &exits);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return 0;
}
