// A stack that is found by the last one, or by those that were found lately, is the one that a fresh walk finds, whoever called whom in between: random calls of functions of all
// kinds of frames, jumps out of many, other stacks in turns, modules that change, stacks too long to be kept.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#include "../../support/child.h"
#include "os/module.h"
#include "os/pages.h"
#include "os/rules.h"
#include "unit.h"
#include "watch/known_stacks.h"

#if defined(__GNUC__) && !defined(__clang__)
#define WITHOUT_FRAME_POINTER __attribute__((noinline, optimize("omit-frame-pointer")))
#else
#define WITHOUT_FRAME_POINTER __attribute__((noinline))
#endif

enum { ROUNDS = 1000, FUNCTIONS = 7, OTHER_STACKS = 3, OTHER_BYTES = 256 * 1024 };

static struct last_stack *own;
static struct known_stacks *lately;
static struct os_rules rules;
static struct stack *last;
static enum os_unwinder unwinder = OS_UNWIND_FRAMES;
static unsigned long frames_found, frames_kept;
static struct random random_state = { 1 };
static jmp_buf outside;

static bool any(size_t of) {
    return random_below(&random_state, of) == 0;
}

// By rules of its own, so that what is false in those of last_stack.c would be seen.
__attribute__((noinline)) static void look(void) {
    uintptr_t frames[STACK_DEPTH];
    struct os_walk before, fresh = { 0 };
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    const struct stack *known;
    size_t depth, kept;

    memcpy(&before, &own->walk, sizeof before);
    last = last_stack_find(own, here, unwinder);
    known = known_stacks_find(lately, here, unwinder).stack;
    CHECK(known->depth == last->depth && known->hash.one == last->hash.one && known->hash.other == last->hash.other);
    depth = os_stack_walk(frames, STACK_DEPTH, os_stack_outside(here), unwinder == OS_UNWIND_FRAMES ? NULL : &rules, &own->range, &fresh, &kept);
    CHECK_EQ(kept, 0);
    CHECK_EQ(last->depth, depth);
    CHECK(last->has_frames && memcmp(last->frames, frames, depth * sizeof *frames) == 0);
    if (last_stack_frames(&lately->last, known, frames))
        CHECK(memcmp(last->frames, frames, depth * sizeof *frames) == 0);
    os_stack_walk(frames, STACK_DEPTH, os_stack_outside(here), unwinder == OS_UNWIND_FRAMES ? NULL : &rules, &own->range, &before, &kept);
    frames_found += depth;
    frames_kept += kept;
}

// Callers of the same frame size: what is below them lies at the same places, with other return addresses in between.
__attribute__((noinline)) static void left(int depth, unsigned path);
__attribute__((noinline)) static void right(int depth, unsigned path) {
    if (depth == 0) look();
    else if (path & 1) left(depth - 1, path >> 1);
    else right(depth - 1, path >> 1);
    __asm__ volatile("" ::: "memory");
}
__attribute__((noinline)) static void left(int depth, unsigned path) {
    if (depth == 0) look();
    else if (path & 1) left(depth - 1, path >> 1);
    else right(depth - 1, path >> 1);
    __asm__ volatile("" ::: "memory");
}

static void frames_in_between_differ(void) {
    for (int i = 0; i < 4 * ROUNDS; i++) {
        unsigned path = (unsigned)random_next(&random_state);

        right((int)(path % 12), path >> 8);
    }
}

// Frames of all kinds, which call each other, look, leave, or jump out of all: with and without frame pointer, aligned, of a size known when it runs.
static void wander(int depth);

WITHOUT_FRAME_POINTER static void small(int depth) {
    wander(depth);
    __asm__ volatile("" ::: "memory");
}
WITHOUT_FRAME_POINTER static void large(int depth) {
    char room[200];

    __asm__ volatile("" ::"r"(&room[depth]) : "memory");
    wander(depth);
    __asm__ volatile("" ::: "memory");
}
__attribute__((noinline)) static void with_frame_pointer(int depth) {
    wander(depth);
    __asm__ volatile("" ::: "memory");
}
WITHOUT_FRAME_POINTER static void of_some_size(int depth) {
    volatile char *room = alloca(16 + 16 * random_below(&random_state, 3));

    room[0] = 1;
    wander(depth);
    __asm__ volatile("" ::: "memory");
}
WITHOUT_FRAME_POINTER static void aligned(int depth) {
    char room[64] __attribute__((aligned(64)));

    __asm__ volatile("" ::"r"(&room[depth]) : "memory");
    wander(depth);
    __asm__ volatile("" ::: "memory");
}
#if defined(__x86_64__)
#define ALL_REGISTERS "rbx", "r12", "r13", "r14", "r15"
#elif defined(__aarch64__)
#define ALL_REGISTERS "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28"
#endif
// The frame pointer holds anything, as its place does that is handed on to who calls.
WITHOUT_FRAME_POINTER static void uses_all_registers(int depth) {
    __asm__ volatile("" ::: ALL_REGISTERS, "memory");
    wander(depth);
    __asm__ volatile("" ::: ALL_REGISTERS, "memory");
}
WITHOUT_FRAME_POINTER static void twice(int depth) {
    wander(depth);
    wander(depth);
    __asm__ volatile("" ::: "memory");
}

static void (*const functions[FUNCTIONS])(int) = { small, large, with_frame_pointer, of_some_size, aligned, uses_all_registers, twice };

WITHOUT_FRAME_POINTER static void wander(int depth) {
    while (!any(3)) {
        if (any(400))
            longjmp(outside, 1);
        if (any(500))
            os_modules_change();
        if (depth > 0 && !any(3))
            functions[random_below(&random_state, FUNCTIONS)](depth - 1);
        else
            look();
    }
}

__attribute__((noinline)) static void wander_often(int rounds) {
    for (volatile int i = 0; i < rounds; i++)
        if (setjmp(outside) == 0)
            wander(14);
}

#ifdef __GLIBC__ // others have no contexts
// Stacks of contexts that take turns, each in the midst of its calls; and handlers on a stack of their own.
static ucontext_t contexts[OTHER_STACKS], home;
static int turn;

__attribute__((noinline)) static void go_on_elsewhere(int depth) {
    int from = turn;

    if (depth > 0)
        functions[depth % 2](0), go_on_elsewhere(depth - 1);
    look();
    turn = (turn + 1) % OTHER_STACKS;
    if (turn != from)
        swapcontext(&contexts[from], &contexts[turn]);
    look();
}

static void live_elsewhere(void) {
    if (setjmp(outside) == 0)
        go_on_elsewhere(12);
    swapcontext(&contexts[turn], &home);
}

static void handle(int signal) {
    (void)signal;
    right(3, 5);
}

static void stacks_take_turns(void) {
    struct sigaction action = { .sa_handler = handle, .sa_flags = SA_ONSTACK };
    stack_t other = { .ss_size = OTHER_BYTES };

    turn = 0;
    for (int i = 0; i < OTHER_STACKS; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = calloc(1, OTHER_BYTES);
        contexts[i].uc_stack.ss_size = OTHER_BYTES;
        makecontext(&contexts[i], live_elsewhere, 0);
    }
    right(5, 9);
    swapcontext(&home, &contexts[0]);
    right(5, 9);
    other.ss_sp = calloc(1, OTHER_BYTES);
    CHECK_EQ(sigaltstack(&other, NULL), 0);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    for (int i = 0; i < 100; i++) {
        right(i % 7, (unsigned)i);
        raise(SIGUSR1);
    }
}
#else
static void stacks_take_turns(void) {}
#endif

// What lies below where the thread is now may be taken away: it is not looked at. Both are called by one call, so that only their frames differ.
__attribute__((noinline)) static void look_deep(int depth) {
    char room[4096];

    __asm__ volatile("" ::"r"(room) : "memory");
    if (depth > 0) look_deep(depth - 1);
    else look();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void look_without_what_is_below(int pages) {
    size_t page = os_page_size(), bytes = round_up(20 * 4096, page);
    char *below = (char *)round_down((uintptr_t)__builtin_frame_address(0) - (uintptr_t)pages * 4096, page);

    CHECK_EQ(mprotect(below, bytes, PROT_NONE), 0);
    last_stack_find(own, (uintptr_t)__builtin_frame_address(0), unwinder);
    CHECK_EQ(mprotect(below, bytes, PROT_READ | PROT_WRITE), 0);
}

static void what_is_below_is_not_read(void) {
    void (*const of[])(int) = { look_deep, look_without_what_is_below };

    for (volatile int i = 0; i < 2; i++)
        of[i](40);
}

// Longer than what is kept of a walk, and than what is kept of a stack; of those without frame pointers a word a frame is read.
WITHOUT_FRAME_POINTER static void straight(int depth) {
    if (depth > 0) straight(depth - 1);
    else look();
    __asm__ volatile("" ::: "memory");
}

// As if a handler had found another stack between a walk and the look into the table.
__attribute__((noinline)) static struct stack *find_from_here(void) {
    struct stack *stack = last_stack_find(own, (uintptr_t)__builtin_frame_address(0), unwinder);

    __asm__ volatile("" ::: "memory");
    return stack;
}

__attribute__((noinline)) static void handlers_may_come_between(void) {
    for (volatile int i = 0; i < 3; i++) {
        CHECK_GT(last_stack_find(own, (uintptr_t)__builtin_frame_address(0), unwinder)->depth, 0);
        if (i == 1)
            own->stack = stacks_intern(0, (struct stack_hash){ 0 }, NULL);
        CHECK_GT(find_from_here()->depth, 0);
    }
}

#if defined(__x86_64__)
// A handler finds a stack after so many instructions, the next time after some more; so does who is interrupted, each its own. On another stack, and on the
// same one, where it meets the walk that was interrupted.
enum { TRAP_FLAG = 0x100 };
static volatile int steps;
static volatile bool finds;

static void begin_steps(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void expect_stack(const struct stack *stack, uintptr_t frame) {
    struct os_stack_range range = { 0 };
    uintptr_t frames[STACK_DEPTH];
    struct os_walk fresh = { 0 };
    size_t kept, depth = os_stack_walk(frames, STACK_DEPTH, os_stack_outside(frame), unwinder == OS_UNWIND_FRAMES ? NULL : &rules, &range, &fresh, &kept);

    CHECK_EQ(stack->depth, depth);
    CHECK(memcmp(stack->frames, frames, depth * sizeof *frames) == 0);
}

static void step(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (finds && --steps > 0)
        return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    if (finds)
        expect_stack(last_stack_find(own, (uintptr_t)__builtin_frame_address(0), unwinder), (uintptr_t)__builtin_frame_address(0));
}

__attribute__((noinline)) static void find_in_steps(void) {
    struct stack *stack;

    finds = true;
    raise(SIGUSR2);
    stack = last_stack_find(own, (uintptr_t)__builtin_frame_address(0), unwinder);
    finds = false;
    expect_stack(stack, (uintptr_t)__builtin_frame_address(0));
}

// False: there were not so many steps.
__attribute__((noinline)) static bool find_another_and_step(int wanted) {
    right(6, 21);
    steps = wanted;
    find_in_steps();
    return steps <= 0;
}

static void handlers_may_find_meanwhile(void) {
    struct sigaction begin = { .sa_sigaction = begin_steps, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    struct sigaction trap = { .sa_sigaction = step, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    stack_t other = { .ss_sp = calloc(1, OTHER_BYTES), .ss_size = OTHER_BYTES };

    CHECK_EQ(sigaltstack(&other, NULL), 0);
    CHECK_EQ(sigaction(SIGUSR2, &begin, NULL), 0);
    for (volatile int turn = 0; turn < 2; turn++) {
        trap.sa_flags = turn == 0 ? SA_SIGINFO | SA_ONSTACK : SA_SIGINFO;
        CHECK_EQ(sigaction(SIGTRAP, &trap, NULL), 0);
        for (volatile int wanted = 1; wanted < 3000 && find_another_and_step(wanted);)
            wanted += 11;
    }
    signal(SIGTRAP, SIG_DFL);
}
#else
static void handlers_may_find_meanwhile(void) {}
#endif

// The third time no walk is needed: what the last one left is not touched.
static void same_stacks_are_known(void) {
    for (volatile int i = 0; i < 4; i++) {
        lately->last.walk.count = 0;
        right(5, 9);
        CHECK_EQ(lately->last.walk.count == 0, i > 1);
    }
    known_stacks_clear(lately);
    right(5, 9);
    CHECK_GT(lately->last.walk.count, 0);
}

// Where modules changed, what tables told is open again.
static void of_other_modules_none_is_known(void) {
    for (volatile int i = 0; i < 6; i++) {
        if (i == 4)
            os_modules_change();
        lately->last.walk.count = 0;
        right(5, 9);
        CHECK_EQ(lately->last.walk.count == 0, i > 1 && (i != 4 || unwinder == OS_UNWIND_FRAMES));
    }
}

// Two from the same frame and the same caller, which differ further out. (Of two the one may have the other's place.)
static void stacks_in_turns_are_known(void) {
    bool known = false;

    for (volatile unsigned path = 4; path < 8 && !known; path++)
        for (volatile int i = 0; i < 6; i++) {
            lately->last.walk.count = 0;
            right(5, i % 2 == 0 ? 9 : path);
            known = lately->last.walk.count == 0;
        }
    CHECK(known);
}

__attribute__((noinline)) static void long_stacks_are_walked(void) {
    uintptr_t frames[2];
    struct os_walk cut = { 0 };
    size_t kept;

    CHECK_EQ(os_stack_walk(frames, 2, (uintptr_t)__builtin_frame_address(0), unwinder == OS_UNWIND_FRAMES ? NULL : &rules, &own->range, &cut, &kept), 2);
    CHECK_EQ(cut.count, 0);
    for (int i = 0; i < 100; i++) {
        right(OS_WALK_MOST - 50 + i, 0x5555);
        CHECK_GT(last->depth, OS_WALK_MOST - 50);
    }
    CHECK_EQ(last->depth, STACK_DEPTH);
    CHECK_EQ(own->walk.count, 0);
    right(OS_WALK_MOST / 2 - 20, 0x5555);
    CHECK_GT(own->walk.count, 0);
    for (int depth = STACK_DEPTH + 30; depth > STACK_DEPTH - 30; depth--)
        straight(depth);
}

// Code without tables that leaves anything in the frame pointer, by which the walk goes on: where it is saved, and what it is, differ where all return
// addresses further in are the same.
#ifdef __x86_64__
__asm__(".text\n.type without_tables,@function\nwithout_tables:\n push %rbp\n mov %rdi,%rbp\n call middle\n pop %rbp\n ret\n"
        ".type middle,@function\nmiddle:\n.cfi_startproc\n sub $8,%rsp\n.cfi_adjust_cfa_offset 8\n test %esi,%esi\n jne 1f\n call *%rdx\n jmp 2f\n"
        "1: call *%rdx\n2: add $8,%rsp\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n"
        ".type saves_above,@function\nsaves_above:\n.cfi_startproc\n push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbp,-16\n"
        " call *%rcx\n pop %rbp\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n"
        ".type saves_below,@function\nsaves_below:\n.cfi_startproc\n sub $64,%rsp\n.cfi_adjust_cfa_offset 64\n push %rbp\n"
        ".cfi_adjust_cfa_offset 8\n.cfi_offset %rbp,-80\n call *%rcx\n pop %rbp\n.cfi_adjust_cfa_offset -8\n add $64,%rsp\n"
        ".cfi_adjust_cfa_offset -64\n ret\n.cfi_endproc\n");
void without_tables(const uintptr_t *frame, int call, void (*saves)(void), void (*then)(void));
void saves_above(void), saves_below(void);

static void frame_pointers_are_compared(void) {
    const uintptr_t left_over[2][2] = { { 0, 5000 }, { 0, 6000 } };

    for (volatile int i = 0; i < 1000; i++)
        without_tables(left_over[any(2)], any(2), any(2) ? saves_above : saves_below, look);
}
#else
static void frame_pointers_are_compared(void) {}
#endif

// Code that has anything in the register of frame pointers. The address of an object that looks like frames is none of the stack, and the walk that comes
// to it is kept. On a thread's stack, for an object that lies above it.
enum { AMISS = 0x123456 };
#ifdef __x86_64__
void call_with(void *frame, void (*function)(void));
__asm__(".text\ncall_with: push %rbp\n mov %rdi, %rbp\n call *%rsi\n pop %rbp\n ret\n");

static void *leave(void *object) {
    right(0, 0); // the range is known from here on
    call_with(object, look);
    CHECK_GT(own->walk.count, 0);
    for (uint32_t i = 0; i < last->depth; i++)
        CHECK(last->frames[i] != AMISS);
    return NULL;
}

static void who_leaves_the_stack_is_at_its_end(void) {
    char *place = aligned_alloc(4096, 2 * OTHER_BYTES);
    uintptr_t *object = (uintptr_t *)(void *)(place + OTHER_BYTES + 4096);
    pthread_attr_t attributes;
    pthread_t thread;

    object[0] = (uintptr_t)&object[2];
    object[1] = object[3] = AMISS;
    object[2] = 0;
    last_stack_clear(own, true);
    known_stacks_clear(lately);
    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstack(&attributes, place, OTHER_BYTES), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, leave, object), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    free(place);
}
#else
static void who_leaves_the_stack_is_at_its_end(void) {}
#endif

#ifdef __GLIBC__
// Coroutines' stacks right below the thread's, so that they are taken for it: what was found on one that was taken away since is not looked at.
static ucontext_t lower, upper, thread_own;
static char *joined;

static void pause_between(void) {
    right(5, 9);
    swapcontext(&lower, &thread_own);
    right(5, 9);
}

static void look_and_end(void) {
    right(7, 9);
}

// What they return to, and the frame pointer that they begin with, are this function's: what is kept of both is the same but for their own frames.
static void *have_joined_stacks(void *nothing) {
    ucontext_t *context[] = { &lower, &upper };
    void (*const function[])(void) = { pause_between, look_and_end };

    right(0, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(getcontext(context[i]), 0);
        context[i]->uc_stack.ss_sp = joined + i * OTHER_BYTES;
        context[i]->uc_stack.ss_size = OTHER_BYTES;
        context[i]->uc_link = &thread_own;
        makecontext(context[i], function[i], 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(swapcontext(&thread_own, context[i]), 0);
    CHECK(own->range.low < (uintptr_t)joined + OTHER_BYTES);
    CHECK_EQ(munmap(joined + OTHER_BYTES, OTHER_BYTES), 0);
    CHECK_EQ(swapcontext(&thread_own, &lower), 0);
    right(5, 9);
    return nothing;
}

static void other_stacks_are_taken_away(void) {
    pthread_attr_t attributes;
    pthread_t thread;

    joined = mmap(NULL, 3 * OTHER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(joined != MAP_FAILED);
    last_stack_clear(own, true);
    known_stacks_clear(lately);
    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstack(&attributes, joined + 2 * OTHER_BYTES, OTHER_BYTES), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, have_joined_stacks, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(munmap(joined, OTHER_BYTES) | munmap(joined + 2 * OTHER_BYTES, OTHER_BYTES), 0);
}
#else
static void other_stacks_are_taken_away(void) {}
#endif

#if defined(__GLIBC__) && defined(__x86_64__)
// On a coroutine's stack code has anything in the register of frame pointers: where another coroutine's stack was, between this one and the thread's;
// where the thread went deep once, and what it took away since; and where another thread has memory now and then.
enum { RACE_TURNS = 1000 };
static _Atomic bool raced;
static char *now_and_then;

static void look_at(char *place) {
    for (int i = 0; i < 3; i++)
        call_with(place + i * 8, look);
}

static void *come_and_go(void *nothing) {
    while (!raced) {
        CHECK(mmap(now_and_then, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == now_and_then);
        CHECK_EQ(munmap(now_and_then, 4096), 0);
    }
    return nothing;
}

static void go_astray(void) {
    char *gap = joined + OTHER_BYTES, *deep = joined + 2 * OTHER_BYTES + 16 * 4096;
    pthread_t other;

    look_at(gap);
    look_at(gap + OTHER_BYTES / 2);
    look_at(gap + OTHER_BYTES - 32);
    CHECK_EQ(munmap(deep, 4096), 0);
    look_at(deep);
    CHECK(mmap(deep, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == deep);
    now_and_then = gap + OTHER_BYTES / 2;
    CHECK_EQ(pthread_create(&other, NULL, come_and_go, NULL), 0);
    for (int i = 0; i < RACE_TURNS; i++)
        call_with(now_and_then, look);
    raced = true;
    CHECK_EQ(pthread_join(other, NULL), 0);
}

static void go_on_below(void) {
    right(5, 9);
    swapcontext(&lower, &thread_own);
    go_astray();
}

static void *leave_for_below(void *nothing) {
    ucontext_t *context[] = { &upper, &lower };
    void (*const function[])(void) = { look_and_end, go_on_below };

    look_deep(45);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(getcontext(context[i]), 0);
        context[i]->uc_stack.ss_sp = joined + (1 - i) * OTHER_BYTES;
        context[i]->uc_stack.ss_size = OTHER_BYTES;
        context[i]->uc_link = &thread_own;
        makecontext(context[i], function[i], 0);
        CHECK_EQ(swapcontext(&thread_own, context[i]), 0);
    }
    CHECK_EQ(munmap(joined + OTHER_BYTES, OTHER_BYTES), 0);
    CHECK_EQ(swapcontext(&thread_own, &lower), 0);
    return nothing;
}

static void what_is_astray_is_not_touched(void) {
    pthread_attr_t attributes;
    pthread_t thread;

    raced = false;
    joined = mmap(NULL, 3 * OTHER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(joined != MAP_FAILED);
    last_stack_clear(own, true);
    known_stacks_clear(lately);
    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstack(&attributes, joined + 2 * OTHER_BYTES, OTHER_BYTES), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, leave_for_below, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(munmap(joined, OTHER_BYTES) | munmap(joined + 2 * OTHER_BYTES, OTHER_BYTES), 0);
}
#else
static void what_is_astray_is_not_touched(void) {}
#endif

// A child that a thread forked which is not the first has that one's stack.
static void *fork_and_look(void *nothing) {
    pid_t child = fork();

    if (child != 0) {
        expect_child(child);
        return nothing;
    }
    last_stack_clear(own, true);
    known_stacks_clear(lately);
    right(5, 9);
    CHECK_GT(own->walk.count, 0);
    _exit(0);
}

static void who_was_forked_keeps_the_stack(void) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, fork_and_look, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

// What nobody told while there was no file to spare is asked again.
__attribute__((noinline)) static void what_was_not_told_is_asked_again(void) {
    struct rlimit limit, none;

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    os_modules_ask_loader(NULL);
    os_modules_change();
    for (volatile int turn = 0; turn < 2; turn++) {
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, turn == 0 ? &none : &limit), 0);
        straight(20);
    }
    CHECK(unwinder == OS_UNWIND_FRAMES || last->depth > 20);
    os_modules_ask_loader(dlsym(RTLD_DEFAULT, "_dl_find_object"));
}

// A thread whose first walk begins far down is known from there on, when it came up by small steps: no walk after it asks the kernel for anything.
__attribute__((noinline)) static void go_down(int depth) {
    volatile char room[1000];

    room[0] = 1;
    if (depth > 0)
        go_down(depth - 1);
    else {
        look();
        CHECK(own->range.own != 0 && own->range.own <= (uintptr_t)room);
    }
    room[999] = 1;
}

static void *begin_far_down(void *nothing) {
    last_stack_clear(own, true);
    known_stacks_clear(lately);
    go_down(30);
    return nothing;
}

static void who_begins_far_down_is_known(void) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, begin_far_down, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

__attribute__((noinline)) static void *all(void *nothing) {
    last_stack_clear(own, true);
    known_stacks_clear(lately);
    frames_found = frames_kept = 0;
    same_stacks_are_known();
    of_other_modules_none_is_known();
    stacks_in_turns_are_known();
    handlers_may_come_between();
    frames_in_between_differ();
    wander_often(ROUNDS);
    CHECK_GT(frames_kept, frames_found / 2);
    stacks_take_turns();
    what_is_below_is_not_read();
    frame_pointers_are_compared();
    long_stacks_are_walked();
    return nothing;
}

int main(void) {
    own = calloc(1, sizeof *own);
    lately = calloc(1, sizeof *lately);
    for (unwinder = OS_UNWIND_FRAMES; unwinder <= (OS_HAS_RULES ? OS_UNWIND_TABLES : OS_UNWIND_FRAMES); unwinder++) {
        pthread_t thread;

        all(NULL);
        handlers_may_find_meanwhile();
        CHECK_EQ(pthread_create(&thread, NULL, all, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        who_begins_far_down_is_known();
        who_was_forked_keeps_the_stack();
        what_was_not_told_is_asked_again();
        other_stacks_are_taken_away();
        what_is_astray_is_not_touched();
    }
    unwinder = OS_UNWIND_FRAMES;
    who_leaves_the_stack_is_at_its_end();
    return 0;
}
