// Tests heap/large.h: resizing in place and by moving pages, contents kept, and told before the pages are another's; and shrinking when there is no memory
// for a tag.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/large.h"

#include <sys/resource.h>

#include "base/base.h"
#include "conf/options.h"
#include "guard/report.h"
#include "heap/door.h"
#include "heap/front.h"
#include "heap/heap.h"
#include "heap/size_class.h"
#include "pages/page_map.h"
#include "unit.h"
#include "watch/profile.h"

enum { KIB = 1024, MIB = 1024 * KIB, OBJECTS = 60 };

static void paint(char *object, size_t size) {
    for (size_t i = 0; i < size; i += 512)
        object[i] = (char)(i / 512 * 7 + 1);
}

static void check_paint(const char *object, size_t size) {
    for (size_t i = 0; i < size; i += 512)
        CHECK_EQ(object[i], (char)(i / 512 * 7 + 1));
}

static void resize_in_place(struct arena *arena) {
    bool zeroed;
    char *object = large_alloc(arena, 4 * MIB, 0, 0, &zeroed), *wall;

    CHECK(object != NULL && large_size(object) == 4 * MIB && large_size(object + 4096) == 0);
    paint(object, 4 * MIB);
    CHECK(large_resize(object, MIB) && large_size(object) == MIB);
    CHECK(large_resize(object, 2 * MIB) && large_size(object) == 2 * MIB);
    check_paint(object, MIB);
    wall = large_alloc(arena, 128 * KIB, 0, 0, NULL);
    CHECK(wall == object + 2 * MIB);
    CHECK(!large_resize(object, 3 * MIB) && large_size(object) == 2 * MIB);
    large_free(wall, "free");
    large_free(object, "free");
    CHECK_EQ(pages_active_bytes(&arena->pages), 0);
}

// The pages go to another place: the bytes with them, and the old place is free and reads as zero.
static void move(struct arena *arena) {
    bool zeroed;
    char *object = large_alloc(arena, 4 * MIB, 0, 0, NULL), *wall = large_alloc(arena, 128 * KIB, 0, 0, NULL), *moved;
    struct run *left;

    paint(object, 4 * MIB);
    moved = large_move(arena, object, 8 * MIB, &left);
    if (moved == NULL) {
        say("this kernel does not move pages: nothing to test");
        large_free(object, "free");
    } else {
        CHECK(moved != object && large_size(moved) == 8 * MIB && large_size(object) == 0);
        check_paint(moved, 4 * MIB);
        large_leave(left);
        pages_purge(&arena->pages, 0);
        char *again = large_alloc(arena, 4 * MIB, 0, 0, &zeroed);
        for (size_t i = 0; zeroed && i < 4 * MIB; i += 64)
            CHECK_EQ(again[i], 0);
        large_free(again, "free");
        large_free(moved, "free");
    }
    large_free(wall, "free");
    CHECK_EQ(pages_active_bytes(&arena->pages), 0);
}

// What the trace is told of where an object was comes before that goes.
static const void *told_freed;

void __wrap_trace_freed(struct tracer **own, const void *object);
void __wrap_trace_freed(struct tracer **own, const void *object) {
    (void)own;
    told_freed = object;
}

void __real_pages_free_clean(struct pages *pages, uintptr_t start, size_t size);
void __wrap_pages_free_clean(struct pages *pages, uintptr_t start, size_t size);
void __wrap_pages_free_clean(struct pages *pages, uintptr_t start, size_t size) {
    CHECK_EQ((uintptr_t)told_freed, words.door == 0 ? 0 : start);
    __real_pages_free_clean(pages, start, size);
}

static void moved_is_told_first(void) {
    char *object = malloc(4 * MIB), *wall = malloc(128 * KIB), *moved;

    door_close(DOOR_TRACE);
    moved = realloc(object, 8 * MIB);
    CHECK(moved != NULL);
    door_open(DOOR_TRACE);
    free(moved);
    free(wall);
}

static void alignment(struct arena *arena) {
    for (size_t align = 4096; align <= 16 * MIB; align *= 2) {
        void *object = large_alloc(arena, 80 * KIB, align, 0, NULL);

        CHECK(object != NULL && (uintptr_t)object % align == 0 && large_size(object) == 80 * KIB);
        large_free(object, "free");
    }
}

// Of page runs: what metadata has for which the system had no memory.
static size_t lent_bytes(void) {
    static struct base_range ranges[2048];
    size_t count = base_ranges(ranges, 2048), sum = 0;

    CHECK(count < 2048);
    for (size_t i = 0; i < count; i++)
        sum += ranges[i].end - ranges[i].start;
    return sum - base_bytes(); // what the system gave
}

// A shrunk object needs a boundary tag for what is cut off. Without memory for it, the object still can be freed.
static void shrink_without_memory(struct arena *arena) {
    char *objects[OBJECTS];
    struct rlimit limit, none;

    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = large_alloc(arena, MIB, 0, 0, NULL)) != NULL);
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    none = limit;
    none.rlim_cur = 1;
    CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
    for (size_t size = BASE_LARGEST; size > 0; size -= CACHE_LINE)
        while (base_alloc(size) != NULL)
            continue;
    for (int i = 0; i < OBJECTS; i++) {
        bool done = large_resize(objects[i], MIB / 2);

        CHECK_EQ(large_size(objects[i]), done ? MIB / 2 : MIB);
    }
    for (int i = 0; i < OBJECTS; i++)
        large_free(objects[i], "free");
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    CHECK(pages_active_bytes(&arena->pages) <= lent_bytes()); // of several arenas
    CHECK_EQ(pages_active_bytes(&arena->pages) % (64 * KIB), 0);
    vmem_check(&arena->pages.runs);
}

static int tellings;

static void told(const char *line) {
    (void)line;
    tellings++;
}

// What is kept in magazines has no fence when it is sampled: what lies between its end and that of its last page is left as it was. With
// pages of 16 or 64 KiB classes have such a rest; here a size does that is no class's.
static void marked_without_fence(struct arena *arena) {
    struct profile_thread self = { 0 };
    char *object = large_alloc(arena, 19 * KIB - 100, 0, size_class(20 * KIB), NULL);
    uint32_t tally = profile_record(&self, 20 * KIB, arena->id);

    CHECK(object != NULL && tally != 0);
    large_mark(object, tally);
    large_note_freed(page_map_run(object)); // as when its arena is reset
    CHECK_EQ(atomic_load(&tally_of(tally)->live), 0);
    page_map_run(object)->sample = 0;
    large_free(object, "free");
}

// And others have one.
static void fence_is_looked_at(struct arena *arena) {
    struct profile_thread self = { 0 };
    char *object = large_alloc(arena, 19 * KIB - 100, 0, 0, NULL);

    CHECK(object != NULL);
    large_set_sample(object, profile_record(&self, 19 * KIB - 100, arena->id));
    guard_told = told;
    object[19 * KIB - 100] = 1;
    large_free(object, "free");
    guard_told = NULL;
    CHECK_EQ(tellings, 1);
}

int main(void) {
    struct arena *arena;

    free(malloc(1));
    options.narenas = 2;
    options.background_thread = false;
    arena = arena_for_thread(); // one of our own: this thread has the first
    CHECK(arena != NULL && arena != words.front->arena);
    resize_in_place(arena);
    move(arena);
    moved_is_told_first();
    alignment(arena);
    marked_without_fence(arena);
    fence_is_looked_at(arena);
    shrink_without_memory(arena);
    return 0;
}
