// Stands before the C library's prctl and says on stderr what is asked of it, and by which process: the parent or a child.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <sys/prctl.h>

#include "../check.h"

static pid_t first;

__attribute__((constructor)) static void begin(void) {
    first = getpid();
}

int prctl(int what, ...) {
    va_list arguments;
    va_start(arguments, what);
    unsigned long value = va_arg(arguments, unsigned long);
    va_end(arguments);
    if (what == PR_SET_PTRACER)
        say("%s lets %s read", first == 0 || first == getpid() ? "parent" : "child", value == PR_SET_PTRACER_ANY ? "all" : "some");
    return 0;
}
