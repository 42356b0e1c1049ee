// A filter of system calls, as sandboxes have it.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_FORBID_H
#define VMAG_TESTS_FORBID_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

// From now on who makes that system call is ended (SECCOMP_RET_KILL), or told so (SECCOMP_RET_ERRNO and the error). False: the system has no such
// filters, or an emulator none of them.
static inline bool forbid_call(long number, uint32_t how) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, how),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#endif
