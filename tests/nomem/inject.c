// Makes the n-th memory system call of a program fail with ENOMEM, for n = 1, 2, 3 … until a run sees no failure.
// `inject [--onward] [--every K] PROGRAM [ARGUMENT…]`: fail all calls from the n-th on; take each K-th n only.  Calls are
// counted while the program's window is open (window.h).  Uses seccomp to stop at these calls alone and ptrace to refuse
// them, so that the library needs no hooks.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <elf.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "window.h"

static const struct {
    long number;
    const char *name;
} watched[] = {{SYS_mmap, "mmap"}, {SYS_mprotect, "mprotect"}, {SYS_madvise, "madvise"}, {SYS_mremap, "mremap"}, {SYS_munmap, "munmap"}};
enum { WATCHED = sizeof watched / sizeof *watched, MOST_FAILURES = 5 };

// One run: which call to refuse, and what came of it.
struct run {
    long target;
    int onward;
    int window_open;
    long calls;
    long refused;
    const char *first_refused;
};

static void install_filter(void) {
    struct sock_filter filter[WATCHED + 4];
    int count = 0;
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < WATCHED; i++)
        filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)watched[i].number,
                                                       (unsigned char)(WATCHED + 1 - i), 0);
    filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 1, 0);
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    struct sock_fprog program = {(unsigned short)count, filter};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void become(char **command) {
    CHECK_EQ(ptrace(PTRACE_TRACEME, 0, NULL, NULL), 0);
    raise(SIGSTOP);
    install_filter();
    execv(command[0], command);
    _exit(127);
}

// Skips the system call at which the thread is stopped; its result is -ENOMEM.
static void refuse(pid_t thread) {
#if defined(__x86_64__)
    struct user_regs_struct registers;
    CHECK_EQ(ptrace(PTRACE_GETREGS, thread, NULL, &registers), 0);
    registers.orig_rax = (unsigned long long)-1;
    registers.rax = (unsigned long long)-ENOMEM;
    CHECK_EQ(ptrace(PTRACE_SETREGS, thread, NULL, &registers), 0);
#elif defined(__aarch64__)
    struct user_regs_struct registers;
    struct iovec all = {&registers, sizeof registers};
    int none = -1;
    struct iovec number = {&none, sizeof none};
    CHECK_EQ(ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &all), 0);
    registers.regs[0] = (unsigned long long)-ENOMEM;
    CHECK_EQ(ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &all), 0);
    CHECK_EQ(ptrace(PTRACE_SETREGSET, thread, NT_ARM_SYSTEM_CALL, &number), 0);
#else
    (void)thread;
    SKIP("no injector for this processor");
#endif
}

static const char *name_of(long number) {
    for (int i = 0; i < WATCHED; i++)
        if (watched[i].number == number)
            return watched[i].name;
    return "?";
}

static void at_system_call(struct run *run, pid_t thread) {
    struct __ptrace_syscall_info information;
    long size = ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof information, &information);
    if (size < 0 && errno == ESRCH) // the process has ended meanwhile, and this thread of it with it
        return;
    CHECK_GT(size, 0);
    long number = (long)information.seccomp.nr;
    if (number == SYS_prctl) {
        if (information.seccomp.args[0] == WINDOW_OPEN)
            run->window_open = 1;
        if (information.seccomp.args[0] == WINDOW_CLOSE)
            run->window_open = 0;
        return;
    }
    if (!run->window_open)
        return;
    run->calls++;
    if (run->calls != run->target && !(run->onward && run->calls > run->target))
        return;
    if (run->refused++ == 0)
        run->first_refused = name_of(number);
    refuse(thread);
}

// Follows all threads of the child to its end; gives its wait status.
static int follow(struct run *run, pid_t child) {
    int status, last = 0;
    pid_t thread;
    while ((thread = waitpid(-1, &status, __WALL)) > 0) {
        if (!WIFSTOPPED(status)) {
            if (thread == child)
                last = status;
            continue;
        }
        int event = status >> 16, number = WSTOPSIG(status);
        if (event == PTRACE_EVENT_SECCOMP)
            at_system_call(run, thread);
        int deliver = event == 0 && number != SIGTRAP && number != SIGSTOP ? number : 0;
        ptrace(PTRACE_CONT, thread, NULL, (void *)(intptr_t)deliver);
    }
    return last;
}

static int run_once(struct run *run, char **command) {
    int status;
    pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0)
        become(command);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSTOPPED(status));
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child, NULL, options) != 0)
        SKIP("ptrace is not allowed here");
    ptrace(PTRACE_CONT, child, NULL, NULL);
    return follow(run, child);
}

int main(int count, char **arguments) {
    int onward = 0, failures = 0, next = 1;
    long every = 1, target = 1;
    for (; next < count && arguments[next][0] == '-'; next++) {
        if (strcmp(arguments[next], "--onward") == 0)
            onward = 1;
        else if (strcmp(arguments[next], "--every") == 0)
            every = atol(arguments[++next]);
    }
    CHECK(next < count && every > 0);
    time_t start = time(NULL);
    for (;; target += every) {
        struct run run = {.target = target, .onward = onward};
        int status = run_once(&run, arguments + next);
        if (status != 0) {
            say("call %ld (%s%s) refused: wait status 0x%x", target, run.first_refused ? run.first_refused : "none",
                onward ? " and all after it" : "", status);
            failures++;
        }
        if (failures == MOST_FAILURES || run.refused == 0)
            break;
    }
    say("%ld runs in %ld s, up to call %ld", (target - 1) / every + 1, (long)(time(NULL) - start), target);
    return failures != 0;
}
