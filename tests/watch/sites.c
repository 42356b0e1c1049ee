// Programs whose live memory is known: prints for each site its name, objects and bytes that are live at the end.
// `sites small|large|mixed|churn|runs|deep|stacks|resized|threads`.  Every site is a function of its own, so that profiles can name it.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SITE __attribute__((noinline, noclone)) static

enum { SMALL = 64, MIDDLE = 5120, RUN = 96 * 1024, LARGE = 1 << 20 };

static void *volatile keep;

SITE void *take(size_t size) {
    void *object = malloc(size);
    keep = object;
    return object;
}

SITE void site_small(int count) {
    for (int i = 0; i < count; i++)
        take(SMALL);
    __asm__ volatile("");
}

SITE void site_middle(int count) {
    for (int i = 0; i < count; i++)
        take(MIDDLE);
    __asm__ volatile("");
}

SITE void site_large(int count) {
    for (int i = 0; i < count; i++)
        take(LARGE);
    __asm__ volatile("");
}

// In place, by moving, and smaller again.
SITE void site_resized(int count) {
    void *object = take(LARGE);

    for (int i = 2; i <= count; i++) {
        object = realloc(object, (size_t)i * LARGE);
        take(RUN);
    }
    keep = realloc(object, LARGE);
    __asm__ volatile("");
}

SITE void site_mixed(int count) {
    for (int i = 0; i < count; i++)
        take(i % 100 == 0 ? LARGE : SMALL);
    __asm__ volatile("");
}

// Ten short-lived objects for each that stays, of the same class: what is sampled must not prefer either.
SITE void site_temporary(int count) {
    for (int i = 0; i < count; i++)
        free(take(SMALL));
    __asm__ volatile("");
}

SITE void site_kept(void) {
    take(SMALL);
    __asm__ volatile("");
}

// The same of page runs: what stays takes the run of what was freed, which is at hand.
SITE void site_run_temporary(int count) {
    for (int i = 0; i < count; i++)
        free(take(RUN));
    __asm__ volatile("");
}

SITE void site_run_kept(void) {
    take(RUN);
    __asm__ volatile("");
}

// Deeper than stacks are recorded.
SITE void site_deep(int depth) {
    if (depth == 0)
        site_large(100);
    else
        site_deep(depth - 1);
    __asm__ volatile("");
}

// Each way through two functions is a stack of its own.
SITE void site_left(int turns);
SITE void site_right(int turns);
SITE void site_fork(int turns) {
    if (turns == 0)
        free(take(SMALL));
    else {
        site_left(turns - 1);
        site_right(turns - 1);
    }
    __asm__ volatile("");
}

SITE void site_left(int turns) {
    site_fork(turns);
    __asm__ volatile("");
}

SITE void site_right(int turns) {
    site_fork(turns);
    __asm__ volatile("");
}

static void *worker(void *unused) {
    site_small(40000);
    return unused;
}

static void tell(const char *site, long objects, long bytes) {
    printf("%s %ld %ld\n", site, objects, bytes);
}

int main(int argc, char **argv) {
    const char *program = argc > 1 ? argv[1] : "";

    if (strcmp(program, "small") == 0) {
        site_small(200000);
        tell("site_small", 200000, 200000l * SMALL);
    } else if (strcmp(program, "large") == 0) {
        site_middle(4000);
        site_large(100);
        tell("site_middle", 4000, 4000l * MIDDLE);
        tell("site_large", 100, 100l * LARGE);
    } else if (strcmp(program, "runs") == 0) {
        for (int i = 0; i < 400; i++) {
            site_run_temporary(10);
            site_run_kept();
        }
        tell("site_run_kept", 400, 400l * RUN);
    } else if (strcmp(program, "deep") == 0) {
        site_deep(200);
        tell("site_large", 100, 100l * LARGE);
    } else if (strcmp(program, "stacks") == 0) {
        site_fork(16);
    } else if (strcmp(program, "resized") == 0) {
        site_resized(8);
        tell("site_resized", 8, LARGE + 7l * RUN);
    } else if (strcmp(program, "mixed") == 0) {
        site_mixed(20000);
        tell("site_mixed", 20000, 19800l * SMALL + 200l * LARGE);
    } else if (strcmp(program, "churn") == 0) {
        for (int i = 0; i < 100000; i++) {
            site_temporary(10);
            site_kept();
        }
        tell("site_temporary", 0, 0);
        tell("site_kept", 100000, 100000l * SMALL);
    } else {
        pthread_t threads[4];

        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, worker, NULL);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        tell("site_small", 160000, 160000l * SMALL);
    }
    return 0;
}
