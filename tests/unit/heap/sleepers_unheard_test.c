// A thread of whose end the heap does not hear, here by the system's call alone, may be gone when the background thread looks at its words: between its
// look for such threads and that at sleepers, here by a function put in between; or, where it began since the last look, right after the system said that it
// is there. Its stack, and thread-local memory with it, is unmapped by then.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "heap/sleepers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conf/options.h"
#include "heap/fronts.h"
#include "unit.h"

enum { SIZE = 80, OBJECTS = 200, STACK_BYTES = 256 << 10 };

static pthread_barrier_t worked, may_end;
static pthread_t thread;
static void *stack;
static bool wanted; // that it ends when the others were looked for
static _Atomic int number;
static unsigned questions; // whether it is there, after the last of which it ends; 0: whenever

static void *work(void *unused) {
    void *objects[OBJECTS];

    number = gettid();
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = malloc(SIZE)) != NULL);
    for (int i = 0; i < OBJECTS; i++)
        free(objects[i]);
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&may_end);
    syscall(SYS_exit, 0);
    return unused;
}

bool __real_os_thread_is_gone(int asked);

static void end(void) {
    pthread_barrier_wait(&may_end);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    while (!__real_os_thread_is_gone(number)) // the kernel tells who waits for the thread first, mostly some microseconds before
        continue;
    CHECK_EQ(munmap(stack, STACK_BYTES), 0);
}

void __real_fronts_end_gone(void);
void __wrap_fronts_end_gone(void);

void __wrap_fronts_end_gone(void) {
    __real_fronts_end_gone();
    if (!wanted)
        return;
    wanted = false;
    end();
}

bool __wrap_os_thread_is_gone(int asked);

bool __wrap_os_thread_is_gone(int asked) {
    bool gone = __real_os_thread_is_gone(asked);

    if (asked == number && questions > 0 && --questions == 0)
        end();
    return gone;
}

static void begin(void) {
    pthread_attr_t attributes;

    stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    pthread_attr_init(&attributes);
    CHECK_EQ(pthread_attr_setstack(&attributes, stack, STACK_BYTES), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, work, NULL), 0);
    pthread_barrier_wait(&worked);
}

int main(void) {
    uint64_t now = 1000000000;

    free(malloc(SIZE));
    options.background_thread = false;
    pthread_barrier_init(&worked, NULL, 2);
    pthread_barrier_init(&may_end, NULL, 2);
    begin();
    sleepers_step(now += 500);
    CHECK_EQ(fronts_live(), 2);
    wanted = true;
    sleepers_step(now += 500);
    CHECK(!wanted);
    sleepers_step(now += 500);
    CHECK_EQ(fronts_live(), 1);

    begin();
    questions = 2; // the first before the look
    sleepers_step(now += 500);
    if (questions > 0) {
        questions = 0;
        end();
    }
    sleepers_step(now += 500);
    CHECK_EQ(fronts_live(), 1);
    return 0;
}
