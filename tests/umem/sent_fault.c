// A signal that is sent, and not of a touch: it ends the program, and nothing is told, for nobody touched a buffer.
// SPDX-License-Identifier: BSD-2-Clause
#include <signal.h>
#include <sys/wait.h>

#include "../check.h"

int main(void) {
    char told[100];
    int status, ends[2];
    pid_t child;

    CHECK_EQ(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        free(malloc(100));
        kill(getpid(), SIGSEGV);
        _exit(0);
    }
    close(ends[1]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CHECK_EQ(read(ends[0], told, sizeof told), 0);
    return 0;
}
