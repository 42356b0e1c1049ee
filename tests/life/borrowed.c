// A child that shares its parent's memory until it ends (vfork) and allocates much: no thread is started in it, which would die
// with it; the parent gets one of its own afterwards.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"

#include <sys/stat.h>
#include <time.h>

enum { BLOCKS = 2000, SIZE = 4000, MILLISECONDS = 300000 };

static long threads(void) {
    struct stat status;
    return stat("/proc/self/task", &status) == 0 ? (long)status.st_nlink - 2 : -1;
}

static void leave_garbage(void) {
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i] = malloc(SIZE), 1, SIZE);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    free(malloc(20 * 1024 * 1024));
}

int main(void) {
    static volatile long in_child;
    pid_t child = vfork();
    if (child == 0) {
        leave_garbage();
        in_child = threads();
        _exit(0);
    }
    expect_child(child);
    CHECK_EQ(in_child, 1);
    leave_garbage();
    for (int i = 0; i < MILLISECONDS && threads() < 2; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHECK_EQ(threads(), 2);
    return 0;
}
