// Frames of all shapes without frame pointers: recursion, variable and aligned frames, callbacks of the C library, signal handlers on
// the stack and on one of their own, threads, coroutines, exceptions.  Each allocates.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "../check.h"

enum { ROUNDS = 200, STACK = 256 * 1024 };
#define SITE __attribute__((noinline, noclone)) static

int throw_and_catch(int depth);

SITE void touch(size_t size) {
    void *object = malloc(size);

    __asm__ volatile("" : "+r"(object) :: "memory"); // its own, for two threads are here
    free(object);
    __asm__ volatile("" ::: "memory");
}

SITE void right(int depth, unsigned path);
SITE void left(int depth, unsigned path) {
    if (depth == 0) touch(100);
    else if (path & 1) left(depth - 1, path >> 1);
    else right(depth - 1, path >> 1);
    __asm__ volatile("" ::: "memory", "rbx", "r12");
}
SITE void right(int depth, unsigned path) {
    char room[200];

    __asm__ volatile("" :: "r"(room) : "memory");
    if (depth == 0) touch(50);
    else if (path & 1) left(depth - 1, path >> 1);
    else right(depth - 1, path >> 1);
    __asm__ volatile("" ::: "memory", "rbp");
}

SITE void variable(int depth) {
    char *room = alloca((size_t)depth * 40 + 1);

    __asm__ volatile("" :: "r"(room) : "memory");
    if (depth > 0) variable(depth - 1);
    else right(3, 5);
    __asm__ volatile("" ::: "memory");
}

SITE void aligned(int depth) {
    char room[64] __attribute__((aligned(128)));
    char *more = alloca((size_t)depth * 16 + 16);

    __asm__ volatile("" :: "r"(room), "r"(more) : "memory");
    if (depth > 0) aligned(depth - 1);
    else variable(3);
    __asm__ volatile("" ::: "memory");
}

static int by_value(const void *a, const void *b) {
    touch(30);
    return *(const int *)a - *(const int *)b;
}

SITE void sort(void) {
    int numbers[40];

    for (int i = 0; i < 40; i++) numbers[i] = rand();
    qsort(numbers, 40, sizeof *numbers, by_value);
}

static void handle(int number) {
    left(number % 7, 0x55);
}

SITE void signals(int flags) {
    static char stack[STACK];
    stack_t other = { .ss_sp = stack, .ss_size = sizeof stack };
    struct sigaction action = { .sa_handler = handle, .sa_flags = flags };

    CHECK_EQ(sigaltstack(&other, NULL), 0);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    raise(SIGUSR1);
}

static ucontext_t home, away;
static void coroutine(void) {
    aligned(2);
    swapcontext(&away, &home);
}

SITE void coroutines(void) {
    static char stack[STACK];

    getcontext(&away);
    away.uc_stack.ss_sp = stack;
    away.uc_stack.ss_size = sizeof stack;
    away.uc_link = &home;
    makecontext(&away, coroutine, 0);
    swapcontext(&home, &away);
}

static void *work(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        unsigned path = (unsigned)rand();

        right((int)(path % 12), path >> 8);
        left((int)(path % 60), path * 77);
        variable(i % 9);
        aligned(i % 5);
        sort();
        throw_and_catch(i % 8);
    }
    return unused;
}

int main(void) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, work, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        signals(0);
        signals(SA_ONSTACK);
        coroutines();
    }
    pthread_join(thread, NULL);
    work(NULL);
    return 0;
}
