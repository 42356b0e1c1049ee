// Rules of frames: of all modules of the process, of none; of tables whose bytes are anything; of code that was unloaded.
// All of it with the loader's own table of modules, and without; in a program with holes between its segments, too.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/frame_rule.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../support/child.h"
#include "os/memory.h"
#include "os/module.h"
#include "os/rules.h"
#include "os/stack_range.h"
#include "unit.h"

enum { ROUNDS = 20000 };
#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

#if defined(__x86_64__)
enum { STACK_POINTER = 7 };
#else
enum { STACK_POINTER = 31 };
#endif

#ifdef __GLIBC__ // musl is one library, without tables
#define IN_LIBRARIES 1
#else
#define IN_LIBRARIES 0
#endif

static bool told;

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
        CHECK(os_module_find(in[i], &module, &told));
        CHECK(module.start < module.unwind_table && module.unwind_table < module.end && in[i] < module.end);
        CHECK_EQ(os_frame_rule_find(in[i], true, &told).kind, FRAME_CALLED);
        if (module.start != (uintptr_t)info.dli_fbase) // this program has holes, as one of its builds has
            CHECK(i == 0 && in[i] < module.start && !os_module_find(module.start - 1, &module, &told));
    }
    if (vdso != 0) {
        CHECK(os_module_find(vdso + 100, &module, &told));
        CHECK_EQ(module.start, vdso);
    }
    CHECK(!os_module_find((uintptr_t)heap, &module, &told) && !os_module_find((uintptr_t)&module, &module, &told));
    CHECK(!os_module_find(100, &module, &told) && !os_module_find(UINTPTR_MAX - 100, &module, &told));
    CHECK_EQ(os_frame_rule_find((uintptr_t)heap, true, &told).kind, FRAME_UNKNOWN);
    free(heap);
}

// A function that nobody calls: of its tables, what is kept and holds again, one in another, with a register between, and not to the end.
#if defined(__x86_64__)
#define FRAME_POINTER "6"
#else
#define FRAME_POINTER "29"
#endif
__asm__(".text\n"
        "kept_and_restored:\n"
        ".cfi_startproc\n"
        ".skip 200\n .cfi_def_cfa_offset 48\n"
        ".skip 200\n .cfi_remember_state\n .cfi_def_cfa_offset 32\n"
        ".skip 200\n .cfi_remember_state\n .cfi_def_cfa_offset 16\n"
        ".skip 400\n .cfi_restore_state\n"
        ".skip 200\n .cfi_restore_state\n"
        ".skip 200\n .cfi_remember_state\n .cfi_def_cfa_offset 16\n .cfi_offset " FRAME_POINTER ", -16\n"
        ".skip 200\n .cfi_restore_state\n"
        ".skip 200\n .cfi_remember_state\n .cfi_def_cfa_offset 1024\n"
        ".skip 200\n .cfi_endproc\n");
extern const char kept_and_restored[];

static void what_is_kept_holds_again(void) {
    static const struct {
        unsigned at, cfa;
        bool frame_is_saved;
    } known[] = { { 204, 48, false }, { 404, 32, false }, { 604, 16, false }, { 996, 16, false }, { 1004, 32, false }, { 1204, 48, false },
                  { 1404, 16, true }, { 1604, 48, false }, { 1804, 1024, false }, { 1996, 1024, false } };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (unsigned is_on_stack = 0; is_on_stack < 2; is_on_stack++) {
            struct os_frame_rule rule = os_frame_rule_find((uintptr_t)kept_and_restored + known[i].at, is_on_stack, &told);

            CHECK_EQ(rule.kind, FRAME_CALLED);
            CHECK_EQ((unsigned)rule.cfa, known[i].cfa);
            CHECK_EQ(rule.frame_is_saved, known[i].frame_is_saved);
        }
}

// At a function's first instruction the return address is the word at the stack pointer, or in its register.
static void first_instructions_are_known(void) {
    struct os_frame_rule rule = os_frame_rule_find((uintptr_t)address_in, true, &told);

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

    CHECK(os_module_find(address_in("libm.so.6", "sin"), &module, &told));
    tables = (unsigned char *)(module.unwind_table & -PAGE);
    bytes = (module.end - module.unwind_table) & -PAGE;
    bytes = bytes < 64 * PAGE ? bytes : 64 * PAGE;
    while (mprotect(tables, bytes, PROT_READ | PROT_WRITE) != 0)
        bytes -= PAGE;
    CHECK(bytes >= PAGE);
    for (int i = 0; i < ROUNDS; i++) {
        tables[i % 4 == 0 ? (module.unwind_table % PAGE) + (size_t)rand() % 4 : (size_t)rand() % bytes] = (unsigned char)rand();
        if (i % 100 == 0)
            memcpy((void *)module.unwind_table, "\1\33\3\73", 4);
        os_frame_rule_find(module.start + (size_t)rand() % (module.unwind_table - module.start), true, &told);
    }
    memset((void *)module.unwind_table, 0xff, bytes / 2);
    memcpy((void *)module.unwind_table, "\1\33\3\73", 4);
    os_frame_rule_find(module.start + PAGE, true, &told);
    for (page = tables; page < tables + bytes; page += PAGE) {
        CHECK_EQ(mprotect(page, PAGE, PROT_NONE), 0);
        os_modules_change(); // a page that was readable is taken for readable while its module is loaded
        os_frame_rule_find(module.start + (size_t)rand() % (module.unwind_table - module.start), true, &told);
    }
}

// What the kernel copies is read as what is there.
static void copies_are_read_alike(void) {
    struct os_module module;

    CHECK(os_module_find(address_in("libm.so.6", "sin"), &module, &told));
    for (uintptr_t address = module.start; address < module.end; address += 97) {
        struct os_frame_rule rule = os_frame_rule_find(address, true, &told), copied = os_frame_rule_find(address, false, &told);

        CHECK(memcmp(&rule, &copied, sizeof rule) == 0);
    }
}

// Tables made by hand, of one function, where the module says it is. From its program on they are anything.
enum { ENTRY = 17, MADE_BYTES = 1 << 20, MADE_HEAD = 24, MADE_COMMON = MADE_HEAD + 24, MADE_PROGRAM = MADE_COMMON + ENTRY, SHORT = 64, LONG = MADE_BYTES - MADE_PROGRAM };
static unsigned char *made;
static size_t made_bytes = MADE_BYTES; // of the module; behind the mapping nothing can be read

struct made_object {
    unsigned long long flags;
    void *start, *end, *link_map, *unwind_table;
    unsigned long long reserved[7];
};

static int find_made(void *address, struct made_object *object) {
    *object = (struct made_object){ .start = made, .end = made + made_bytes, .unwind_table = made };
    return (unsigned char *)address < made || (unsigned char *)address >= made + MADE_BYTES ? -1 : 0;
}

static void put(unsigned at, uint32_t value) {
    memcpy(made + at, &value, sizeof value);
}

static struct os_frame_rule made_rule(bool is_on_stack) {
    return os_frame_rule_find((uintptr_t)made + MADE_BYTES - 1, is_on_stack, &told);
}

static enum os_frame_kind made_kind(bool is_on_stack) {
    return made_rule(is_on_stack).kind;
}

// The function's entry is of ENTRY bytes and its program.
static void make_tables_with(int filler, unsigned entry, unsigned program_bytes) {
    static const unsigned char common[] = { 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, STACK_POINTER, 8, 0x90, 1 };

    memset(made, filler, MADE_BYTES);
    memcpy(made, "\1\33\3\73", 4);
    put(8, 1);
    put(12, 0);
    put(16, entry);
    memset(made + MADE_HEAD, 0, MADE_COMMON - MADE_HEAD);
    put(MADE_HEAD, MADE_COMMON - MADE_HEAD - 4);
    memcpy(made + MADE_HEAD + 8, common, sizeof common);
    put(entry, ENTRY + program_bytes - 4);
    put(entry + 4, entry + 4 - MADE_HEAD);
    put(entry + 8, 0u - (entry + 8));
    put(entry + 12, MADE_BYTES);
    made[entry + 16] = 0;
}

static void make_tables(int filler, unsigned program_bytes) {
    make_tables_with(filler, MADE_COMMON, program_bytes);
}

// Expressions of 2^64 − 2 bytes, behind which the program would come to the last bytes of that number, and go on to its end.
static void never_backwards(bool is_on_stack) {
    static const unsigned char program[] = { 0x10, 3, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 };

    make_tables(0, SHORT);
    CHECK_EQ(made_kind(is_on_stack), FRAME_CALLED);
    memcpy(made + MADE_PROGRAM, program, sizeof program);
    CHECK_EQ(made_kind(is_on_stack), FRAME_END);
    made[MADE_PROGRAM] = 0x16;
    CHECK_EQ(made_kind(is_on_stack), FRAME_END);
}

// Numbers, and letters, as long as the module; and more steps than any function has.
static void never_long(bool is_on_stack) {
    make_tables(0x80, LONG);
    made[MADE_PROGRAM] = 0x2e;
    made[MADE_BYTES - 1] = 0;
    CHECK_EQ(made_kind(is_on_stack), FRAME_END);
    memset(made + MADE_HEAD + 10, 'R', MADE_BYTES - MADE_HEAD - 10);
    put(16, MADE_BYTES / 2);
    put(MADE_BYTES / 2, 16);
    put(MADE_BYTES / 2 + 4, MADE_BYTES / 2 + 4 - MADE_HEAD);
    CHECK_EQ(made_kind(is_on_stack), FRAME_UNKNOWN);
    make_tables(0x0a, SHORT); // remember …
    CHECK_EQ(made_kind(is_on_stack), FRAME_END);
    make_tables(0, LONG);
    CHECK_EQ(made_kind(is_on_stack), FRAME_END);
}

// A module that ends up to eight bytes before what cannot be read, and at its end a function's program: nothing behind it is taken, nor touched.
static void none_from_behind(bool is_on_stack) {
    enum { BEYOND = 1, ADVANCE_4 = 4, CFA_OFFSET = 14, ARGUMENTS = 0x2e };
    static const struct end {
        unsigned bytes;
        unsigned char program[8];
        int cfa; // 0: it is cut
    } ends[] = {
        { 2, { CFA_OFFSET, 16 }, 16 },
        { 3, { CFA_OFFSET, 0x90, 1 }, 0x90 },
        { 7, { ADVANCE_4, 0xff, 0xff, 0x0f, 0, CFA_OFFSET, 24 }, 24 }, // to the last address of the function
        { 7, { ADVANCE_4, 0, 0, 0x10, 0, CFA_OFFSET, 24 }, 8 }, // and behind it
        { 5, { ADVANCE_4, 0xff, 0xff, 0x0f, 0 }, 8 },
        { 4, { 0x41, 0x41, CFA_OFFSET, 40 }, 40 },
        { 3, { CFA_OFFSET, 16, 0x41 }, 16 },
        { 1, { CFA_OFFSET }, 0 },
        { 2, { CFA_OFFSET, 0x90 }, 0 },
        { 4, { ADVANCE_4, 1, 0, 0 }, 0 },
        { 3, { 0x41, ARGUMENTS, 0x80 }, 0 },
    };

    for (unsigned before = 0; before <= 8; before++)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            unsigned at = MADE_BYTES - before - ends[i].bytes;
            struct os_frame_rule rule;

            made_bytes = MADE_BYTES - before;
            make_tables_with(0, at - ENTRY, ends[i].bytes);
            memcpy(made + at, ends[i].program, ends[i].bytes);
            rule = made_rule(is_on_stack);
            CHECK_EQ(rule.kind, ends[i].cfa == 0 ? FRAME_END : FRAME_CALLED);
            CHECK(rule.kind == FRAME_END || rule.cfa == ends[i].cfa);
            put(at - ENTRY, ENTRY + ends[i].bytes - 4 + BEYOND);
            CHECK_EQ(made_kind(is_on_stack), FRAME_UNKNOWN);
        }
    made_bytes = MADE_BYTES;
}

static void made_tables_end_soon(void *loader) {
    int (*find)(void *, struct made_object *) = find_made;

    made = mmap(NULL, MADE_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(made != MAP_FAILED && mprotect(made + MADE_BYTES, PAGE, PROT_NONE) == 0);
    os_modules_ask_loader(*(void **)&find);
    alarm(100);
    for (int round = 0; round < 40; round++) {
        never_backwards(round % 2 == 0);
        never_long(round % 2 == 0);
    }
    none_from_behind(true);
    none_from_behind(false);
    alarm(0);
    os_modules_ask_loader(loader);
}

// Of a mapping the last word can be read, of all memory it cannot.
static void last_words_are_known(void) {
    enum { LOOKED_AT = 4096 }; // the smallest page that there is
    uintptr_t page = 0;
    char *mapping = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t last = (uintptr_t)mapping + PAGE - sizeof last;

    CHECK(mapping != MAP_FAILED && munmap(mapping + PAGE, PAGE) == 0);
    CHECK(os_word_is_readable(last, &page) && page == last / LOOKED_AT * LOOKED_AT);
    CHECK(!os_word_is_readable(last + sizeof last, &page) && !os_word_is_readable(UINTPTR_MAX - 7, &page));
    CHECK_EQ(page, last / LOOKED_AT * LOOKED_AT);
    munmap(mapping, PAGE);
}

static void unloaded_code_is_unknown(void) {
    void *opened = dlopen("libresolv.so.2", RTLD_NOW), *function;

    if (opened == NULL)
        return;
    function = dlsym(opened, "ns_initparse");
    CHECK(function != NULL);
    CHECK_EQ(os_frame_rule_find((uintptr_t)function, true, &told).kind, FRAME_CALLED);
    dlclose(opened);
    CHECK_EQ(os_frame_rule_find((uintptr_t)function, true, &told).kind, FRAME_UNKNOWN);
}

static struct os_rules rules;
static size_t kept;

__attribute__((noinline)) static size_t walk_here(struct os_walk *walk) {
    struct os_stack_range range = { 0 };
    uintptr_t frames[100];
    size_t fresh = os_stack_walk(frames, 100, (uintptr_t)__builtin_frame_address(0), &rules, &range, walk, &kept);

    walk->taken = walk->begun;
    return fresh + kept;
}

// Always by the same call.
__attribute__((noinline)) static size_t walk(struct os_walk *walk) {
    size_t depth = walk_here(walk);

    __asm__ volatile("" ::: "memory");
    return depth;
}

static void make_rules_false(void) {
    struct os_frame_rule end = { .kind = FRAME_END };
    uint64_t word;

    memcpy(&word, &end, sizeof word);
    for (size_t i = 0; i < (1 << LG_RULE_LINES) * RULES_A_LINE; i++) {
        struct os_rule_line *line = &rules.line[i / RULES_A_LINE];
        uint64_t key = line->place[i % RULES_A_LINE].check ^ line->place[i % RULES_A_LINE].rule;

        line->place[i % RULES_A_LINE].rule = word;
        line->place[i % RULES_A_LINE].check = word ^ key;
    }
}

// All that is known is made false; it is not looked at any more once modules have changed, and neither is the last walk.
static void rules_are_of_a_generation(void) {
    struct os_walk last = { 0 }, none;
    size_t depths[4], by_last[4];

    for (volatile int i = 0; i < 4; i++) { // so that there is one call
        none.count = 0;
        if (i == 1)
            make_rules_false();
        if (i == 3)
            os_modules_change();
        depths[i] = walk(i == 2 ? &none : &last);
        by_last[i] = kept;
    }
    CHECK_GT(depths[0], 2);
    CHECK_EQ(depths[1], depths[0]);
    CHECK_EQ(by_last[1], depths[0]);
    CHECK_EQ(depths[2], 1);
    CHECK_EQ(depths[3], depths[0]);
    CHECK_EQ(by_last[3], 0);
}

static void all(void *loader) {
    last_words_are_known();
    modules_are_found();
    what_is_kept_holds_again();
    first_instructions_are_known();
    if (OS_HAS_RULES)
        rules_are_of_a_generation();
    if (IN_LIBRARIES) {
        unloaded_code_is_unknown();
        copies_are_read_alike();
        made_tables_end_soon(loader);
        any_bytes_are_survived();
    }
}

// In a process of its own, for it leaves a library's tables without sense.
int main(void) {
    struct os_module own;
    void *loader = NULL;
    pid_t child;
    int status;

    if (os_module_find((uintptr_t)main, &own, &told) && own.unwind_table == 0) // musl's wrapper of gcc links none
        return 0;
    child = fork();

    if (child == 0 && !os_memory_peek(&status, &child, sizeof status))
        return 0; // an emulator that has no process_vm_readv
    if (child != 0)
        loader = dlsym(RTLD_DEFAULT, "_dl_find_object");
    os_modules_ask_loader(loader);
    all(loader);
    if (child == 0)
        return 0;
    expect_child(child);
    return 0;
}
