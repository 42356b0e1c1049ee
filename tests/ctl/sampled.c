// What stats.allocated tells is what the program holds, whether it was sampled or not; and so with its parts, bin by bin.
// SPDX-License-Identifier: BSD-2-Clause
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>

#include "../check.h"
#include "jemalloc/jemalloc.h"

const char *malloc_conf = "prof:true,prof_active:false,prof_final:false,background_thread:false";

enum { OBJECTS = 600, MOST = 100000 };

static void *objects[OBJECTS];

static uint64_t get(const char *name, size_t size) {
    uint64_t value = 0;

    CHECK_SAY(mallctl(name, &value, &size, NULL, 0) == 0, "%s", name);
    return value;
}

static size_t get_of(const char *format, unsigned bin) {
    char name[64];

    snprintf(name, sizeof name, format, bin);
    return get(name, sizeof(size_t));
}

static size_t nregs(unsigned bin) {
    char name[64];

    snprintf(name, sizeof name, "arenas.bin.%u.nregs", bin);
    return get(name, sizeof(uint32_t));
}

static size_t allocated(void) {
    uint64_t epoch = 1;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    return get("stats.allocated", sizeof(size_t));
}

static void sample(size_t lg, bool active) {
    CHECK_EQ(mallctl("prof.reset", NULL, NULL, &lg, sizeof lg), 0);
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &active, sizeof active), 0);
}

// Of all sizes; of some an alignment that slabs of samples do not give.
static void *make(int i) {
    size_t size = i % 3 == 0 ? (size_t)i * 37 % MOST : (size_t)i * 5 % 1500;

    return i % 7 == 0 ? aligned_alloc(256, size) : i % 5 == 0 ? calloc(1, size) : malloc(size);
}

static size_t fill(void) {
    size_t bytes = 0;

    for (int i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = make(i)) != NULL);
        bytes += malloc_usable_size(objects[i]);
    }
    return bytes;
}

// What the bins tell of what magazines do not hold, with the large ones, is the same sum.
static void check_parts(size_t whole) {
    size_t parts = get_of("stats.arenas.%u.large.allocated", MALLCTL_ARENAS_ALL);
    size_t cached = get_of("stats.arenas.%u.tcache_bytes", MALLCTL_ARENAS_ALL), lextents = 0, small = 0;

    for (unsigned i = 0; i < (unsigned)get("arenas.nbins", sizeof(unsigned)); i++) {
        size_t curregs = get_of("stats.arenas.4096.bins.%u.curregs", i), slabs = get_of("stats.arenas.4096.bins.%u.curslabs", i);

        CHECK(curregs <= slabs * nregs(i) && slabs >= get_of("stats.arenas.4096.bins.%u.nonfull_slabs", i));
        CHECK_EQ(get_of("stats.arenas.4096.bins.%u.nmalloc", i) - get_of("stats.arenas.4096.bins.%u.ndalloc", i), curregs);
        small += curregs * get_of("arenas.bin.%u.size", i);
    }
    for (unsigned i = 0; i < (unsigned)get("arenas.nlextents", sizeof(unsigned)); i++)
        lextents += get_of("stats.arenas.4096.lextents.%u.curlextents", i) * get_of("arenas.lextent.%u.size", i);
    CHECK_EQ(small + lextents - cached, whole);
    CHECK_EQ(parts + get_of("stats.arenas.%u.small.allocated", MALLCTL_ARENAS_ALL), whole);
}

static void check_at(size_t lg, bool active) {
    size_t before, bytes;

    sample(lg, active);
    before = allocated();
    bytes = fill();
    CHECK_EQ(allocated(), before + bytes);
    check_parts(before + bytes);
    for (int i = 0; i < OBJECTS; i += 2)
        bytes -= malloc_usable_size(objects[i]), free(objects[i]);
    CHECK_EQ(allocated(), before + bytes);
    sample(lg, false);
    for (int i = 1; i < OBJECTS; i += 2)
        free(objects[i]);
    CHECK_EQ(allocated(), before);
    check_parts(before);
}

int main(void) {
    check_at(19, false);
    check_at(0, true);  // every one
    check_at(10, true); // some
    check_at(0, true);
    return 0;
}
