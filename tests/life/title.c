// A program that writes over its environment's strings, as php-fpm and setproctitle do for the line that ps shows: what VMAG_REPORT and VMAG_UMEM_REPORT asked for
// as it began still comes at its end.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void write_over_environment(void) {
    char *start = environ[0], *end = start;

    for (char **at = environ; *at != NULL; at++)
        if (*at >= end) // on the stack, one behind the other
            end = *at + strlen(*at);
    memset(start, 0, (size_t)(end - start));
}

// A line with these words.
static bool has(const char *path, const char *words) {
    static char line[1 << 16];
    FILE *file = fopen(path, "r");
    bool found = false;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        found |= strstr(line, words) != NULL;
    if (file != NULL)
        fclose(file);
    return found;
}

int main(void) {
    char *report = getenv("VMAG_REPORT"), *umem = getenv("VMAG_UMEM_REPORT"), words[64];
    int status;
    pid_t child;

    CHECK(report != NULL && umem != NULL);
    umem = strchr(umem, '/');
    CHECK(umem != NULL);
    unlink(report); // of an earlier run
    unlink(umem);
    child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        write_over_environment();
        CHECK(getenv("VMAG_REPORT") == NULL && getenv("VMAG_UMEM_REPORT") == NULL);
        exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    snprintf(words, sizeof words, "\"exit\",\"pid\":%d,", (int)child);
    CHECK_SAY(has(report, words), "no line %s in %s", words, report);
    CHECK_SAY(has(umem, "umem_oversize"), "no report in %s", umem);
    return 0;
}
