// A process that falls idle after a peak gives its memory back without another allocator call; also when the last one was a realloc that cut off most of
// an object, with `idle shrunk`; and in the first process of a new namespace, whose parent could not have a thread any more, with `idle unshared`; and in one
// whose clock was set back, with `idle set_back`.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/resident.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

enum { BLOCKS = 20000, SIZE = 4000, MEBIBYTE = 1 << 20, SECONDS = 60 };

static void use_and_free(long before) {
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, SIZE);
    }
    CHECK_GE(anonymous_bytes() - before, (long)BLOCKS * SIZE);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static void use_and_shrink(long before) {
    char *block = malloc((size_t)BLOCKS * SIZE);
    CHECK(block != NULL);
    memset(block, 1, (size_t)BLOCKS * SIZE);
    CHECK_GE(anonymous_bytes() - before, (long)BLOCKS * SIZE);
    block = realloc(block, MEBIBYTE);
    CHECK(block != NULL && block[MEBIBYTE - 1] == 1);
}

// Returns in the child only.
static void become_child(void) {
    int status;
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0)
        return;
    CHECK_EQ(waitpid(child, &status, 0), child);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void become_first_process(long before) {
    if (unshare(CLONE_NEWPID) != 0)
        SKIP("no namespace of process numbers may be made");
    use_and_free(before);
    become_child();
}

// By as much as the machine is old, but for a second.
static void go_back_in_time(long before) {
    char offset[64];
    struct timespec now;
    int file;
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    if (now.tv_sec < 2 * SECONDS)
        SKIP("the machine was started just now");
    if (unshare(CLONE_NEWTIME) != 0 || (file = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC)) < 0)
        SKIP("no namespace of clocks may be made");
    snprintf(offset, sizeof offset, "monotonic -%ld 0", (long)now.tv_sec - 1);
    if (write(file, offset, strlen(offset)) != (ssize_t)strlen(offset))
        SKIP("no clock may be set");
    close(file);
    use_and_free(before);
    become_child();
}

int main(int count, char **arguments) {
    bool unshared = count > 1 && strcmp(arguments[1], "unshared") == 0, set_back = count > 1 && strcmp(arguments[1], "set_back") == 0;
    long before = anonymous_bytes(), left = 0;
    if (unshared)
        become_first_process(before);
    if (set_back)
        go_back_in_time(before);
    if (count == 1 || unshared || set_back)
        use_and_free(before);
    else
        use_and_shrink(before);
    for (int second = 0; second < SECONDS; second++) {
        struct timespec pause = {1, 0};
        nanosleep(&pause, NULL);
        left = anonymous_bytes() - before;
        say("%2d s after the peak: %+ld KiB", second + 1, left / 1024);
        if (left < 2 * MEBIBYTE)
            return 0;
    }
    CHECK_LT(left, 2 * MEBIBYTE);
    return 0;
}
