// Tests the functions of <vmag/vmem.h> one by one: arguments, results, errors, and the vectors of the paper.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/vmem.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "../check.h"

#define AT(integer) ((void *)(uintptr_t)(integer))
#define INT(address) ((uintptr_t)(address))

static vmag_vmem_t *plain(uintptr_t base, size_t size, size_t quantum) {
    vmag_vmem_t *arena = vmag_vmem_create("plain", AT(base), size, quantum, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);

    CHECK(arena != NULL);
    return arena;
}

static uintptr_t get(vmag_vmem_t *arena, size_t size, int policy) {
    return INT(vmag_vmem_alloc(arena, size, VMAG_VM_NOSLEEP | policy));
}

// 2001, §4.3.1 and §4.3.2: [100, 500) and [600, 800). The paper's 262 is no multiple of 64 plus 8; 200 and 264 are.
static void the_papers_example(void) {
    vmag_vmem_t *foo = plain(100, 400, 1);

    CHECK_EQ(INT(vmag_vmem_add(foo, AT(600), 200, VMAG_VM_SLEEP)), 600);
    uintptr_t place = INT(vmag_vmem_xalloc(foo, 20, 64, 8, 0, AT(200), AT(300), VMAG_VM_SLEEP));
    CHECK(place == 200 || place == 264);
    uintptr_t other = INT(vmag_vmem_xalloc(foo, 20, 64, 8, 0, AT(200), AT(300), VMAG_VM_SLEEP));
    CHECK(other + place == 200 + 264);
    errno = 0;
    CHECK(vmag_vmem_xalloc(foo, 20, 64, 8, 0, AT(200), AT(300), VMAG_VM_NOSLEEP) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK_EQ(vmag_vmem_size(foo, VMAG_VMEM_ALLOC), 40);
    CHECK_EQ(vmag_vmem_size(foo, VMAG_VMEM_FREE), 560);
    CHECK_EQ(vmag_vmem_size(foo, VMAG_VMEM_ALLOC | VMAG_VMEM_FREE), 600);
    CHECK_EQ(vmag_vmem_size(foo, VMAG_VMEM_SPAN), 600);
    CHECK_EQ(vmag_vmem_size(foo, VMAG_VMEM_MAXFREE), 216); // [284, 500)
    vmag_vmem_xfree(foo, AT(place), 20);
    vmag_vmem_xfree(foo, AT(other), 20);
    CHECK_EQ(vmag_vmem_size(foo, VMAG_VMEM_MAXFREE), 400);
    vmag_vmem_destroy(foo);
}

static void impossible_arguments(void) {
    struct {
        uintptr_t base;
        size_t size, quantum;
    } wrong[] = {{1, 10, 0}, {1, 10, 3}, {0, 10, 1}, {1, 10, 2}, {2, 9, 2}, {UINTPTR_MAX - 3, 5, 1}, {UINTPTR_MAX - 3, 8, 4}};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        errno = 0;
        CHECK(vmag_vmem_create("wrong", AT(wrong[i].base), wrong[i].size, wrong[i].quantum, NULL, NULL, NULL, 0, 0) == NULL);
        CHECK_EQ(errno, EINVAL);
    }
    CHECK(vmag_vmem_create(NULL, AT(1), 1, 1, NULL, NULL, NULL, 0, 0) == NULL && errno == EINVAL);
    CHECK(vmag_vmem_create("release alone", NULL, 0, 1, NULL, vmag_vmem_free, NULL, 0, 0) == NULL && errno == EINVAL);
    vmag_vmem_destroy(NULL);
}

static void the_last_integers(void) {
    vmag_vmem_t *last = plain(UINTPTR_MAX - 10, 10, 1);

    CHECK_EQ(get(last, 10, 0), UINTPTR_MAX - 10);
    CHECK_EQ(get(last, 1, 0), 0);
    vmag_vmem_free(last, AT(UINTPTR_MAX - 10), 10);
    CHECK_EQ(INT(vmag_vmem_xalloc(last, 1, 4, 2, 0, NULL, NULL, VMAG_VM_NOSLEEP)) % 4, 2);
    CHECK_EQ(INT(vmag_vmem_xalloc(last, 4, 64, 0, 0, NULL, NULL, VMAG_VM_NOSLEEP)), 0);
    CHECK_EQ(INT(vmag_vmem_xalloc(last, 1, 0, 0, 0, AT(UINTPTR_MAX), NULL, VMAG_VM_NOSLEEP)), 0);
    CHECK_EQ(get(last, SIZE_MAX, 0), 0);
    CHECK_EQ(get(last, SIZE_MAX / 2 + 1, VMAG_VM_BESTFIT), 0);
    vmag_vmem_walk(last, VMAG_VMEM_ALLOC, (void (*)(void *, void *, size_t))(void *)vmag_vmem_xfree, last);
    vmag_vmem_destroy(last);
}

// No place at or above them: what lies there is not rounded up to one around all integers.
static void limits_near_the_last(void) {
    vmag_vmem_t *arena = plain(0x1000, 0x100000, 0x1000);

    CHECK_EQ(INT(vmag_vmem_xalloc(arena, 0x1000, 0x10000, 0x8000, 0, AT(0xfffffffffffff000), NULL, VMAG_VM_NOSLEEP)), 0);
    CHECK_EQ(INT(vmag_vmem_xalloc(arena, 0x1000, 0x10000, 0x8000, 0, AT(UINTPTR_MAX), NULL, VMAG_VM_NOSLEEP)), 0);
    CHECK_EQ(INT(vmag_vmem_xalloc(arena, 0x2000, 0x10000, 0x8000, 0x20000, AT(0xffffffffffff9000), NULL, VMAG_VM_NOSLEEP)), 0);
    CHECK_EQ(INT(vmag_vmem_xalloc(arena, 0x1000, 0x10000, 0x8000, 0, AT(0x100000), NULL, VMAG_VM_NOSLEEP)), 0);
    vmag_vmem_destroy(arena);
}

// A size that is no multiple of the quantum lies below a limit that is none either; its quantum may reach beyond.
static void limits_amid_a_quantum(void) {
    vmag_vmem_t *arena = plain(64, 64, 8);

    CHECK_EQ(INT(vmag_vmem_xalloc(arena, 18, 0, 0, 0, NULL, AT(81), VMAG_VM_NOSLEEP)), 0);
    CHECK_EQ(INT(vmag_vmem_xalloc(arena, 18, 0, 0, 0, NULL, AT(82), VMAG_VM_NOSLEEP)), 64);
    CHECK_EQ(INT(vmag_vmem_xalloc(arena, 16, 0, 0, 0, NULL, AT(103), VMAG_VM_NOSLEEP)), 0);
    CHECK_EQ(INT(vmag_vmem_xalloc(arena, 15, 0, 0, 0, NULL, AT(103), VMAG_VM_NOSLEEP)), 88);
    CHECK_EQ(INT(vmag_vmem_xalloc(arena, 18, 0, 0, 0, NULL, AT(UINTPTR_MAX), VMAG_VM_NOSLEEP)), 104);
    vmag_vmem_xfree(arena, AT(64), 18);
    vmag_vmem_xfree(arena, AT(88), 15);
    vmag_vmem_xfree(arena, AT(104), 18);
    vmag_vmem_destroy(arena);
}

static void note_start(void *starts, void *start, size_t size) {
    uintptr_t **at = starts;

    CHECK_EQ(size, 10);
    *(*at)++ = INT(start);
}

// Spans that are added lie by address, whatever the order in which they came: next fit and walks go that way.
static void spans_by_address(void) {
    static const uintptr_t come[] = {100, 10, 200, 50, 60, 1};
    static const uintptr_t sorted[] = {1, 10 + 1, 50 + 1, 60 + 1, 100 + 1, 200 + 1};
    uintptr_t starts[6], *at = starts;
    vmag_vmem_t *arena = plain(0, 0, 1);

    for (size_t i = 0; i < 6; i++)
        CHECK(vmag_vmem_add(arena, AT(come[i] + (i < 5)), 10, VMAG_VM_NOSLEEP) != NULL);
    vmag_vmem_walk(arena, VMAG_VMEM_FREE, note_start, &at);
    CHECK_EQ(at - starts, 6);
    for (size_t i = 0; i < 6; i++) {
        CHECK_EQ(starts[i], sorted[i]);
        CHECK_EQ(get(arena, 10, VMAG_VM_NEXTFIT), sorted[i]);
    }
    for (size_t i = 0; i < 6; i++)
        vmag_vmem_free(arena, AT(sorted[i]), 10);
    vmag_vmem_destroy(arena);
}

// An arena [1, 1001) whose free segments have the given sizes, each between allocated integers.
static vmag_vmem_t *with_holes(const size_t *holes, size_t count) {
    vmag_vmem_t *arena = plain(1, 1000, 1);
    uintptr_t at[16];

    for (size_t i = 0; i < count; i++) {
        at[i] = get(arena, holes[i], VMAG_VM_NEXTFIT);
        CHECK(get(arena, 1, VMAG_VM_NEXTFIT) == at[i] + holes[i]);
    }
    for (size_t i = 0; i < count; i++)
        vmag_vmem_free(arena, AT(at[i]), holes[i]);
    return arena;
}

static void empty(vmag_vmem_t *arena) {
    vmag_vmem_walk(arena, VMAG_VMEM_ALLOC, (void (*)(void *, void *, size_t))(void *)vmag_vmem_xfree, arena);
    CHECK_EQ(vmag_vmem_size(arena, VMAG_VMEM_MAXFREE), vmag_vmem_size(arena, VMAG_VMEM_SPAN));
    vmag_vmem_destroy(arena);
}

// Request 33, holes 40 at 1, 33 at 42, 100 at 76, and the rest from 177 on.
static void policies(void) {
    static const size_t holes[] = {40, 33, 100};
    vmag_vmem_t *arena = with_holes(holes, 3);

    CHECK_EQ(get(arena, 33, VMAG_VM_INSTANTFIT), 76); // the first list all of whose segments are large enough
    empty(arena);
    arena = with_holes(holes, 3);
    CHECK_EQ(get(arena, 33, VMAG_VM_BESTFIT), 42);
    CHECK_EQ(get(arena, 33, VMAG_VM_BESTFIT), 1);
    CHECK_EQ(get(arena, 33, VMAG_VM_BESTFIT), 76);
    empty(arena);
    arena = with_holes(holes, 3);
    uintptr_t first = get(arena, 33, VMAG_VM_FIRSTFIT);
    CHECK(first == 1 || first == 42);
    empty(arena);
    arena = with_holes(holes, 3);
    CHECK_EQ(get(arena, 33, VMAG_VM_NEXTFIT), 177);
    CHECK_EQ(get(arena, 700, VMAG_VM_NEXTFIT), 210);
    CHECK_EQ(get(arena, 92, VMAG_VM_NEXTFIT), 76); // behind the rotor are 91
    empty(arena);
}

// Where nothing larger is free, instant fit looks through the list of the request's own size.
static void nothing_is_refused(void) {
    static const size_t holes[] = {40, 50, 63, 45};
    vmag_vmem_t *arena = with_holes(holes, 4);

    CHECK(get(arena, 1000 - 202, VMAG_VM_INSTANTFIT) != 0);
    CHECK_EQ(get(arena, 60, VMAG_VM_INSTANTFIT), 1 + 41 + 51);
    CHECK_EQ(get(arena, 60, VMAG_VM_INSTANTFIT), 0);
    CHECK_EQ(get(arena, 46, VMAG_VM_INSTANTFIT), 1 + 41);
    empty(arena);
}

// All integers are handed out before one is handed out again, whatever is freed meanwhile.
static void next_fit_cycles(void) {
    vmag_vmem_t *ids = plain(1, 300, 1);

    for (int round = 0; round < 3; round++)
        for (uintptr_t i = 1; i <= 300; i++) {
            CHECK_EQ(get(ids, 1, VMAG_VM_NEXTFIT), i);
            vmag_vmem_free(ids, AT(i), 1);
        }
    CHECK_EQ(get(ids, 300, VMAG_VM_NEXTFIT), 1); // and the rotor never keeps free neighbours apart
    empty(ids);
}

struct seen {
    uintptr_t start[8];
    size_t size[8], count;
};

static void see(void *argument, void *address, size_t size) {
    struct seen *seen = argument;

    CHECK(seen->count < 8);
    seen->start[seen->count] = INT(address);
    seen->size[seen->count++] = size;
}

static void walks(void) {
    vmag_vmem_t *arena = plain(16, 64, 4);
    struct seen all = {0}, spans = {0}, allocated = {0};

    CHECK(vmag_vmem_add(arena, AT(200), 40, VMAG_VM_NOSLEEP) == AT(200));
    CHECK_EQ(INT(vmag_vmem_xalloc(arena, 7, 0, 0, 0, AT(24), AT(32), VMAG_VM_NOSLEEP)), 24);
    vmag_vmem_walk(arena, VMAG_VMEM_SPAN, see, &spans);
    CHECK(spans.count == 2 && spans.start[0] == 16 && spans.size[0] == 64 && spans.start[1] == 200 && spans.size[1] == 40);
    vmag_vmem_walk(arena, VMAG_VMEM_ALLOC, see, &allocated);
    CHECK(allocated.count == 1 && allocated.start[0] == 24 && allocated.size[0] == 7);
    vmag_vmem_walk(arena, VMAG_VMEM_ALLOC | VMAG_VMEM_FREE | VMAG_VMEM_REENTRANT, see, &all);
    CHECK(all.count == 4 && all.start[0] == 16 && all.start[1] == 24 && all.start[2] == 32 && all.start[3] == 200);
    CHECK_EQ(vmag_vmem_size(arena, VMAG_VMEM_ALLOC), 7); // as asked for
    CHECK(vmag_vmem_contains(arena, AT(16), 64) && vmag_vmem_contains(arena, AT(239), 1) && vmag_vmem_contains(arena, AT(30), 9));
    CHECK(!vmag_vmem_contains(arena, AT(15), 2) && !vmag_vmem_contains(arena, AT(79), 2) && !vmag_vmem_contains(arena, AT(100), 1));
    CHECK(!vmag_vmem_contains(arena, AT(16), SIZE_MAX));
    vmag_vmem_xfree(arena, AT(24), 7);
    vmag_vmem_destroy(arena);
}

static vmag_vmem_t *walked;

// In place of the second segment, which is freed, one that begins before it and reaches beyond.
static void replace_second(void *seen_, void *address, size_t size) {
    see(seen_, address, size);
    if (INT(address) != 66)
        return;
    vmag_vmem_xfree(walked, address, size);
    CHECK_EQ(INT(vmag_vmem_xalloc(walked, 90, 0, 0, 0, NULL, NULL, VMAG_VM_NOSLEEP)), 16);
}

// What a walk tells of is a segment, although its callback replaces it.
static void walk_that_replaces(void) {
    struct seen seen = {0};

    walked = plain(16, 100, 1);
    CHECK_EQ(INT(vmag_vmem_xalloc(walked, 50, 0, 0, 0, NULL, NULL, VMAG_VM_NOSLEEP)), 16);
    CHECK_EQ(INT(vmag_vmem_xalloc(walked, 30, 0, 0, 0, NULL, NULL, VMAG_VM_NOSLEEP)), 66);
    CHECK_EQ(INT(vmag_vmem_xalloc(walked, 10, 0, 0, 0, AT(106), NULL, VMAG_VM_NOSLEEP)), 106);
    vmag_vmem_xfree(walked, AT(16), 50);
    vmag_vmem_walk(walked, VMAG_VMEM_ALLOC, replace_second, &seen);
    CHECK(seen.count == 2 && seen.start[0] == 66 && seen.size[0] == 30 && seen.start[1] == 106 && seen.size[1] == 10);
    vmag_vmem_xfree(walked, AT(16), 90);
    vmag_vmem_xfree(walked, AT(106), 10);
    vmag_vmem_destroy(walked);
}

static vmag_vmem_t *raced;
static bool is_first = true;

// Another one is faster: it imports all that the source has, and leaves half of it.
static void *import_second(vmag_vmem_t *source, size_t size, int flags) {
    if (is_first) {
        is_first = false;
        CHECK_EQ(INT(vmag_vmem_alloc(raced, 32, VMAG_VM_NOSLEEP)), 64);
    }
    return vmag_vmem_alloc(source, size, flags);
}

// Who gets nothing from the source finds what another one brought from there.
static void import_that_is_late(void) {
    vmag_vmem_t *source = vmag_vmem_create("source", AT(64), 64, 64, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);

    raced = vmag_vmem_create("raced", NULL, 0, 1, import_second, vmag_vmem_free, source, 0, VMAG_VM_SLEEP);
    CHECK_EQ(INT(vmag_vmem_alloc(raced, 32, VMAG_VM_NOSLEEP)), 96);
    CHECK(vmag_vmem_alloc(raced, 32, VMAG_VM_NOSLEEP) == NULL);
    vmag_vmem_free(raced, AT(64), 32);
    vmag_vmem_free(raced, AT(96), 32);
    vmag_vmem_destroy(raced);
    vmag_vmem_destroy(source);
}

// A child imports spans and gives them back whole; its figures tell.
static void imports(void) {
    vmag_vmem_t *source = vmag_vmem_create("source", AT(4096), 64 * 1024, 4096, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
    vmag_vmem_t *child = vmag_vmem_create("child", NULL, 0, 64, vmag_vmem_alloc, vmag_vmem_free, source, 0, VMAG_VM_SLEEP);
    struct vmag_vmem_stats stats;
    struct {
        struct vmag_vmem_stats stats;
        size_t more;
    } newer;

    CHECK(vmag_vmem_source(child) == source && vmag_vmem_source(source) == NULL);
    uintptr_t a = get(child, 100, 0), b = get(child, 3000, 0), c = get(child, 4096, 0);
    CHECK_EQ(a / 4096, b / 4096);
    CHECK_EQ(vmag_vmem_size(source, VMAG_VMEM_ALLOC), 2 * 4096);
    uintptr_t d = INT(vmag_vmem_xalloc(child, 64, 8192, 64, 8192, NULL, NULL, VMAG_VM_NOSLEEP));
    CHECK_EQ(d % 8192, 64);
    vmag_vmem_stats(child, &stats, sizeof stats);
    CHECK(stats.allocs == 4 && stats.imports == 3 && stats.spans == 3 && stats.segments == 4 && stats.releases == 0);
    CHECK(stats.imported_bytes == stats.total_bytes && stats.in_use_bytes == 100 + 3000 + 4096 + 64 && stats.quantum == 64);
    CHECK(get(child, 64 * 1024, 0) == 0);
    CHECK(vmag_vmem_xalloc(child, 64, 0, 0, 0, AT(1), AT(64), VMAG_VM_NOSLEEP) == NULL);
    vmag_vmem_free(child, AT(a), 100);
    vmag_vmem_free(child, AT(b), 3000);
    vmag_vmem_free(child, AT(c), 4096);
    vmag_vmem_xfree(child, AT(d), 64);
    vmag_vmem_stats(child, &stats, 11 * sizeof(size_t)); // a program of an older version knows fewer fields
    CHECK(stats.total_bytes == 0 && stats.fails == 2 && stats.frees == 4 && stats.imports == 3);
    memset(&newer, 0xff, sizeof newer);
    vmag_vmem_stats(child, &newer.stats, sizeof newer); // and one of a newer version more, which are 0
    CHECK(newer.stats.frees == 4 && newer.more == 0);
    CHECK_EQ(vmag_vmem_size(source, VMAG_VMEM_ALLOC), 0);
    vmag_vmem_destroy(child);
    vmag_vmem_destroy(source);
}

static void name_seen(void *argument, vmag_vmem_t *arena) {
    *(int *)argument += !strcmp(vmag_vmem_name(arena), "100_ certain");
}

static void names(void) {
    char longest[200];
    int found = 0;

    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    vmag_vmem_t *one = vmag_vmem_create("100% certain", AT(1), 1, 1, NULL, NULL, NULL, 0, 0);
    vmag_vmem_t *two = vmag_vmem_create(longest, NULL, 0, 1, NULL, NULL, NULL, 0, 0);
    vmag_vmem_each(name_seen, &found);
    CHECK_EQ(found, 1);
    CHECK_EQ(strlen(vmag_vmem_name(two)), 63);
    vmag_vmem_destroy(one);
    vmag_vmem_destroy(two);
    found = 0;
    vmag_vmem_each(name_seen, &found);
    CHECK_EQ(found, 0);
}

static void mapped_pages(void) {
    vmag_vmem_alloc_t *import;
    vmag_vmem_free_t *release;
    vmag_vmem_t *heap = vmag_vmem_heap_arena(&import, &release);
    vmag_vmem_t *mine = vmag_vmem_create("mine", NULL, 0, 16, import, release, heap, 0, VMAG_VM_SLEEP);
    char *text = vmag_vmem_alloc(mine, 100000, VMAG_VM_SLEEP);

    CHECK(heap == vmag_vmem_heap_arena(NULL, NULL));
    memset(text, 'a', 100000);
    vmag_vmem_free(mine, text, 100000);
    CHECK_EQ(vmag_vmem_size(heap, VMAG_VMEM_SPAN), 0); // given back to the kernel
    vmag_vmem_destroy(mine);
}

int main(void) {
    the_papers_example();
    impossible_arguments();
    the_last_integers();
    limits_near_the_last();
    limits_amid_a_quantum();
    spans_by_address();
    policies();
    nothing_is_refused();
    next_fit_cycles();
    walks();
    walk_that_replaces();
    import_that_is_late();
    imports();
    names();
    mapped_pages();
    return 0;
}
