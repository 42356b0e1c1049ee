// keep, phases: what stays resident after a program gave most of its memory back, or changed what it allocates.
//
// keep: `slots` objects of `smallest` bytes are allocated, then all but one in twenty are freed in the order of their
// allocation. The survivors are either every twentieth thousand, side by side, or chosen at random: with random
// ones no allocator that cannot move objects can give back a page that holds one. One operation is one malloc.
// phases: `largest` bytes of one size, all freed, then of the next size; the peak should be that of one phase.
// SPDX-License-Identifier: BSD-2-Clause
#include "bench.h"
#include "patterns.h"

#include <stdlib.h>

static void fill(struct bench *bench, void **objects, uint32_t count, size_t bytes) {
    for (uint32_t i = 0; i < count; i++) {
        objects[i] = malloc(bytes);
        touch(objects[i], bytes);
    }
    bench->operations_done += count;
    bench->live_end += count * bytes;
    if (bench->live_end > bench->live_peak) bench->live_peak = bench->live_end;
}

static bool survives(enum survivors survivors, uint32_t index, struct random *random) {
    if (survivors == survivors_clustered) return index / 1000 % 20 == 0;
    return random_scale((uint32_t)random_next(random), 20) == 0;
}

void run_keep(struct bench *bench) {
    const uint32_t count = bench->pattern->slots;
    const size_t bytes = bench->pattern->smallest;
    struct random random = {.state = bench->seed};
    void **const objects = own_memory(bench, count * sizeof *objects);
    measure_begin(bench);
    fill(bench, objects, count, bytes);
    for (uint32_t i = 0; i < count; i++) {
        if (survives((enum survivors)bench->pattern->variant, i, &random)) continue;
        free(objects[i]);
        objects[i] = NULL;
        bench->live_end -= bytes;
    }
    measure_end(bench);
    for (uint32_t i = 0; i < count; i++) free(objects[i]);
}

void run_phases(struct bench *bench) {
    static const size_t sizes[] = {48, 1000, 200, 6000, 96};
    const size_t total = bench->pattern->largest;
    void **const objects = own_memory(bench, total / sizes[0] * sizeof *objects);
    measure_begin(bench);
    for (size_t phase = 0; phase < sizeof sizes / sizeof sizes[0]; phase++) {
        const uint32_t count = (uint32_t)(total / sizes[phase]);
        fill(bench, objects, count, sizes[phase]);
        for (uint32_t i = 0; i < count; i++) free(objects[i]);
        bench->live_end = 0;
    }
    measure_end(bench);
}
