// A program whose standard input, output and error are closed: the heap's file (option heap_source) and the trace's take none of their numbers, else what the
// program prints would go there, and a file that it opens would not be what it reads.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/child.h"

#include <fcntl.h>

enum { EVENTS = 200000, OBJECT_BYTES = 3000 };

static int are_closed(void) {
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) != -1)
            return 0;
    return 1;
}

int main(int count, char **arguments) {
    pid_t child;
    if (count > 1) {
        for (int i = 0; i < EVENTS; i++)
            free(malloc((size_t)i % OBJECT_BYTES));
        return !are_closed();
    }
    child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
            close(file);
        execl(arguments[0], arguments[0], "closed", (char *)NULL);
        _exit(2);
    }
    expect_child(child);
    return 0;
}
