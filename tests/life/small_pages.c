// Where the system gives huge pages unasked (THP "always") a small heap asks for small ones: each of its chunks would be resident as a whole, by which a small
// program would be twice as large. With thp:never, and `small_pages never`, a large one does, too. Elsewhere nothing is asked for.
// What the system says of itself is a file of ours here, in a namespace of mounts.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETTING "/sys/kernel/mm/transparent_hugepage/enabled"

enum { BLOCKS = 20000, SIZE = 1000, HUGE_OBJECT = 20 << 20, GROWN = 9 << 19, GROWN_MORE = 27 << 18 };

// Whether the kernel's flags of the mapping in which the address lies have "nh".
static bool is_small(const void *address) {
    char line[512], flags[256] = "";
    uintptr_t start, end;
    bool there = false;
    FILE *file = fopen("/proc/self/smaps", "r");

    CHECK(file != NULL);
    while (flags[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            there = start <= (uintptr_t)address && (uintptr_t)address < end;
        else if (there && strncmp(line, "VmFlags:", 8) == 0)
            snprintf(flags, sizeof flags, "%s", line + 8);
    }
    fclose(file);
    CHECK(flags[0] != '\0');
    return strstr(flags, " nh") != NULL;
}

static void check_large_heap(void) {
    static char *blocks[BLOCKS];
    char *huge = malloc(HUGE_OBJECT), *grown = malloc(1 << 20);

    CHECK(huge != NULL && grown != NULL);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, SIZE);
    }
    for (int i = 0; i < BLOCKS; i += BLOCKS / 10)
        CHECK(is_small(blocks[i]));
    CHECK(is_small(huge + HUGE_OBJECT / 2));
    grown = realloc(grown, GROWN);
    CHECK(grown != NULL);
    CHECK(is_small(grown + GROWN - 1));
    grown = realloc(grown, GROWN_MORE);
    CHECK(grown != NULL);
    CHECK(is_small(grown + GROWN_MORE - 1));
}

// The program with the system saying so.
static void run(const char *program, const char *what, const char *setting) {
    char name[] = "/tmp/vmag-XXXXXX";
    int status, file = mkstemp(name);
    pid_t child;

    CHECK(file >= 0);
    CHECK_EQ(write(file, setting, strlen(setting)), (ssize_t)strlen(setting));
    close(file);
    child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        bool mounted = unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount(name, SETTING, NULL, MS_BIND, NULL) == 0;
        unlink(name);
        if (!mounted)
            _exit(SKIPPED);
        execl(program, program, what, "inside", setting[0] == '[' ? "always" : "otherwise", (char *)NULL);
        _exit(1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    unlink(name);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
        SKIP("nothing may be mounted, or this kernel has no transparent huge pages");
    CHECK_EQ(status, 0);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "default";

    if (count > 3) {
        bool always = strcmp(arguments[3], "always") == 0;
        char *object = malloc(24), *larger = malloc(20000);

        CHECK(object != NULL && larger != NULL);
        CHECK_EQ(is_small(object), always);
        CHECK_EQ(is_small(larger), always);
        if (always && strcmp(what, "never") == 0)
            check_large_heap();
        free(larger);
        free(object);
        return 0;
    }
    run(arguments[0], what, "[always] madvise never\n");
    run(arguments[0], what, "always [madvise] never\n");
    return 0;
}
