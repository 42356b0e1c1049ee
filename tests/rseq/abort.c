// Tests every point at which a sequence can be interrupted: a debugger stops it before each of its instructions in turn.
//
// The traced child runs one operation on stacks in shared memory. A debug register stops it at an address inside of the sequence; while
// it stands there, we do what another thread could do: take an object, put one, close the word, stop the processor's front. Then it goes on:
// the kernel must have sent it to the abort address, and what it returns must be true for the stacks as they are now. Control: when
// rseq_cs is cleared while it stands there, so that it is not sent back, the outcome must be wrong somewhere.
// SPDX-License-Identifier: BSD-2-Clause
#include "sequences.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

static void debug_register(pid_t child, int number, uintptr_t value) {
    CHECK_EQ(ptrace(PTRACE_POKEUSER, child, offsetof(struct user, u_debugreg) + (size_t)number * 8, value), 0);
}

static uintptr_t instruction_pointer(pid_t child) {
    struct user_regs_struct registers;

    CHECK_EQ(ptrace(PTRACE_GETREGS, child, 0, &registers), 0);
    return registers.rip;
}

// Runs the child until it stops; the signal.
static int resume(pid_t child, int how) {
    int status;

    CHECK_EQ(ptrace(how, child, 0, 0), 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFSTOPPED(status) ? WSTOPSIG(status) : -1;
}

static pid_t start_child(enum operation operation) {
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        // On one processor: an exchange meant for the magazines of another is refused, rightly.
        cpu_set_t here;

        CPU_ZERO(&here);
        CPU_SET(sched_getcpu(), &here);
        CHECK_EQ(sched_setaffinity(0, sizeof here, &here), 0);
        shared->here = rseq_number();
        CHECK_EQ(ptrace(PTRACE_TRACEME, 0, 0, 0), 0);
        for (;;) {
            raise(SIGSTOP);
            operate[operation]();
        }
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSTOPPED(status));
    CHECK_EQ(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL), 0);
    return child;
}

// Stops the operation at the address, meddles, goes on. False: there is no instruction that begins there.
static bool interrupt_at(pid_t child, enum operation operation, uintptr_t address, enum meddling what, bool without_kernel) {
    const struct descriptor *sequence = descriptor_of(operation);

    reset();
    debug_register(child, 0, address);
    debug_register(child, 7, 1);
    int stop = resume(child, PTRACE_CONT);

    debug_register(child, 7, 0);
    if (stop == SIGSTOP)
        return false;
    CHECK_EQ(stop, SIGTRAP);
    CHECK_EQ(instruction_pointer(child), address);
    meddle(what);
    if (without_kernel) {
        uintptr_t field = (uintptr_t)rseq_field(os_rseq_area + RSEQ_CS); // the same address as in the child

        CHECK_EQ(ptrace(PTRACE_POKEDATA, child, field, 0), 0);
    } else {
        CHECK_EQ(resume(child, PTRACE_SINGLESTEP), SIGTRAP);
        uintptr_t now = instruction_pointer(child);

        CHECK_SAY(now < sequence->start || now >= sequence->start + sequence->length, "%s+%zu was not aborted",
                  names[operation], (size_t)(address - sequence->start));
    }
    CHECK_EQ(resume(child, PTRACE_CONT), SIGSTOP);
    return true;
}

int main(void) {
    if (!os_rseq_init())
        SKIP("no restartable sequences here");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (enum operation operation = 0; operation < OPERATIONS; operation++) {
        const struct descriptor *sequence = descriptor_of(operation);
        pid_t child = start_child(operation);
        unsigned instructions = 0, wrong = 0;

        errno = 0;
        if (ptrace(PTRACE_POKEUSER, child, offsetof(struct user, u_debugreg), sequence->start) != 0)
            SKIP("no debug registers here: %s", strerror(errno));
        for (uintptr_t at = sequence->start; at < sequence->start + sequence->length; at++)
            for (enum meddling what = 0; what < MEDDLINGS; what++) {
                if (!interrupt_at(child, operation, at, what, false))
                    break;
                CHECK_SAY(right(operation, what), "%s+%zu: wrong after meddling %d", names[operation],
                          (size_t)(at - sequence->start), what);
                instructions += what == 0;
                interrupt_at(child, operation, at, what, true);
                wrong += !right(operation, what);
            }
        printf("%s: stopped at %u instructions; not restarted, %u outcomes were wrong\n", names[operation], instructions, wrong);
        CHECK_GE(instructions, 4);
        CHECK_GE(wrong, 1);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return 0;
}
