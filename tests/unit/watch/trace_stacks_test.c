// The stacks of a trace: what the chunks say is what was told, each stack once a file, however often the chunks are asked for meanwhile; and stacks that
// differ by little are different ones.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "watch/trace_facts.h"
#include "watch/trace_stacks.h"

enum { MANY = 20000, CHUNKS_MOST = 200, ADDRESSES = 7, LONGEST = 6 };

struct told {
    struct stack *stack;
    size_t depth;
    uintptr_t frames[STACK_DEPTH];
};

static struct random random_state = { 1 };
static struct told *told;
static struct facts *chunks, *copy;
static uint32_t chunk_count;

// As who writes them does: a chunk gets its sequence when it is asked for first, and comes again under that one.
static void take_chunks(void) {
    uint32_t *sequence;

    while ((sequence = trace_stacks_next(copy)) != NULL) {
        if (*sequence == NO_SEQUENCE)
            *sequence = chunk_count++;
        CHECK(*sequence < chunk_count && chunk_count <= CHUNKS_MOST);
        memcpy(&chunks[*sequence], copy, sizeof *copy);
        chunks[*sequence].at = chunks[*sequence].payload + (copy->at - copy->payload);
    }
}

static uint64_t varint(const uint8_t **at) {
    uint64_t value = 0;

    for (unsigned bits = 0;; bits += 7) {
        value |= (uint64_t)(**at & 0x7f) << bits;
        if (*(*at)++ < 0x80)
            return value;
    }
}

// Returns how many stacks the chunk tells; all of them are compared. `last`: the number of the stack before; by sequence they come in the order in which they were told.
static size_t compare(const struct facts *chunk, uint64_t *last) {
    uintptr_t frames[STACK_DEPTH], before[STACK_DEPTH];
    size_t depth_before = 0, count = 0;

    for (const uint8_t *at = chunk->payload; at < chunk->at; count++) {
        uint64_t number, depth, shared, address = 0, step;

        CHECK_EQ(*at++, VMAG_TRACE_STACK);
        number = varint(&at), depth = varint(&at), shared = varint(&at);
        CHECK_EQ(number, *last + 1);
        *last = number;
        CHECK(number >= 1 && number <= MANY && depth <= STACK_DEPTH && shared <= depth && shared <= depth_before);
        for (size_t i = 0; i < depth - shared; i++) {
            step = varint(&at);
            frames[i] = address += step >> 1 ^ (0 - (step & 1));
        }
        memcpy(frames + depth - shared, before + depth_before - shared, shared * sizeof *frames);
        CHECK_EQ(depth, told[number].depth);
        CHECK(memcmp(frames, told[number].frames, depth * sizeof *frames) == 0);
        memcpy(before, frames, depth * sizeof *frames);
        depth_before = depth;
    }
    CHECK_EQ(count, chunk->head.events);
    return count;
}

// Each has some of the outermost frames of the one before.
static void make(struct told *one, const struct told *before) {
    size_t fresh = 1 + random_below(&random_state, 20), kept = random_below(&random_state, before->depth + 1);

    kept = kept + fresh > STACK_DEPTH ? STACK_DEPTH - fresh : kept;
    for (size_t i = 0; i < fresh; i++)
        one->frames[i] = random_next(&random_state) >> (20 + random_below(&random_state, 30));
    memcpy(one->frames + fresh, before->frames + before->depth - kept, kept * sizeof *one->frames);
    one->depth = fresh + kept;
    one->stack = stacks_intern(one->depth, stacks_hash_of(one->frames, one->depth), NULL);
    CHECK(one->stack == stacks_intern(one->depth, stacks_hash_of(one->frames, one->depth), NULL));
}

static void chunks_say_what_was_told(void) {
    size_t sum = 0;
    uint64_t last = 0;

    chunk_count = 0;
    trace_stacks_begin();
    for (uint32_t number = 1; number <= MANY; number++) {
        CHECK_EQ(trace_stacks_number(told[number].stack), 0);
        CHECK_EQ(trace_stacks_tell(told[number].stack, told[number].frames), number);
        CHECK_EQ(trace_stacks_number(told[number].stack), number);
        CHECK_EQ(trace_stacks_tell(told[number].stack, told[number].frames), number);
        if (random_below(&random_state, 3000) == 0)
            take_chunks();
    }
    take_chunks();
    CHECK(chunk_count > 1);
    for (uint32_t i = 0; i < chunk_count; i++)
        sum += compare(&chunks[i], &last);
    CHECK_EQ(sum, MANY);
    CHECK(trace_stacks_next(copy) == NULL);
}

// All of up to so many frames, of a few addresses that are near each other.
static void all_are_different(uintptr_t *frames, size_t depth) {
    uint32_t before = stacks_count();

    if (depth > 0) {
        stacks_intern(depth, stacks_hash_of(frames + LONGEST - depth, depth), NULL);
        CHECK_EQ(stacks_count(), before + 1);
    }
    for (uintptr_t i = 0; depth < LONGEST && i < ADDRESSES; i++) {
        frames[LONGEST - depth - 1] = 0x401000 + i;
        all_are_different(frames, depth + 1);
    }
}

// Whoever wants frames gets them, whoever saw the stack before.
static void frames_are_kept_if_wanted(void) {
    for (uint32_t number = 1; number <= MANY; number++) {
        struct told *one = &told[number];
        struct stack *stack = stacks_intern(one->depth, stacks_hash_of(one->frames, one->depth), one->frames);

        CHECK(stack->has_frames && stack->depth == one->depth && memcmp(stack->frames, one->frames, one->depth * sizeof *one->frames) == 0);
        CHECK(stacks_intern(one->depth, stacks_hash_of(one->frames, one->depth), NULL) == stack);
        CHECK(stacks_newest() == stack);
    }
}

int main(void) {
    uintptr_t frames[LONGEST];

    told = calloc(MANY + 1, sizeof *told);
    chunks = calloc(CHUNKS_MOST, sizeof *chunks);
    copy = calloc(1, sizeof *copy);
    for (uint32_t number = 1; number <= MANY; number++)
        make(&told[number], &told[number - 1]);
    chunks_say_what_was_told();
    take_chunks();
    chunks_say_what_was_told(); // of another file
    frames_are_kept_if_wanted();
    all_are_different(frames, 0);
    return 0;
}
