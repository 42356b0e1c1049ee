// Rules of frames: of all modules of the process, of none; of tables whose bytes are anything; of code that was unloaded.
// All of it with the loader's own table of modules, and without.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/frame_rule.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/memory.h"
#include "os/module.h"
#include "os/rules.h"
#include "unit.h"

enum { ROUNDS = 20000, PAGE = 4096 };

#ifdef __GLIBC__ // musl is one library, without tables
#define IN_LIBRARIES 1
#else
#define IN_LIBRARIES 0
#endif

static uintptr_t address_in(const char *library, const char *function) {
    void *opened = dlopen(library, RTLD_NOW), *found = opened == NULL ? NULL : dlsym(opened, function);

    CHECK(found != NULL);
    return (uintptr_t)found;
}

static void modules_are_found(void) {
    uintptr_t vdso = getauxval(AT_SYSINFO_EHDR), in[] = { (uintptr_t)modules_are_found, IN_LIBRARIES ? (uintptr_t)qsort : (uintptr_t)address_in,
                                                            IN_LIBRARIES ? address_in("libm.so.6", "cos") : (uintptr_t)address_in };
    struct os_module module;
    char *heap = malloc(100);

    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        Dl_info info;

        CHECK(dladdr((void *)in[i], &info) != 0);
        CHECK(os_module_find(in[i], &module));
        CHECK_EQ(module.start, (uintptr_t)info.dli_fbase);
        CHECK(module.start < module.unwind_table && module.unwind_table < module.end && in[i] < module.end);
        CHECK_EQ(os_frame_rule_find(in[i]).kind, FRAME_CALLED);
    }
    if (vdso != 0) {
        CHECK(os_module_find(vdso + 100, &module));
        CHECK_EQ(module.start, vdso);
    }
    CHECK(!os_module_find((uintptr_t)heap, &module) && !os_module_find((uintptr_t)&module, &module));
    CHECK(!os_module_find(100, &module) && !os_module_find(UINTPTR_MAX - 100, &module));
    CHECK_EQ(os_frame_rule_find((uintptr_t)heap).kind, FRAME_UNKNOWN);
    free(heap);
}

// At a function's first instruction the return address is the word at the stack pointer, or in its register.
static void first_instructions_are_known(void) {
    struct os_frame_rule rule = os_frame_rule_find((uintptr_t)address_in);

    CHECK(!rule.by_frame && !rule.by_word && !rule.frame_is_saved);
#if defined(__x86_64__)
    CHECK_EQ(rule.cfa, 8);
    CHECK(rule.code_is_saved && rule.code == -1);
#else
    CHECK_EQ(rule.cfa, 0);
    CHECK(!rule.code_is_saved);
#endif
}

// A library's tables with random bytes in them, then with pages missing.
static void any_bytes_are_survived(void) {
    struct os_module module;
    unsigned char *tables, *page;
    size_t bytes;

    CHECK(os_module_find(address_in("libm.so.6", "sin"), &module));
    tables = (unsigned char *)(module.unwind_table & -(uintptr_t)PAGE);
    bytes = (module.end - module.unwind_table) & -(size_t)PAGE;
    bytes = bytes < 64 * PAGE ? bytes : 64 * PAGE;
    while (mprotect(tables, bytes, PROT_READ | PROT_WRITE) != 0)
        bytes -= PAGE;
    CHECK(bytes >= PAGE);
    for (int i = 0; i < ROUNDS; i++) {
        tables[i % 4 == 0 ? (module.unwind_table % PAGE) + (size_t)rand() % 4 : (size_t)rand() % bytes] = (unsigned char)rand();
        if (i % 100 == 0)
            memcpy((void *)module.unwind_table, "\1\33\3\73", 4);
        os_frame_rule_find(module.start + (size_t)rand() % (module.unwind_table - module.start));
    }
    memset((void *)module.unwind_table, 0xff, bytes / 2);
    memcpy((void *)module.unwind_table, "\1\33\3\73", 4);
    os_frame_rule_find(module.start + PAGE);
    for (page = tables; page < tables + bytes; page += PAGE) {
        CHECK_EQ(mprotect(page, PAGE, PROT_NONE), 0);
        os_modules_change(); // a page that was readable is taken for readable while its module is loaded
        os_frame_rule_find(module.start + (size_t)rand() % (module.unwind_table - module.start));
    }
}

static void unloaded_code_is_unknown(void) {
    void *opened = dlopen("libresolv.so.2", RTLD_NOW), *function;

    if (opened == NULL)
        return;
    function = dlsym(opened, "ns_initparse");
    CHECK(function != NULL);
    CHECK_EQ(os_frame_rule_find((uintptr_t)function).kind, FRAME_CALLED);
    dlclose(opened);
    CHECK_EQ(os_frame_rule_find((uintptr_t)function).kind, FRAME_UNKNOWN);
}

static struct os_rules rules;

__attribute__((noinline)) static size_t walk_here(struct os_walk *read) {
    struct os_stack_range range = { 0, 0 };
    uintptr_t frames[100];

    return os_stack_walk(frames, 100, (uintptr_t)__builtin_frame_address(0), &rules, &range, read);
}

// Always by the same call.
__attribute__((noinline)) static size_t walk(struct os_walk *read) {
    size_t depth = walk_here(read);

    __asm__ volatile("" ::: "memory");
    return depth;
}

// All that is known is made false; it is not looked at any more once modules have changed.
static void rules_are_of_a_generation(void) {
    struct os_frame_rule end = { .kind = FRAME_END };
    struct os_walk read = { 0 };
    size_t depth = walk(&read);
    uint64_t word;

    CHECK_GT(depth, 2);
    memcpy(&word, &end, sizeof word);
    for (size_t i = 0; i < (1 << LG_RULE_LINES) * RULES_A_LINE; i++) {
        struct os_rule_line *line = &rules.line[i / RULES_A_LINE];
        uint64_t key = line->place[i % RULES_A_LINE].check ^ line->place[i % RULES_A_LINE].rule;

        line->place[i % RULES_A_LINE].rule = word;
        line->place[i % RULES_A_LINE].check = word ^ key;
    }
    CHECK_EQ(walk(&read), 1);
    CHECK(os_walk_holds(&read, read.first));
    os_modules_change();
    CHECK(!os_walk_holds(&read, read.first));
    CHECK_EQ(walk(&read), depth);
}

static void all(void) {
    modules_are_found();
    first_instructions_are_known();
    if (OS_HAS_RULES)
        rules_are_of_a_generation();
    if (IN_LIBRARIES) {
        unloaded_code_is_unknown();
        any_bytes_are_survived();
    }
}

// In a process of its own, for it leaves a library's tables without sense.
int main(void) {
    struct os_module own;
    pid_t child;
    int status;

    if (os_module_find((uintptr_t)main, &own) && own.unwind_table == 0) // musl's wrapper of gcc links none
        return 0;
    child = fork();

    if (child == 0 && !os_memory_peek(&status, &child, sizeof status))
        return 0; // an emulator that has no process_vm_readv
    if (child != 0)
        os_modules_ask_loader(dlsym(RTLD_DEFAULT, "_dl_find_object"));
    all();
    if (child == 0)
        return 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    return 0;
}
