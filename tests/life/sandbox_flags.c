// Sandboxes that end who does what they do not know: maps memory with a newer flag, as those of Chromium and of what embeds it, or calls mincore, as those of
// services that systemd starts with SystemCallFilter=@system-service. The heap grows in them, also where other advice than to give pages back is refused and no
// file is to be had.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REFUSED = 3, OBJECTS = 400, KNOWN = MAP_SHARED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE | MAP_FIXED | MAP_DENYWRITE | MAP_LOCKED };

#define ARGUMENT(n) ((unsigned)offsetof(struct seccomp_data, args[n]))

// False: the system has no such filters, or an emulator none of them.
static bool enter_sandbox(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 8, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED, 5, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(3)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, ~(unsigned)KNOWN, 0, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// 60 MiB and more, in sizes of all kinds: of the large ones the first tells whether the next are worth huge pages.
static void grow(void) {
    static unsigned char *objects[OBJECTS];
    static size_t sizes[OBJECTS];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            sizes[i] = i % 100 == 0 ? 9000000 : i % 50 == 0 ? 3000000 : i % 5 == 0 ? 70000 : (size_t)i * 37 + 1;
            objects[i] = malloc(sizes[i]);
            CHECK(objects[i] != NULL);
            memset(objects[i], i, sizes[i]);
        }
        for (int i = 0; i < OBJECTS; i += 25) {
            objects[i] = realloc(objects[i], sizes[i] * 2);
            CHECK(objects[i] != NULL);
        }
        for (int i = 0; i < OBJECTS; i++) {
            CHECK_EQ(objects[i][0], (unsigned char)i);
            CHECK_EQ(objects[i][sizes[i] - 1], (unsigned char)i);
            free(objects[i]);
        }
    }
}

int main(void) {
    int status;
    pid_t child = fork();

    CHECK_GE(child, 0);
    if (child == 0) {
        free(malloc(100));
        if (!enter_sandbox())
            _exit(REFUSED);
        grow();
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED)
        SKIP("the system has no filters of system calls");
    CHECK_EQ(status, 0);
    return 0;
}
#else
int main(void) {
    SKIP("no headers of the kernel");
}
#endif
