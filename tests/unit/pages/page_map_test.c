// Tests pages/page_map.h: words and runs of granules set, taken and cleared, chunk borders, addresses outside the region, and that the map is tried at
// several places; and that it grows to cover all addresses after there was no room for that for a while.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/page_map.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap/heap.h"
#include "pages/chunks.h"
#include "slab/slab.h"
#include "unit.h"

enum { CHUNKS = 3, GRANULES = CHUNKS << (LG_CHUNK - LG_GRANULE), WORD = 0xf001 };

static uintptr_t base; // chunks of our own, in use by nobody else
static struct run runs[2];

// At first use somebody is at the first places, as another copy of the library may be.
enum { REFUSED = 2, LG_FAR = 40 };
static uintptr_t tried[REFUSED + 1];
static unsigned tries;
static unsigned refused_try; // and later the one of that number
static int refusal;

bool __real_os_pages_reserve_at(void *address, size_t size);
bool __wrap_os_pages_reserve_at(void *address, size_t size);
bool __wrap_os_pages_reserve_at(void *address, size_t size) {
    if (tries <= REFUSED)
        tried[tries] = (uintptr_t)address;
    if (tries == refused_try && refusal != 0) {
        tries++;
        errno = refusal;
        return false;
    }
    return tries++ >= REFUSED && __real_os_pages_reserve_at(address, size);
}

static void places(void) {
    for (unsigned i = 0; i < REFUSED; i++)
        for (unsigned j = i + 1; j <= REFUSED; j++) {
            uintptr_t low = tried[i] < tried[j] ? tried[i] : tried[j], high = tried[i] + tried[j] - low;

            CHECK_GE(high - low, (uintptr_t)1 << LG_FAR);
        }
}

static const void *granule(size_t number) {
    return (const void *)(base + number * GRANULE_BYTES);
}

static void check_granules(size_t first, size_t count, unsigned word, const struct run *run) {
    for (size_t i = first; i < first + count; i++) {
        const char *address = granule(i);

        CHECK_EQ(page_map_word(address), word);
        CHECK_EQ(page_map_word(address + GRANULE_BYTES - 1), word);
        CHECK(page_map_run(address) == run && page_map_run(address + 17) == run);
        if (word != 0)
            CHECK(page_map_known_run(address + GRANULE_BYTES - 1) == run);
    }
}

// Sets a range and sees that it is set, and nothing beside it.
static void set_and_clear(size_t first, size_t count) {
    uintptr_t start = (uintptr_t)granule(first);
    size_t size = count * GRANULE_BYTES;

    CHECK(page_map_set(start, size, WORD, &runs[0]));
    check_granules(0, first, 0, NULL);
    check_granules(first, count, WORD, &runs[0]);
    check_granules(first + count, GRANULES - first - count, 0, NULL);
    page_map_clear(start, size);
    check_granules(0, GRANULES, 0, NULL);
}

static void neighbours(void) {
    CHECK(page_map_set((uintptr_t)granule(5), 2 * GRANULE_BYTES, WORD, &runs[0]));
    CHECK(page_map_set((uintptr_t)granule(7), GRANULE_BYTES, WORD + 1, &runs[1]));
    page_map_clear((uintptr_t)granule(5), 2 * GRANULE_BYTES);
    check_granules(4, 3, 0, NULL);
    check_granules(7, 1, WORD + 1, &runs[1]);
    page_map_clear((uintptr_t)granule(7), GRANULE_BYTES);
}

// A large run marks its first granule only.
static void large_run(void) {
    CHECK(page_map_set((uintptr_t)granule(100), 1, WORD, &runs[1]));
    check_granules(99, 1, 0, NULL);
    check_granules(100, 1, WORD, &runs[1]);
    check_granules(101, 1, 0, NULL);
    CHECK_EQ(page_map_take_word(granule(100)), WORD);
    CHECK_EQ(page_map_take_word(granule(100)), 0); // one taker gets it
    CHECK(page_map_run(granule(100)) == &runs[1]); // the run is its owner's to clear
    page_map_clear((uintptr_t)granule(100), 1);
    CHECK(page_map_run(granule(100)) == NULL);
}

static void outside(void) {
    static const char here[] = "neither of the heap nor of its map";
    uintptr_t end = page_map_end << LG_GRANULE, first = page_map_first_chunk();
    const uintptr_t strangers[] = {
        0, 1, GRANULE_BYTES, first - 1, first / 2, end, end + 1, end * 2, UINTPTR_MAX, UINTPTR_MAX / 2,
        (uintptr_t)here, (uintptr_t)&end, (uintptr_t)page_map,
    };

    CHECK(first % CHUNK_BYTES == 0 && end - first == page_map_chunk_bytes());
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        CHECK_EQ(page_map_word((const void *)strangers[i]), 0);
        CHECK(page_map_run((const void *)strangers[i]) == NULL);
    }
    CHECK_EQ(page_map_word((const void *)(end - 1)), 0); // in the region, and never used
    CHECK(page_map_run((const void *)(end - 1)) == NULL);
}

// Somebody else's memory, at no address of the region; of the map only the words are looked at.
static bool covers_others(void) {
    return page_map_cover((uintptr_t)1 << 46, CHUNK_BYTES);
}

// Of the pieces that cover all addresses one is refused, once: nothing is in the way of a second try.
static void grows_later(void) {
    enum { PIECES_MOST = 3 };
    pid_t child;
    int status;

    refusal = ENOMEM;
    for (unsigned piece = 0; piece < PIECES_MOST; piece++) {
        refused_try = tries + piece;
        CHECK(!covers_others());
        CHECK_EQ(tries, refused_try + 1);
    }
    child = fork();
    if (child == 0) { // where somebody is, it is not tried again
        refusal = EEXIST;
        refused_try = tries;
        bool covered = covers_others() || covers_others();
        _exit(covered || tries != refused_try + 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    refusal = 0;
    CHECK(covers_others());
    CHECK_EQ(page_map_word((void *)((uintptr_t)1 << 46)), 0);
}

int main(void) {
    CHECK(heap_ready());
    places();
    base = chunks_import(CHUNKS * CHUNK_BYTES, 0);
    CHECK(base != 0);
    check_granules(0, GRANULES, 0, NULL);
    for (size_t count = 1; count <= 1024; count *= 2) {
        set_and_clear(0, count);
        set_and_clear(RUNS_A_TABLE - 1, count); // over the border of two tables
        set_and_clear(GRANULES - count, count);
    }
    set_and_clear(0, GRANULES);
    neighbours();
    large_run();
    outside();
    grows_later();
    chunks_release(base, CHUNKS * CHUNK_BYTES);
    return 0;
}
