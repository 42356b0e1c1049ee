// Tests pages/chunks.h: what somebody else has mapped in the region costs the chunks where it lies, and no more, whatever the request that met it.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/chunks.h"

#include <errno.h>
#include <sys/mman.h>

#include "heap/heap.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "unit.h"

#define REQUEST ((size_t)1 << 30)
enum { CHUNKS = 1 << (30 - LG_CHUNK), LEVELS = 30 - LG_CHUNK, TRIES_MOST = 2 * 1024 };

static unsigned tries;
static bool has_no_room;

bool __real_os_pages_reserve_at(void *address, size_t size);
bool __wrap_os_pages_reserve_at(void *address, size_t size);
bool __wrap_os_pages_reserve_at(void *address, size_t size) {
    tries++;
    if (has_no_room) {
        errno = ENOMEM;
        return false;
    }
    return __real_os_pages_reserve_at(address, size);
}

static void strangers_page(uintptr_t at, size_t size) {
    CHECK(mmap((void *)at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == (void *)at);
}

// Where the next request of that size would go.
static uintptr_t next_place(void) {
    uintptr_t start = chunks_import(REQUEST, 0);

    CHECK(start != 0);
    CHECK(chunks_release(start, REQUEST));
    return start;
}

// A request that meets strangers in so many chunks: what it costs in chunks.
static size_t lost(void) {
    size_t before = heap_arena.bytes[VMEM_CLEAN];
    uintptr_t start;

    tries = 0;
    start = chunks_import(REQUEST, 0);
    CHECK(start != 0);
    *(volatile char *)(start + REQUEST - 1) = 1;
    CHECK(chunks_release(start, REQUEST));
    vmem_check(&heap_arena);
    return (before - heap_arena.bytes[VMEM_CLEAN]) >> LG_CHUNK;
}

static void one(size_t chunk) {
    strangers_page(next_place() + chunk * CHUNK_BYTES + CHUNK_BYTES / 2, os_page_size());
    CHECK_EQ(lost(), 1);
    CHECK_LE(tries, 2 * LEVELS);
}

static void some(void) {
    uintptr_t place = next_place();

    for (size_t chunk = 3; chunk < CHUNKS; chunk *= 3)
        strangers_page(place + chunk * CHUNK_BYTES, os_page_size());
    CHECK_LE(lost(), 6);
    CHECK_EQ(lost(), 0);
}

// So much that not all of it is looked at.
static void much(void) {
    strangers_page(next_place() + CHUNK_BYTES, 8 * REQUEST);
    CHECK_LE(lost(), 9 * CHUNKS);
    CHECK_LE(tries, 9 * TRIES_MOST);
    CHECK_EQ(lost(), 0);
}

// A process without room for a try: no more is taken for the stranger's than a chunk for each time that one is met.
static void without_room(void) {
    strangers_page(next_place() + CHUNKS / 3 * CHUNK_BYTES, os_page_size());
    has_no_room = true;
    CHECK_LE(lost(), 2);
    has_no_room = false;
    CHECK_LE(lost(), 1);
    CHECK_EQ(lost(), 0);
}

int main(void) {
    CHECK(heap_ready());
    one(0);
    one(1);
    one(CHUNKS / 2);
    one(CHUNKS - 1);
    some();
    much();
    without_room();
    return 0;
}
