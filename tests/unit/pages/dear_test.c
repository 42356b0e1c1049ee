// Tests pages/dear.h through pages/huge.h: which chunks are huge pages when these, or small ones, take as long as the test says. The clock is the
// test's: it goes on by what the pages touched would take.
// SPDX-License-Identifier: BSD-2-Clause
#include "pages/dear.h"

#include <string.h>
#include <sys/prctl.h>

#include "conf/options.h"
#include "heap/heap.h"
#include "os/clock.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "pages/runs.h"
#include "unit.h"

enum { MANY = 1000, SURE = 20, TOUCHED = 16, MOST = DEAR_LEAST << DEAR_MOST_TIMES, PAGES = CHUNK_BYTES / 4096, US = 1000, MS = 1000 * US };

static struct {
    uint64_t huge_ns, small_ns; // what a huge page takes, and a small one
    uint64_t now;
    bool huge_next; // what is touched next is one that was asked for
    unsigned reads; // of the clock
    size_t asked;   // bytes
    size_t small;   // pages that are touched where a chunk is compared
} machine;

uint64_t __wrap_os_clock_thread_ns(void);
void __wrap_os_pages_huge(void *address, size_t size, bool wanted);

uint64_t __wrap_os_clock_thread_ns(void) {
    if (machine.reads++ % 2 == 1) {
        machine.now += machine.huge_next ? machine.huge_ns : machine.small_ns * machine.small;
        machine.huge_next = false;
    }
    return machine.now;
}

void __wrap_os_pages_huge(void *address, size_t size, bool wanted) {
    (void)address;
    if (!wanted)
        return;
    machine.asked += size;
    machine.huge_next = true;
}

static void take(struct pages *pages, size_t chunks) {
    bool zeroed;

    CHECK(pages_alloc_grown(pages, chunks * CHUNK_BYTES, 0, &zeroed) != 0);
}

// An arena so large that all chunks would be huge pages.
static void pages_make(struct pages *pages) {
    options.dirty_decay_ms = -1;
    options.thp = THP_NEVER;
    memset(pages, 0, sizeof *pages);
    pages_init(pages, "test");
    take(pages, SURE);
    options.thp = THP_DEFAULT;
}

static size_t asked_of(struct pages *pages, size_t chunks, size_t each) {
    machine.asked = 0;
    for (size_t i = 0; i < chunks; i++)
        take(pages, each);
    return machine.asked / CHUNK_BYTES;
}

static void price(uint64_t huge_ns, uint64_t small_ns) {
    machine.huge_ns = huge_ns;
    machine.small_ns = small_ns;
}

// 16 are left after the first that is dear, 32 after the next, and so on to 256.
static size_t expected(size_t chunks) {
    size_t count = 0;

    for (size_t at = 0, left = DEAR_LEAST; at < chunks; at += 1 + left, left = left < MOST ? left * 2 : left)
        count++;
    return count;
}

static void cheap_again(struct pages *pages) {
    price(300 * US, 2 * US);
    asked_of(pages, MOST + 1, 1);
    CHECK_EQ(asked_of(pages, MANY, 1), MANY);
}

static void cheap(struct pages *pages) {
    price(300 * US, 2 * US);
    CHECK_EQ(asked_of(pages, MANY, 1), MANY);
}

static void dear(struct pages *pages) {
    price(6 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, MANY, 1), expected(MANY));
    cheap_again(pages);
    price(6 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, 1 + DEAR_LEAST, 1), 1); // it begins with few again
    cheap_again(pages);
}

// Of a large run the second chunk is compared at once, and the rest is left with it.
static void dear_in_one_run(struct pages *pages) {
    price(6 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, 1, 100), 1);
    CHECK_EQ(asked_of(pages, 1, 100), 1); // it was more than 16
    CHECK_EQ(asked_of(pages, 1, 10), 1);  // and more than 32; now 64 are left, nine of them here
    CHECK_EQ(asked_of(pages, 5, 10), 0);
    CHECK_EQ(asked_of(pages, 1, 10), 1); // five are left, and it has more
    cheap_again(pages);
    CHECK_EQ(asked_of(pages, 1, 100), 100);
}

static void asked_always(struct pages *pages) {
    price(6 * MS, 2 * US);
    options.thp = THP_ALWAYS;
    const unsigned before = machine.reads;

    CHECK_EQ(asked_of(pages, 100, 1), 100);
    CHECK_EQ(asked_of(pages, 1, 100), 100);
    CHECK_EQ(machine.reads, before); // nor is anything touched
    machine.huge_next = false;
    options.thp = THP_DEFAULT;
    cheap_again(pages);
}

// Where small pages take longer still, huge ones are asked for.
static void slow_machine(struct pages *pages) {
    price(2 * MS, 2 * MS / PAGES + US);
    CHECK_EQ(asked_of(pages, MANY, 1), MANY);
    price(5 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, 1 + DEAR_LEAST, 1), 1);
    cheap_again(pages);
}

// What takes less than twice as long as what was worth it is not compared. Once they are not dear it begins with few again. Who comes too late to compare
// changes nothing.
static void in_between(struct pages *pages) {
    struct dear late = { .worth_ns = 5, .times = 2 };

    price(2 * MS, 10 * US);
    CHECK_EQ(asked_of(pages, 2, 1), 2);
    price(3 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, DEAR_LEAST / 2, 1), DEAR_LEAST / 2);
    cheap_again(pages);
    price(6 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, 2 + 3 * DEAR_LEAST, 1), 2);
    price(6 * MS, 20 * US);
    CHECK_EQ(asked_of(pages, 2, 1), 2);
    price(13 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, 2 + DEAR_LEAST, 1), 2);
    cheap_again(pages);
    CHECK(!dear_compare(&late, 1, 1) && !dear_compare(&late, 0, 1));
    CHECK(late.worth_ns == 5 && late.times == 2 && late.left == 0);
}

// A false verdict, by a moment in which small pages took long, does not last.
static void false_verdict(struct pages *pages) {
    price(6 * MS, 20 * US);
    CHECK_EQ(asked_of(pages, 2, 1), 2);
    price(6 * MS, 2 * US);
    CHECK_LE(asked_of(pages, MANY, 1), MANY / 8);
    cheap_again(pages);
    price(6 * MS, 20 * US);
    CHECK_EQ(asked_of(pages, 2, 1), 2);
    price(300 * US, 2 * US);
    CHECK_EQ(asked_of(pages, 1, 1), 1);
    price(6 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, 1 + DEAR_LEAST, 1), 1);
    cheap_again(pages);
}

static unsigned touched_of(struct pages *pages, size_t chunks) {
    const unsigned before = machine.reads;

    take(pages, chunks);
    return (machine.reads - before) / 2;
}

// Of an arena's first large object nothing is known: it may never be written to.
static unsigned touched_of_unknown(size_t chunks) {
    struct pages pages;
    const unsigned before = machine.reads;
    const size_t size = chunks * CHUNK_BYTES;
    uintptr_t object;
    unsigned reads;

    memset(&pages, 0, sizeof pages);
    pages_init(&pages, "test");
    CHECK((object = pages_alloc(&pages, size, 0, NULL)) != 0);
    reads = machine.reads - before;
    pages_free(&pages, object, size);
    pages_purge(&pages, 0);
    return reads / 2;
}

static void touched(struct pages *pages) {
    cheap_again(pages);
    CHECK_EQ(touched_of(pages, 1), 1);
    CHECK_EQ(touched_of(pages, 100), 1);
    CHECK_EQ(touched_of_unknown(5), 0);
    CHECK_EQ(touched_of_unknown(100), 0);
    price(6 * MS, 2 * US);
    CHECK_EQ(touched_of(pages, 2), 2); // the second is compared
    CHECK_EQ(touched_of_unknown(100), 0);
    cheap_again(pages);
}

// Where pages will be moved nothing is asked for or touched: behind them it is.
static void moved(struct pages *pages) {
    bool zeroed;
    unsigned before = machine.reads;
    uintptr_t start;

    machine.asked = 0;
    CHECK((start = pages_alloc_grown(pages, 20 * CHUNK_BYTES, 10 * CHUNK_BYTES - os_page_size(), &zeroed)) != 0);
    CHECK_EQ(machine.asked / CHUNK_BYTES, 10);
    CHECK_EQ(machine.reads, before + 2);
    CHECK_EQ(os_pages_resident((void *)start, 10 * CHUNK_BYTES), 0);
    CHECK_EQ(os_pages_resident((void *)(start + 10 * CHUNK_BYTES), CHUNK_BYTES) > 0, 1);
    before = machine.reads;
    machine.asked = 0;
    CHECK(pages_alloc_grown(pages, 2 * CHUNK_BYTES, CHUNK_BYTES + 1, &zeroed) != 0);
    CHECK_EQ(machine.asked, 0);
    CHECK_EQ(machine.reads, before);
}

// What grows into clean memory learns from it.
static void extended_clean(struct pages *pages) {
    bool zeroed;
    const uintptr_t start = pages_alloc_grown(pages, 40 * CHUNK_BYTES, 40 * CHUNK_BYTES, &zeroed);
    const unsigned before = machine.reads;

    CHECK(start != 0 && pages_shrink(pages, start, 40 * CHUNK_BYTES, 10 * CHUNK_BYTES));
    pages_purge(pages, 0);
    machine.asked = 0;
    CHECK(pages_extend(pages, start, 10 * CHUNK_BYTES, 20 * CHUNK_BYTES, &zeroed) && zeroed);
    CHECK_EQ(machine.asked / CHUNK_BYTES, 10);
    CHECK_EQ(machine.reads, before + 2);
    CHECK_EQ(*(char *)(start + 10 * CHUNK_BYTES), 0);
}

// What grows into memory that was used learns nothing from it, and goes by what is known.
static void extended(struct pages *pages) {
    bool zeroed;
    const uintptr_t start = pages_alloc_grown(pages, 40 * CHUNK_BYTES, 0, &zeroed);
    unsigned before;

    CHECK(start != 0 && pages_shrink(pages, start, 40 * CHUNK_BYTES, 10 * CHUNK_BYTES));
    price(6 * MS, 2 * US);
    before = machine.reads;
    machine.asked = 0;
    CHECK(pages_extend(pages, start, 10 * CHUNK_BYTES, 20 * CHUNK_BYTES, &zeroed));
    CHECK_EQ(machine.asked / CHUNK_BYTES, 10);
    CHECK_EQ(machine.reads, before);
    pages_free(pages, start, 20 * CHUNK_BYTES);
    pages_purge(pages, 0);
    machine.huge_next = false; // asked for, and not touched
    CHECK_EQ(asked_of(pages, 2, 1), 1);
    cheap_again(pages);
}

// Nor is it the next try, however large it is: what is left is left to small pages.
static void extended_while_left(struct pages *pages) {
    uintptr_t start;
    bool zeroed;

    price(6 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, 1 + DEAR_LEAST / 2, 1), 1);
    options.thp = THP_NEVER;
    CHECK((start = pages_alloc_grown(pages, 40 * CHUNK_BYTES, 0, &zeroed)) != 0);
    CHECK(pages_shrink(pages, start, 40 * CHUNK_BYTES, 10 * CHUNK_BYTES));
    options.thp = THP_DEFAULT;
    machine.asked = 0;
    CHECK(pages_extend(pages, start, 10 * CHUNK_BYTES, (11 + DEAR_LEAST) * CHUNK_BYTES, &zeroed));
    CHECK_EQ(machine.asked, 0);
    pages_free(pages, start, (11 + DEAR_LEAST) * CHUNK_BYTES);
    pages_purge(pages, 0);
    cheap_again(pages);
}

// A huge page may be asked for where something lies behind the run: that is another's, and nothing of it is touched. Of a run of few pages nothing is learned.
static void only_the_run(struct pages *pages, size_t run, bool compared) {
    const size_t rest = CHUNK_BYTES - run;
    bool zeroed;
    uintptr_t first = pages_alloc_grown(pages, CHUNK_BYTES, 0, &zeroed), others;
    unsigned before;

    CHECK(first % CHUNK_BYTES == 0 && zeroed && pages_shrink(pages, first, CHUNK_BYTES, run));
    CHECK_EQ(others = pages_alloc_grown(pages, rest, 0, &zeroed), first + run);
    pages_free_clean(pages, first, run);
    memset((void *)others, 0xa5, rest);
    price(6 * MS, 2 * US);
    take(pages, 1); // the next one is compared
    before = machine.reads;
    machine.small = run / os_page_size();
    CHECK_EQ(pages_alloc_dense(pages, run, 0, &zeroed), first);
    machine.small = TOUCHED;
    machine.huge_next = false; // asked for, and not touched
    CHECK_EQ(machine.reads - before, compared ? 2 : 0);
    for (size_t i = 0; i < rest; i++)
        CHECK_EQ(*((unsigned char *)others + i), 0xa5);
    CHECK_EQ(asked_of(pages, 1, 1), 0); // at the latest now
    cheap_again(pages);
}

// All of the huge page that a small run begins is resident: the rest is dirty, so that it is used first, or given back.
static void rest_of_a_chunk(struct pages *pages) {
    const size_t before = pages_dirty_bytes(pages), run = 16 * os_page_size();
    uintptr_t start;

    CHECK_EQ(before, 0);
    machine.asked = 0;
    CHECK((start = pages_alloc_dense(pages, run, 0, NULL)) % CHUNK_BYTES == 0 && start != 0);
    CHECK_EQ(machine.asked, CHUNK_BYTES);
    CHECK_EQ(pages_dirty_bytes(pages), CHUNK_BYTES - run);
    pages_free(pages, start, run);
    pages_purge(pages, 0);
}

// What took no time was there, or is no huge page: it says nothing about these.
static void nothing_new(struct pages *pages) {
    price(6 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, 1 + DEAR_LEAST, 1), 1);
    price(US, US);
    CHECK_EQ(asked_of(pages, 1, 1), 1);
    price(6 * MS, 2 * US);
    CHECK_EQ(asked_of(pages, 1 + 2 * DEAR_LEAST, 1), 1);
    cheap_again(pages);
}

int main(void) {
    struct pages pages;

    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); // where all memory is huge pages, what is touched here would be gigabytes
    CHECK(heap_ready());
    options.background_thread = false;
    machine.small = TOUCHED;
    if (CHUNK_BYTES / os_page_size() != PAGES)
        return SKIPPED;
    pages_make(&pages);
    cheap(&pages);
    dear(&pages);
    dear_in_one_run(&pages);
    asked_always(&pages);
    slow_machine(&pages);
    in_between(&pages);
    false_verdict(&pages);
    touched(&pages);
    moved(&pages);
    extended_clean(&pages);
    extended(&pages);
    extended_while_left(&pages);
    only_the_run(&pages, 2 * os_page_size(), false);
    only_the_run(&pages, 6 * os_page_size(), true);
    nothing_new(&pages);
    rest_of_a_chunk(&pages);
    return 0;
}
