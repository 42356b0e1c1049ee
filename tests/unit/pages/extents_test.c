// Tests pages/extents.h through an arena with hooks of its own: all nine are called where they have a meaning, each may refuse,
// and what they are told adds up.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "pages/extents.h"

#include <jemalloc/jemalloc.h>
#include <sys/mman.h>
#include <time.h>

#include "heap/explicit.h"
#include "pages/chunks.h"
#include "pages/page_map.h"
#include "unit.h"

enum hook { ALLOC, DALLOC, DESTROY, COMMIT, DECOMMIT, PURGE_LAZY, PURGE_FORCED, SPLIT, MERGE, HOOKS };
enum { CHUNK = 2 << 20, RANGES_MOST = 256 };

// Hooks over the default ones: they count, keep book of what is given and how it is cut, and refuse what they are told to.
static struct {
    unsigned calls[HOOKS];
    bool refuses[HOOKS];
    unsigned arena;
    size_t bytes; // given and not taken back
    struct range {
        uintptr_t start;
        size_t size;
        bool decommitted;
    } ranges[RANGES_MOST];
    extent_hooks_t *inner;
} book;

static bool called(enum hook hook, unsigned arena) {
    book.calls[hook]++;
    CHECK_EQ(arena, book.arena);
    return book.refuses[hook];
}

static struct range *range_at(const void *start, size_t size) {
    for (int i = 0; i < RANGES_MOST; i++)
        if (book.ranges[i].start == (uintptr_t)start && book.ranges[i].size == size)
            return &book.ranges[i];
    CHECK_SAY(false, "no extent at %p of %zu bytes", start, size);
    return NULL;
}

static void range_add(uintptr_t start, size_t size, bool decommitted) {
    for (int i = 0; i < RANGES_MOST; i++)
        if (book.ranges[i].size == 0) {
            book.ranges[i] = (struct range){start, size, decommitted};
            book.bytes += size;
            return;
        }
    CHECK(!"too many extents");
}

static void range_drop(struct range *range) {
    book.bytes -= range->size;
    range->size = 0;
}

static void *hook_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    CHECK(new_addr == NULL && size % CHUNK == 0 && align % CHUNK == 0 && *commit);
    if (called(ALLOC, arena))
        return NULL;
    void *start = book.inner->alloc(book.inner, NULL, size, align, zero, commit, arena);
    CHECK(hooks != NULL && start != NULL);
    memset(start, 0x77, size); // hooks need not give zeroes
    *zero = false;
    range_add((uintptr_t)start, size, false);
    return start;
}

static bool hook_dalloc(extent_hooks_t *hooks, void *start, size_t size, bool committed, unsigned arena) {
    struct range *range = range_at(start, size);

    CHECK(hooks != NULL && committed == !range->decommitted);
    if (called(DALLOC, arena))
        return true;
    range_drop(range);
    return book.inner->dalloc(book.inner, start, size, committed, arena);
}

static void hook_destroy(extent_hooks_t *hooks, void *start, size_t size, bool committed, unsigned arena) {
    struct range *range = range_at(start, size);

    CHECK(hooks != NULL && committed == !range->decommitted);
    called(DESTROY, arena);
    range_drop(range);
    book.inner->destroy(book.inner, start, size, committed, arena);
}

static bool hook_commit(extent_hooks_t *hooks, void *start, size_t size, size_t offset, size_t length, unsigned arena) {
    struct range *range = range_at(start, size);

    CHECK(hooks != NULL && offset == 0 && length == size && range->decommitted);
    if (called(COMMIT, arena))
        return true;
    CHECK_EQ(mprotect(start, size, PROT_READ | PROT_WRITE), 0);
    range->decommitted = false;
    return false;
}

static bool hook_decommit(extent_hooks_t *hooks, void *start, size_t size, size_t offset, size_t length, unsigned arena) {
    struct range *range = range_at(start, size);

    CHECK(hooks != NULL && offset == 0 && length == size && !range->decommitted);
    if (called(DECOMMIT, arena))
        return true;
    CHECK_EQ(mprotect(start, size, PROT_NONE), 0); // whoever touches it now is found
    range->decommitted = true;
    return false;
}

static bool purge(enum hook hook, void *start, size_t size, size_t offset, size_t length, unsigned arena) {
    CHECK(range_at(start, size) != NULL && offset + length <= size && length > 0);
    if (called(hook, arena))
        return true;
    memset((char *)start + offset, 0x66, length);
    return false;
}

static bool hook_purge_lazy(extent_hooks_t *hooks, void *start, size_t size, size_t offset, size_t length, unsigned arena) {
    CHECK(hooks != NULL);
    return purge(PURGE_LAZY, start, size, offset, length, arena);
}

static bool hook_purge_forced(extent_hooks_t *hooks, void *start, size_t size, size_t offset, size_t length, unsigned arena) {
    CHECK(hooks != NULL);
    return purge(PURGE_FORCED, start, size, offset, length, arena);
}

static bool hook_split(extent_hooks_t *hooks, void *start, size_t size, size_t size_a, size_t size_b, bool committed, unsigned arena) {
    struct range *range = range_at(start, size), before = *range;

    CHECK(hooks != NULL && size == size_a + size_b && committed == !range->decommitted);
    if (called(SPLIT, arena))
        return true;
    range_drop(range);
    range_add(before.start, size_a, before.decommitted);
    range_add(before.start + size_a, size_b, before.decommitted);
    return false;
}

static bool hook_merge(extent_hooks_t *hooks, void *a, size_t size_a, void *b, size_t size_b, bool committed, unsigned arena) {
    struct range *low = range_at(a, size_a), *high = range_at(b, size_b);

    CHECK(hooks != NULL && low->start + low->size == high->start && committed == !low->decommitted &&
          low->decommitted == high->decommitted);
    if (called(MERGE, arena))
        return true;
    range_drop(high);
    low->size += size_b;
    book.bytes += size_b;
    return false;
}

static extent_hooks_t hooks = {hook_alloc,      hook_dalloc,       hook_destroy, hook_commit, hook_decommit,
                               hook_purge_lazy, hook_purge_forced, hook_split,   hook_merge};

static unsigned begin(void) {
    memset(&book, 0, sizeof book);
    book.inner = arena_hooks(arena_of(0));
    CHECK_EQ(arenas_make(&hooks, &book.arena), 0);
    CHECK(arena_hooks(arena_of(book.arena)) == &hooks);
    CHECK_EQ(arena_set_dirty_decay_ms(arena_of(book.arena), -1), 0);
    return book.arena;
}

// After the arena is destroyed nothing of what the hooks gave is left out.
static void end(void) {
    CHECK_EQ(arena_destroy(book.arena, NULL), 0);
    CHECK_EQ(book.bytes, 0);
    CHECK(!arena_is_live(book.arena));
}

static void *take(size_t size) {
    unsigned char *object = mallocx(size, MALLOCX_ARENA(book.arena) | MALLOCX_TCACHE_NONE | MALLOCX_ZERO);

    CHECK(object != NULL && object[0] == 0 && object[size - 1] == 0 && object[size / 2] == 0);
    memset(object, 0x5c, size);
    return object;
}

static void given_and_taken_back(void) {
    begin();
    void *small = take(100), *large = take(100000), *huge = take(7 << 20);
    CHECK(book.calls[ALLOC] >= 2 && book.calls[COMMIT] == 0);
    size_t bytes = book.bytes;
    free(huge);
    arena_purge(arena_of(book.arena));
    CHECK(book.calls[DALLOC] == 1 && book.bytes == bytes - (8u << 20)); // unused spans go whole
    free(large);
    arena_purge(arena_of(book.arena));
    CHECK(book.calls[PURGE_FORCED] > 0 && book.calls[PURGE_LAZY] == 0); // part of a span in use
    free(small);
    arena_purge(arena_of(book.arena));
    CHECK(book.bytes == 0 && book.calls[DECOMMIT] == 0 && book.calls[DESTROY] == 0);
    end();
}

// Free pages inside slabs go through the hooks too.
static void holes_purged(void) {
    static void *objects[400];

    begin();
    for (int i = 0; i < 400; i++)
        objects[i] = take(1024);
    for (int i = 0; i < 400; i++)
        if (i % 40 != 0)
            free(objects[i]);
    book.calls[PURGE_FORCED] = 0;
    arena_purge(arena_of(book.arena));
    CHECK_GT(book.calls[PURGE_FORCED], 0);
    for (int i = 0; i < 400; i += 40)
        CHECK(*(unsigned char *)objects[i] == 0x5c);
    end();
}

// dalloc refuses: kept decommitted, cut, committed and used again, joined, and destroyed in the end.
static void kept(void) {
    begin();
    book.refuses[DALLOC] = true;
    void *a = take(7 << 20), *small;
    unsigned given = book.calls[ALLOC];

    free(a);
    arena_purge(arena_of(book.arena));
    CHECK(book.calls[DALLOC] == 1 && book.calls[DECOMMIT] == 1 && arena_of(book.arena)->pages.extents.kept_bytes == 8u << 20);
    small = take(3 << 20);
    CHECK(book.calls[ALLOC] == given && book.calls[SPLIT] == 1 && book.calls[COMMIT] == 1);
    free(small);
    arena_purge(arena_of(book.arena));
    CHECK(book.calls[MERGE] == 1 && arena_of(book.arena)->pages.extents.kept_bytes == 8u << 20);
    a = take(7 << 20);
    CHECK(book.calls[ALLOC] == given); // it is one again
    free(a);
    arena_purge(arena_of(book.arena));
    CHECK_EQ(book.calls[DESTROY], 0);
    end();
    CHECK_EQ(book.calls[DESTROY], 1);
}

// What was imported piece by piece is kept, put together and cut, and then goes back: nothing of it stays the process's.
static void kept_goes_back(void) {
    size_t mapped = chunks_mapped_bytes(), frees = heap_arena.frees, allocs = heap_arena.allocs;

    for (int round = 0; round < 3; round++) {
        void *objects[8];

        begin();
        book.refuses[DALLOC] = true;
        for (int i = 0; i < 8; i++)
            objects[i] = take(3 << 20);
        for (int i = 0; i < 8; i++)
            free(objects[i]);
        arena_purge(arena_of(book.arena));
        CHECK_GT(book.calls[MERGE], 0);
        objects[0] = take(5 << 20);
        objects[1] = take(1 << 20);
        CHECK_GT(book.calls[SPLIT], 0);
        book.refuses[DALLOC] = round == 0;
        for (int i = 0; i < 2; i++)
            free(objects[i]);
        arena_purge(arena_of(book.arena));
        end();
        CHECK_EQ(chunks_mapped_bytes(), mapped);
        vmem_check(&heap_arena);
    }
    CHECK_EQ(heap_arena.allocs - allocs, heap_arena.frees - frees);
}

static void exercise(void) {
    void *objects[40];

    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 40; i++)
            objects[i] = take(1 + (size_t)i * (i % 7 == 0 ? 250000 : 3000));
        for (int i = 0; i < 40; i++)
            free(objects[(i * 7 + round) % 40]);
        arena_purge(arena_of(book.arena));
    }
    CHECK_EQ(arena_reset(book.arena), 0);
    take(100);
    take(5 << 20);
}

// An unused extent goes back although nothing can be purged.
static void no_purging(void) {
    extent_hooks_t two = {.alloc = hook_alloc, .dalloc = hook_dalloc};

    begin();
    CHECK(arena_set_hooks(arena_of(book.arena), &two) == &hooks);
    free(take(7 << 20));
    arena_purge(arena_of(book.arena));
    CHECK_EQ(book.bytes, 0); // whole, without having been purged
    CHECK_EQ(arena_set_dirty_decay_ms(arena_of(book.arena), 0), 0);
    free(take(7 << 20));
    CHECK_EQ(book.bytes, 0);
    end();
}

// Each hook refusing alone, and each together with dalloc, so that what is kept meets it.
static void each_refuses(void) {
    for (int hook = DALLOC; hook < HOOKS; hook++)
        for (int keep = 0; keep < 2; keep++) {
            begin();
            book.refuses[hook] = true;
            book.refuses[DALLOC] |= keep;
            exercise();
            end();
        }
    for (int hook = COMMIT; hook < HOOKS; hook++) { // all but alloc, dalloc and one other
        begin();
        for (int other = DALLOC; other < HOOKS; other++)
            book.refuses[other] = other != hook;
        exercise();
        end();
    }
}

static void no_more(void) {
    begin();
    void *object = take(100);
    book.refuses[ALLOC] = true;
    CHECK(mallocx(5 << 20, MALLOCX_ARENA(book.arena)) == NULL);
    CHECK(mallocx(5 << 20, MALLOCX_ARENA(book.arena) | MALLOCX_ALIGN(4 << 20)) == NULL);
    free(object);
    book.refuses[ALLOC] = false;
    CHECK(take(5 << 20) != NULL);
    end();
}

// Only alloc is a must.
static void alloc_alone(void) {
    extent_hooks_t alone = {.alloc = hook_alloc};

    begin();
    CHECK(arena_set_hooks(arena_of(book.arena), &alone) == &hooks);
    free(take(7 << 20));
    arena_purge(arena_of(book.arena));
    CHECK_EQ(arena_of(book.arena)->pages.extents.kept_bytes, 8u << 20); // nobody takes it back
    unsigned given = book.calls[ALLOC];
    free(take(3 << 20));
    CHECK_EQ(book.calls[ALLOC], given + 1); // and nobody may cut it
    exercise();
    CHECK_EQ(arena_reset(book.arena), 0);
    CHECK_EQ(arena_destroy(book.arena, NULL), 0);
    CHECK_GT(book.bytes, 0); // nobody took it back
}

// Hooks that are exchanged meanwhile: each is told the table that it is of.
static extent_hooks_t others;

static bool exchanging(extent_hooks_t *own, void *start, size_t size, size_t offset, size_t length, unsigned arena) {
    CHECK(own != &others);
    arena_set_hooks(arena_of(arena), &others);
    return hook_purge_forced(own, start, size, offset, length, arena);
}

static bool purge_lazy_of_first(extent_hooks_t *own, void *start, size_t size, size_t offset, size_t length, unsigned arena) {
    CHECK(own != &others);
    return hook_purge_lazy(own, start, size, offset, length, arena);
}

static void exchanged(void) {
    extent_hooks_t first = hooks;

    others = hooks;
    first.purge_forced = exchanging;
    first.purge_lazy = purge_lazy_of_first;
    begin();
    arena_set_hooks(arena_of(book.arena), &first);
    book.refuses[PURGE_FORCED] = true;
    void *small = take(100);
    free(take(100000));
    arena_purge(arena_of(book.arena));
    CHECK(book.calls[PURGE_LAZY] > 0 && arena_hooks(arena_of(book.arena)) == &others);
    free(small);
    end();
}

// Memory that is not where it can be used is refused in one line, and given back.
static void *misplaced(extent_hooks_t *own, void *new_addr, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    CHECK(own != NULL && new_addr == NULL && align > 0 && !*zero && *commit);
    called(ALLOC, arena);
    range_add(0x1000, size, false);
    return (void *)0x1000;
}

static bool take_misplaced(extent_hooks_t *own, void *start, size_t size, bool committed, unsigned arena) {
    CHECK(own != NULL && committed);
    called(DALLOC, arena);
    range_drop(range_at(start, size));
    return false;
}

static void misplaced_refused(void) {
    extent_hooks_t wrong = {.alloc = misplaced, .dalloc = take_misplaced};

    begin();
    arena_set_hooks(arena_of(book.arena), &wrong);
    CHECK(mallocx(100, MALLOCX_ARENA(book.arena) | MALLOCX_TCACHE_NONE) == NULL);
    CHECK(book.calls[ALLOC] > 0 && book.bytes == 0);
    end();
}

// What cannot be used as nobody commits it, and dalloc will not have back, is destroyed at once: nobody else knows of it.
static void *uncommitted(extent_hooks_t *own, void *new_addr, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    void *start = book.refuses[COMMIT] ? hook_alloc(own, new_addr, size, align, zero, commit, arena) : NULL;

    if (start != NULL)
        range_at(start, size)->decommitted = !(*commit = false);
    return start;
}

static void useless_destroyed(void) {
    extent_hooks_t without = {.alloc = uncommitted, .destroy = hook_destroy}, refusing = hooks;

    for (int round = 0; round < 2; round++) {
        begin();
        refusing.alloc = uncommitted;
        book.refuses[COMMIT] = book.refuses[DALLOC] = true;
        arena_set_hooks(arena_of(book.arena), round == 0 ? &without : &refusing);
        CHECK(mallocx(100, MALLOCX_ARENA(book.arena) | MALLOCX_TCACHE_NONE) == NULL);
        CHECK_GT(book.calls[ALLOC], 0);
        CHECK_EQ(book.calls[DESTROY], book.calls[ALLOC]);
        CHECK_EQ(book.bytes, 0);
        end();
    }
}

// Memory wherever the kernel likes: the map grows to cover it; elsewhere nothing changes.
static void *elsewhere(extent_hooks_t *own, void *new_addr, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    CHECK(own != NULL && new_addr == NULL && !*zero && *commit);
    called(ALLOC, arena);
    char *start = mmap(NULL, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(start != MAP_FAILED);
    start = (char *)round_up((uintptr_t)start, align);
    range_add((uintptr_t)start, size, false);
    return start;
}

static bool take_elsewhere(extent_hooks_t *own, void *start, size_t size, bool committed, unsigned arena) {
    CHECK(own != NULL && committed);
    called(DALLOC, arena);
    range_drop(range_at(start, size));
    return munmap(start, size) != 0;
}

static void anywhere(void) {
    extent_hooks_t far = {.alloc = elsewhere, .dalloc = take_elsewhere};
    size_t granules = page_map_end;
    static const char foreign[] = "not of the heap";

    for (int round = 0; round < 3; round++) {
        begin();
        arena_set_hooks(arena_of(book.arena), &far);
        char *small = take(100), *large = take(3 << 20), *aligned = mallocx(100000, MALLOCX_ARENA(book.arena) | MALLOCX_ALIGN(8 << 20));
        CHECK((uintptr_t)small >> LG_GRANULE > granules && page_map_end > granules);
        CHECK((uintptr_t)aligned % (8 << 20) == 0);
        CHECK(malloc_usable_size(small) == 112 && malloc_usable_size(large) == 3 << 20);
        free(small);
        large = realloc(large, 1 << 20);
        large = rallocx(large, 6 << 20, MALLOCX_ARENA(book.arena));
        CHECK(large[0] == 0x5c && large[(1 << 20) - 1] == 0x5c);
        exercise();
        if (round == 1)
            CHECK_EQ(arena_reset(book.arena), 0);
        end();
        CHECK(page_map_word(small) == 0 && page_map_run(large) == NULL);
        CHECK(page_map_word(foreign) == 0 && page_map_run(foreign) == NULL && page_map_run(NULL) == NULL);
        free(malloc(100));
        free(malloc(1 << 20));
    }
}

// Hooks that are taken away leave their memory behind: it is unmapped when it is unused, and none of the region's.
static void left_behind(void) {
    extent_hooks_t far = {.alloc = elsewhere, .dalloc = take_elsewhere};
    size_t mapped;

    begin();
    arena_set_hooks(arena_of(book.arena), &far);
    void *large = take(3 << 20);
    arena_set_hooks(arena_of(book.arena), NULL);
    mapped = chunks_mapped_bytes();
    free(large);
    arena_purge(arena_of(book.arena));
    CHECK_EQ(arena_of(book.arena)->pages.runs.total_bytes, 0);
    CHECK_EQ(chunks_mapped_bytes(), mapped);
    CHECK_EQ(arena_destroy(book.arena, NULL), 0);
}

// Where nothing stays dirty, freeing looks neither at every extent nor at every run of one: 16,000 of each took 6 s and 2.5 s.
enum { MANY = 16000 };

static void free_many(void **objects, int flags) {
    clock_t begin = clock();

    for (size_t i = 0; i < MANY; i++)
        dallocx(objects[i * 7 % MANY], flags); // neighbours apart
    CHECK_LE(clock() - begin, 2 * CLOCKS_PER_SEC);
}

static void many_extents(void) {
    static void *objects[MANY];
    extent_hooks_t plain = extents_default;
    unsigned id;

    CHECK_EQ(arenas_make(&plain, &id), 0);
    CHECK_EQ(arena_set_dirty_decay_ms(arena_of(id), 0), 0);
    const struct pages *pages = &arena_of(id)->pages;
    int flags = MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE;
    for (int i = 0; i < MANY; i++)
        CHECK((objects[i] = mallocx(1900000, flags)) != NULL);
    CHECK_EQ(pages->runs.span_count, MANY);
    CHECK_EQ(arena_set_dirty_decay_ms(arena_of(id), -1), 0);
    for (int i = MANY / 2; i < MANY; i++)
        dallocx(objects[i], flags);
    clock_t begin = clock();
    arena_purge(arena_of(id)); // half of them go back
    CHECK_LE(clock() - begin, CLOCKS_PER_SEC / 4);
    CHECK_EQ(pages->runs.span_count, MANY / 2);
    CHECK_LE(pages->runs.spares, MANY / 100); // tags do not stay with an arena
    for (int i = MANY / 2; i < MANY; i++)
        CHECK((objects[i] = mallocx(1900000, flags)) != NULL);
    CHECK_EQ(arena_set_dirty_decay_ms(arena_of(id), 0), 0);
    free_many(objects, flags);
    CHECK_EQ(pages->runs.span_count, 0);
    CHECK_LE(pages->runs.spares, MANY / 100);
    CHECK_EQ(xallocx(mallocx((size_t)MANY * 24 << 10, flags), 1 << 20, 0, flags), 1 << 20); // leaves one large extent
    for (int i = 0; i < MANY; i++)
        CHECK((objects[i] = mallocx(20000, flags)) != NULL);
    CHECK_EQ(pages->runs.span_count, 1);
    free_many(objects, flags);
    CHECK_EQ(pages_dirty_bytes(pages), 0);
    CHECK_EQ(arena_destroy(id, NULL), 0);
}

int main(void) {
    free(malloc(1));
    given_and_taken_back();
    holes_purged();
    kept();
    kept_goes_back();
    no_purging();
    each_refuses();
    no_more();
    alloc_alone();
    exchanged();
    misplaced_refused();
    useless_destroyed();
    anywhere();
    left_behind();
    many_extents();
    return 0;
}
