// Runs a command and says on stderr whom it lets read it (PR_SET_PTRACER), and which process does: the command's or a child. `let_read COMMAND [ARG…]`.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SYSCALL_STOP = SIGTRAP | 0x80 };

static void look(pid_t process, pid_t first) {
    struct __ptrace_syscall_info call;

    if (ptrace(PTRACE_GET_SYSCALL_INFO, process, (void *)sizeof call, &call) <= 0)
        SKIP("the kernel does not tell system calls");
    if (call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == SYS_prctl && call.entry.args[0] == PR_SET_PTRACER)
        say("%s lets %s read", process == first ? "parent" : "child", call.entry.args[1] == PR_SET_PTRACER_ANY ? "all" : "some");
}

int main(int argc, char **argv) {
    int status;
    pid_t process, first = fork();

    if (first == 0) {
        if (argc < 2 || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(SKIPPED);
        raise(SIGSTOP);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (waitpid(first, &status, 0) != first || !WIFSTOPPED(status))
        SKIP("a process may not be traced here");
    ptrace(PTRACE_SETOPTIONS, first, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL));
    for (process = first; process > 0; process = waitpid(-1, &status, __WALL)) {
        int signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;

        if (!WIFSTOPPED(status))
            continue;
        if (signal == SYSCALL_STOP)
            look(process, first);
        ptrace(PTRACE_SYSCALL, process, NULL, (void *)(long)(signal == SIGSTOP || (signal & 0x7f) == SIGTRAP ? 0 : signal));
    }
    return 0;
}
