// What the tests of controls' values share: reading and writing them, and noting the names that were looked at.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_VALUES_H
#define VMAG_TESTS_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "../check.h"
#include "jemalloc/jemalloc.h"

enum { SMALL = 640, SMALL_BIN = 17, LARGE = 3 << 20 };

// The value of this control is seen to change, or to be what it must.
void saw(const char *name);

// A name with its indices; the name as it is listed has "<>".
const char *with(const char *name, unsigned i, unsigned j);

// A value of any size; after a new snapshot; a string.
uint64_t get(const char *name);
uint64_t fresh(const char *name);
const char *text(const char *name);
void refresh(void);

#define SET(name, type, value) mallctl(name, NULL, NULL, &(type){ value }, sizeof(type))
#define SET_OK(name, type, value) CHECK_SAY(SET(name, type, value) == 0, "%s", name)
#define ACT(name) CHECK_SAY(mallctl(name, NULL, NULL, NULL, 0) == 0, "%s", name)

unsigned own_arena(void);
void pause_ms(long ms);
void rose(const char *name, uint64_t before, uint64_t after);

extern uint64_t internal_at_first; // stats.arenas.4096.internal before there were many magazines

void test_small_objects(void);
void test_mutexes(void);
void test_retained(void);
void test_large_objects(void);
void test_moved_objects(void);
void test_decay(void);
void test_others(void);
void test_sums(void);
void test_caches(void);
void test_thread_cache_max(void);
void test_arenas(void);
void test_newer(void);
void test_utilization(void);
void test_safety(void);
void test_profiler(void);

#endif
