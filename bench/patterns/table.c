// The table of patterns: one row each.
//
// Amounts are chosen so that a run takes about a tenth of a second with a good allocator.
// SPDX-License-Identifier: BSD-2-Clause
#include "patterns.h"
#include "bench.h"

#include <string.h>

enum {
    thousand = 1000,
    million = 1000 * 1000,
    kib = 1024,
    mib = 1024 * 1024,
};

// name, group, function, threads, operations, slots, smallest, largest, variant, about
#define BATCHES(count, words) \
    {"lifo" words, "speed", run_batch, 1, 4 * million, count, 32, 64, order_last_first, words " objects, freed last first"}, \
    {"fifo" words, "speed", run_batch, 1, 4 * million, count, 32, 64, order_first_first, words " objects, freed first first"}, \
    {"rnd" words, "speed", run_batch, 1, 4 * million, count, 32, 64, order_random, words " objects, freed in random order"}

const struct pattern patterns[] = {
    {"pair16", "speed", run_pair, 1, 10 * million, 0, 16, 16, 0, "malloc and free of 16 bytes"},
    {"pair64", "speed", run_pair, 1, 10 * million, 0, 64, 64, 0, "malloc and free of 64 bytes"},
    {"pair1000", "speed", run_pair, 1, 10 * million, 0, 1000, 1000, 0, "malloc and free of 1000 bytes"},
    {"pair20k", "speed", run_pair, 1, 4 * million, 0, 20000, 20000, 0, "malloc and free of 20000 bytes"},
    BATCHES(100, "100"),
    BATCHES(1000, "1k"),
    BATCHES(10 * thousand, "10k"),
    BATCHES(100 * thousand, "100k"),
    BATCHES(million, "1M"),
    {"wide1k", "speed", run_batch, 1, 4 * million, thousand, 16, 512, order_random, "1k objects of 16 to 512 bytes, freed in random order"},
    {"wide100k", "speed", run_batch, 1, 2 * million, 100 * thousand, 16, 512, order_random, "100k objects of 16 to 512 bytes, freed in random order"},
    {"repl1k", "speed", run_replace, 1, 5 * million, thousand, 16, 512, replace_plain, "random replacement among 1k objects of 16 to 512 bytes"},
    {"repl100k", "speed", run_replace, 1, 3 * million, 100 * thousand, 16, 1024, replace_plain, "random replacement among 100k objects of 16 to 1024 bytes"},
    {"use100k", "speed", run_replace, 1, 2 * million, 100 * thousand, 16, 1024, replace_using, "the same, and each object is read and written before it is freed"},
    {"replbig", "speed", run_replace, 1, 400 * thousand, thousand, 8 * kib, 64 * kib, replace_plain, "random replacement among 1k objects of 8 to 64 KiB"},
    {"mixed", "speed", run_replace, 1, 100 * thousand, thousand, 16, 1 * mib, replace_log_size, "random replacement among 1k objects of 16 bytes to 1 MiB, each doubling as often"},
    {"callocsmall", "speed", run_replace, 1, 4 * million, thousand, 16, 1024, replace_zeroed, "calloc, random replacement among 1k objects of 16 to 1024 bytes"},
    {"callocbig", "speed", run_replace, 1, 4 * thousand, 32, 64 * kib, 1 * mib, replace_zeroed, "calloc, random replacement among 32 objects of 64 KiB to 1 MiB"},
    {"growmany", "speed", run_grow_many, 1, 500 * thousand, thousand, 16, 64 * kib, 0, "1k vectors grow by half to 64 KiB with realloc"},
    {"growdouble", "speed", run_grow_one, 1, 0, 1, 4 * kib, 256 * mib, grow_double, "one vector doubles from 4 KiB to 256 MiB with realloc"},
    {"growhalf", "speed", run_grow_one, 1, 0, 1, 4 * kib, 256 * mib, grow_half, "one vector grows by half from 4 KiB to 256 MiB with realloc"},
    {"pair64x2", "speed", run_pair, 2, 20 * million, 0, 64, 64, 0, "malloc and free of 64 bytes, 2 threads"},
    {"repl1kx2", "speed", run_replace, 2, 10 * million, thousand, 16, 512, replace_plain, "repl1k, 2 threads"},
    {"repl100kx2", "speed", run_replace, 2, 4 * million, 100 * thousand, 16, 1024, replace_plain, "repl100k, 2 threads"},
    {"prodcons", "speed", run_pass_queue, 2, 3 * million, 64, 16, 512, 0, "one thread allocates, the other frees; about 1k objects between them at most"},
    {"xmalloc2", "speed", run_pass_around, 2, 4 * million, 16, 16, 256, 0, "2 threads, each frees what the other allocated"},
    {"swap8", "speed", run_swap, 8, 2 * million, 20 * thousand, 16, 512, 0, "8 threads exchange objects in a table of 20k that they share"},
    {"server2", "speed", run_server, 2, 4 * million, thousand, 16, 512, 0, "2 servers with 1k objects each; threads die and hand on"},
    {"scratch", "speed", run_share_line, 2, 2 * million, 100, 8, 8, neighbours_given, "2 threads, given neighbours in a cache line"},
    {"thrash", "speed", run_share_line, 2, 2 * million, 100, 8, 8, neighbours_by_chance, "2 threads write small objects of their own"},
    {"xmalloc8", "speed", run_pass_around, 8, 4 * million, 16, 16, 256, 0, "8 threads in a circle, each frees what the one before allocated"},
    {"server8", "speed", run_server, 8, 4 * million, thousand, 16, 512, 0, "8 servers with 1k objects each; threads die and hand on"},
    {"many8", "speed", run_replace, 8, 8 * million, thousand, 16, 512, replace_plain, "repl1k, 8 threads"},
    {"many64", "speed", run_replace, 64, 8 * million, thousand, 16, 512, replace_plain, "repl1k, 64 threads"},
    {"many512", "speed", run_replace, 512, 8 * million, 200, 16, 512, replace_plain, "random replacement among 200 objects of 16 to 512 bytes, 512 threads"},
    {"keep1k", "memory", run_keep, 1, 0, 200 * thousand, 1024, 1024, survivors_clustered, "200k objects of 1 KiB, 1 in 20 survives, side by side"},
    {"keep1krnd", "memory", run_keep, 1, 0, 200 * thousand, 1024, 1024, survivors_random, "200k objects of 1 KiB, 1 in 20 survives, at random"},
    {"keep64", "memory", run_keep, 1, 0, 2 * million, 64, 64, survivors_clustered, "2M objects of 64 bytes, 1 in 20 survives, side by side"},
    {"keep64rnd", "memory", run_keep, 1, 0, 2 * million, 64, 64, survivors_random, "2M objects of 64 bytes, 1 in 20 survives, at random"},
    {"phases", "memory", run_phases, 1, 0, 0, 0, 64 * mib, 0, "64 MiB of one size, all freed, then of another, five times"},
    {"idle500", "memory", run_idle_threads, 500, 0, 0, 100, 100, 0, "500 threads that allocated once and wait"},
    {"startup", "memory", run_start_up, 1, 0, 64, 16, 128, 0, "a fresh process that allocates 64 small objects"},
    {"nothing", "memory", run_nothing, 1, 0, 0, 0, 0, 0, "the bench program itself, not one call of malloc"},
    {0},
};

const struct pattern *pattern_find(const char *name) {
    for (const struct pattern *pattern = patterns; pattern->name != NULL; pattern++) {
        if (strcmp(pattern->name, name) == 0) return pattern;
    }
    return NULL;
}
