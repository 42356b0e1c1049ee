// Preloaded behind the library: each sampled stack is found by our reader of unwind tables, anew and by the thread's last walk, and by the system's unwinder, and
// what differs is told at exit, into the file COMPARE_STACKS.  The first five differences are told in full.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "os/module.h"
#include "os/rules.h"
#include "os/stack.h"

enum { DEPTH = 128 };

typedef void hook(void **frames, unsigned *count, unsigned most);
int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

static struct os_rules rules;
static _Atomic long equal, beyond, different, torn, met, told;

struct list {
    uintptr_t *frames;
    size_t count;
};

static _Unwind_Reason_Code add(struct _Unwind_Context *context, void *argument) {
    struct list *list = argument;
    uintptr_t code = _Unwind_GetIP(context);

    if (code >= 4096)
        list->frames[list->count++] = code;
    return code >= 4096 && list->count < DEPTH ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void tell(const char *whose, const uintptr_t *frames, size_t count) {
    fprintf(stderr, "%s:", whose);
    for (size_t i = 0; i < count; i++) {
        Dl_info info;

        if (dladdr((void *)frames[i], &info) != 0)
            fprintf(stderr, " %s(%s)+0x%lx", info.dli_sname == NULL ? "" : info.dli_sname, strrchr(info.dli_fname, '/'), (long)(frames[i] - (uintptr_t)info.dli_fbase));
        else
            fprintf(stderr, " %p", (void *)frames[i]);
    }
    fprintf(stderr, "\n");
}

// The frames further in than where the thread's last walk was met, and the outermost ones of the last stack.
static bool is_found_by_last(const uintptr_t *frames, size_t depth, uintptr_t frame) {
    static _Thread_local struct os_stack_range range;
    static _Thread_local struct os_walk walk;
    static _Thread_local uintptr_t stack[DEPTH];
    static _Thread_local size_t stack_depth;
    uintptr_t found[DEPTH];
    size_t kept, count = os_stack_walk(found, DEPTH, frame, &rules, &range, &walk, &kept);

    walk.taken = walk.begun;
    if (count + kept != depth)
        return false;
    memcpy(found + count, stack + stack_depth - kept, kept * sizeof *found);
    memcpy(stack, found, depth * sizeof *found);
    stack_depth = depth;
    met += kept > 0;
    return memcmp(found, frames, depth * sizeof *found) == 0;
}

// The system's begins in here: what it found of our callers is what begins with ours.
static void compare(void **frames, unsigned *count, unsigned most) {
    static _Thread_local bool busy;
    struct os_stack_range range = { 0 };
    uintptr_t ours[DEPTH], system[DEPTH], *theirs = system;
    struct list list = { system, 0 };
    struct os_walk none;
    uintptr_t frame = os_stack_outside((uintptr_t)__builtin_frame_address(0));
    size_t kept, depth, left;

    none.count = 0;
    depth = os_stack_walk(ours, DEPTH, frame, &rules, &range, &none, &kept);
    torn += !is_found_by_last(ours, depth, frame);
    _Unwind_Backtrace(add, &list);
    for (left = list.count; left > 0 && *theirs != ours[0]; left--)
        theirs++;
    if (list.count == DEPTH)
        depth = depth < left ? depth : left;
    *count = 0;
    for (; *count < most && *count < depth; (*count)++)
        frames[*count] = (void *)ours[*count];
    if (left == depth && memcmp(ours, theirs, depth * sizeof *ours) == 0)
        equal++;
    else if (left > 0 && left < depth && memcmp(ours, theirs, left * sizeof *ours) == 0)
        beyond++;
    else
        different++;
    if ((left == depth && memcmp(ours, theirs, depth * sizeof *ours) == 0) || busy || told++ >= 5)
        return;
    busy = true;
    tell("ours", ours, depth);
    tell("theirs", theirs, left);
    busy = false;
}

__attribute__((constructor)) static void begin(void) {
    hook *ours = compare;

    if (mallctl == NULL || mallctl("experimental.hooks.prof_backtrace", NULL, NULL, &ours, sizeof ours) != 0)
        abort();
    os_modules_ask_loader(dlsym(RTLD_DEFAULT, "_dl_find_object"));
}

__attribute__((destructor)) static void end(void) {
    FILE *file = fopen(getenv("COMPARE_STACKS"), "a");

    fprintf(file, "{\"equal\": %ld, \"beyond\": %ld, \"different\": %ld, \"torn\": %ld, \"met\": %ld}\n", equal, beyond, different, torn, met);
    fclose(file);
}
