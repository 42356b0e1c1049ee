// grow: vectors that grow by realloc, many small ones at once or a single big one.
//
// Many: `slots` vectors; a random one grows by half (and 16 bytes) until it is beyond `largest`, then it is freed and
// begins anew. One: from `smallest` to `largest` bytes by the factor `variant`, a few times. One operation is one
// realloc. A program writes all it appends; the new part is written one word per cache line.
// SPDX-License-Identifier: BSD-2-Clause
#include "bench.h"
#include "patterns.h"

#include <stdlib.h>

struct vector {
    char *elements;
    size_t bytes;
};

static void vector_grow(struct vector *vector, size_t bytes) {
    char *const moved = realloc(vector->elements, bytes);
    if (moved == NULL) fail("out of memory");
    if (vector->bytes >= sizeof(size_t) && *(size_t *)moved != 1) fail("realloc lost the first word");
    for (size_t at = vector->bytes / line_bytes * line_bytes; at + sizeof(size_t) <= bytes; at += line_bytes) *(volatile size_t *)(moved + at) = 1;
    *vector = (struct vector){.elements = moved, .bytes = bytes};
}

static void vector_free(struct vector *vector) {
    free(vector->elements);
    *vector = (struct vector){0};
}

static void grow_steps(struct bench *bench, struct vector *vectors, struct random *random, uint64_t steps) {
    for (uint64_t i = 0; i < steps; i++) {
        struct vector *const vector = &vectors[random_scale((uint32_t)random_next(random), bench->pattern->slots)];
        const size_t bytes = vector->bytes + vector->bytes / 2 + 16;
        bench->live_end -= vector->bytes;
        if (bytes <= bench->pattern->largest) {
            vector_grow(vector, bytes);
        } else {
            vector_free(vector);
        }
        bench->live_end += vector->bytes;
        if (bench->live_end > bench->live_peak) bench->live_peak = bench->live_end;
    }
}

void run_grow_many(struct bench *bench) {
    struct random random = {.state = bench->seed};
    struct vector *const vectors = own_memory(bench, bench->pattern->slots * sizeof *vectors);
    grow_steps(bench, vectors, &random, (uint64_t)bench->pattern->slots * 20);
    measure_begin(bench);
    grow_steps(bench, vectors, &random, bench->operations);
    bench->operations_done = bench->operations;
    measure_end(bench);
    for (uint32_t i = 0; i < bench->pattern->slots; i++) vector_free(&vectors[i]);
}

static void grow_once(struct bench *bench, struct vector *vector) {
    size_t bytes = bench->pattern->smallest;
    for (; bytes < bench->pattern->largest; bytes = bytes * (size_t)bench->pattern->variant / 2) {
        vector_grow(vector, bytes);
        bench->operations_done++;
    }
    vector_grow(vector, bench->pattern->largest);
    bench->operations_done++;
}

void run_grow_one(struct bench *bench) {
    struct vector vector = {0};
    measure_begin(bench);
    for (int pass = 0; pass < 2; pass++) {
        vector_free(&vector);
        grow_once(bench, &vector);
    }
    bench->live_peak = bench->live_end = vector.bytes;
    measure_end(bench);
    vector_free(&vector);
}
