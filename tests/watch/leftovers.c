// Walks by unwind tables through a function without tables, whose frame pointer leads to left-overs of any kind, while another thread
// opens and closes the libraries that they point into; and the last word of a mapping as a stack's first. `leftovers SECONDS [SEED]`
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <dlfcn.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef __x86_64__
enum { MOST_MAPPINGS = 4000, WORDS = 256, PAGE = 4096 };

__asm__(".text\n.globl without_tables\n.type without_tables,@function\nwithout_tables:\n"
        " push %rbp\n mov %rdi,%rbp\n mov $100,%edi\n call malloc@PLT\n pop %rbp\n ret\n"
        ".globl on_stack\n.type on_stack,@function\non_stack:\n.cfi_startproc\n push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbp,-16\n"
        " mov %rsp,%rbp\n.cfi_def_cfa_register %rbp\n mov %rdi,%rsp\n call *%rsi\n mov %rbp,%rsp\n pop %rbp\n.cfi_def_cfa %rsp,8\n ret\n.cfi_endproc\n");
void *without_tables(uintptr_t *frame);
void on_stack(void *top, void (*function)(void));

static struct mapping {
    uintptr_t start, end;
} mappings[MOST_MAPPINGS], codes[MOST_MAPPINGS];
static unsigned mappings_count, codes_count;
static _Atomic bool stop;
static uint64_t seed = 88172645463325252u;

static void read_mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    char line[500], rights[8];
    struct mapping mapping;

    CHECK(file != NULL);
    mappings_count = codes_count = 0;
    while (fgets(line, sizeof line, file) != NULL && mappings_count < MOST_MAPPINGS) {
        if (sscanf(line, "%lx-%lx %7s", &mapping.start, &mapping.end, rights) != 3)
            continue;
        mappings[mappings_count++] = mapping;
        if (rights[2] == 'x')
            codes[codes_count++] = mapping;
    }
    fclose(file);
}

static uint64_t any(uint64_t below) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static void *open_and_close(void *argument) {
    const char *names[] = { "libresolv.so.2", "libutil.so.1", "libBrokenLocale.so.1", "libanl.so.1", "libm.so.6", "libstdc++.so.6" };

    for (unsigned i = 0; !stop; i++) {
        void *library = dlopen(names[i % (sizeof names / sizeof *names)], RTLD_NOW | RTLD_LOCAL);

        usleep(200);
        if (library != NULL)
            dlclose(library);
    }
    return argument;
}

static uintptr_t leftover(uintptr_t *words) {
    struct mapping of = mappings[any(mappings_count)], code = codes[any(codes_count)];

    switch (any(8)) {
    case 0: return 0;
    case 1: return (uintptr_t)(intptr_t)((int)any(64) - 32);
    case 2: case 3: return (uintptr_t)&words[any(WORDS + 50)];
    case 4: case 5: case 6: return code.start + any(code.end - code.start);
    default: return (any(2) ? of.start : of.end) + (any(8) - 4) * sizeof(uintptr_t);
    }
}

__attribute__((noinline)) static void walk_leftovers(void) {
    uintptr_t words[WORDS];

    for (unsigned i = 0; i < WORDS; i++)
        words[i] = leftover(words);
    free(without_tables(words + any(WORDS / 2)));
}

typedef void backtrace_hook(void **frames, unsigned *count, unsigned most);
static backtrace_hook *before;
static unsigned depth;

static void note_depth(void **frames, unsigned *count, unsigned most) {
    before(frames, count, most);
    depth = *count;
}

__attribute__((noinline)) static void allocate(void) {
    void *volatile object = malloc(100);

    free(object);
}

static void last_word_is_read(void) {
    char *stack = mmap(NULL, 18 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    backtrace_hook *hook = note_depth;
    size_t length = sizeof before;
    unsigned at_end;

    CHECK(stack != MAP_FAILED && mprotect(stack + PAGE, 16 * PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK_EQ(mallctl("experimental.hooks.prof_backtrace", &before, &length, &hook, sizeof hook), 0);
    on_stack(stack + 17 * PAGE, allocate);
    at_end = depth;
    on_stack(stack + 17 * PAGE - 16, allocate);
    CHECK(at_end > 2);
    CHECK_EQ(at_end, depth);
    CHECK_EQ(mallctl("experimental.hooks.prof_backtrace", NULL, NULL, &before, sizeof before), 0);
}

int main(int count, char **arguments) {
    time_t end = time(NULL) + (count > 1 ? atoi(arguments[1]) : 3);
    pthread_t thread;

    CHECK(dlerror() == NULL); // what the library looked for as it was loaded leaves none
    if (count > 2)
        seed ^= strtoull(arguments[2], NULL, 0) * 0x9e3779b97f4a7c15u;
    last_word_is_read();
    dlopen("libm.so.6", RTLD_NOW);
    dlopen("libcrypto.so.3", RTLD_NOW);
    read_mappings();
    CHECK_EQ(pthread_create(&thread, NULL, open_and_close, NULL), 0);
    for (unsigned round = 0; time(NULL) < end; round++) {
        for (int i = 0; i < 200; i++)
            walk_leftovers();
        if (round % 100 == 99)
            read_mappings();
    }
    stop = true;
    pthread_join(thread, NULL);
    return 0;
}
#else
int main(void) {
    printf("SKIPPED: walks by tables are of x86-64\n");
    return 77;
}
#endif
