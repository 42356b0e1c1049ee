// Contents that tell whose they are: every byte of a block follows from a seed and its offset.
// The seed of a block should hold its address, so that two live blocks that overlap cannot both verify.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_PATTERN_H
#define VMAG_TESTS_PATTERN_H

#include "../check.h"

#include <stdint.h>

static inline uint64_t pattern_mix(uint64_t value) {
    value = (value ^ (value >> 31)) * 0x9E3779B97F4A7C15u;
    return value ^ (value >> 29);
}

static inline uint64_t pattern_word(uint64_t seed, size_t offset) {
    return pattern_mix(seed + (offset >> 3) * 0xD1B54A32D192ED03u);
}

static inline unsigned char pattern_byte(uint64_t seed, size_t offset) {
    return (unsigned char)(pattern_word(seed, offset) >> ((offset & 7) * 8));
}

// By __builtin_memcpy, for the tests are compiled with -fno-builtin: a call for each word took nomem_exhaust a quarter of its time.
static inline void pattern_fill_range(void *block, size_t from, size_t to, uint64_t seed) {
    unsigned char *bytes = (unsigned char *)block;
    size_t offset = from;
    for (; offset < to && (offset & 7) != 0; offset++)
        bytes[offset] = pattern_byte(seed, offset);
    for (; offset + 8 <= to; offset += 8) {
        uint64_t word = pattern_word(seed, offset);
        __builtin_memcpy(bytes + offset, &word, 8);
    }
    for (; offset < to; offset++)
        bytes[offset] = pattern_byte(seed, offset);
}

static inline void pattern_verify_range(const void *block, size_t from, size_t to, uint64_t seed) {
    const unsigned char *bytes = (const unsigned char *)block;
    size_t offset = from;
    for (; offset + 8 <= to && (offset & 7) == 0; offset += 8) {
        uint64_t word = pattern_word(seed, offset), found;
        __builtin_memcpy(&found, bytes + offset, 8);
        CHECK_SAY(found == word, "block %p offset %zu: found %016llx, wanted %016llx", block, offset,
                  (unsigned long long)found, (unsigned long long)word);
    }
    for (; offset < to; offset++)
        CHECK_SAY(bytes[offset] == pattern_byte(seed, offset), "block %p offset %zu: found %02x, wanted %02x", block,
                  offset, bytes[offset], pattern_byte(seed, offset));
}

// Large blocks are touched whole at both ends and in one line of every page between: enough to see a lost,
// doubled or misplaced page, and far quicker than every byte.
enum { PATTERN_WHOLE_BYTES = 64 * 1024, PATTERN_END_BYTES = 4096, PATTERN_STRIDE = 4096, PATTERN_LINE = 64 };

static inline void pattern_each(void *block, size_t size, uint64_t seed,
                                void (*visit)(void *, size_t, size_t, uint64_t)) {
    if (size <= PATTERN_WHOLE_BYTES) {
        visit(block, 0, size, seed);
        return;
    }
    visit(block, 0, PATTERN_END_BYTES, seed);
    for (size_t offset = PATTERN_STRIDE; offset + PATTERN_LINE <= size; offset += PATTERN_STRIDE)
        visit(block, offset, offset + PATTERN_LINE, seed);
    visit(block, (size - PATTERN_END_BYTES) & ~(size_t)7, size, seed);
}

static inline void pattern_verify_visit(void *block, size_t from, size_t to, uint64_t seed) {
    pattern_verify_range(block, from, to, seed);
}

static inline void pattern_fill(void *block, size_t size, uint64_t seed) {
    pattern_each(block, size, seed, pattern_fill_range);
}

static inline void pattern_verify(const void *block, size_t size, uint64_t seed) {
    pattern_each((void *)block, size, seed, pattern_verify_visit);
}

// After realloc from `old_size` to `new_size`: all that pattern_fill wrote and that still exists must be there.
static inline void pattern_verify_prefix(const void *block, size_t old_size, size_t new_size, uint64_t seed) {
    size_t kept = old_size < new_size ? old_size : new_size;
    if (old_size <= PATTERN_WHOLE_BYTES) {
        pattern_verify_range(block, 0, kept, seed);
        return;
    }
    pattern_verify_range(block, 0, kept < PATTERN_END_BYTES ? kept : (size_t)PATTERN_END_BYTES, seed);
    for (size_t offset = PATTERN_STRIDE; offset + PATTERN_LINE <= kept; offset += PATTERN_STRIDE)
        pattern_verify_range(block, offset, offset + PATTERN_LINE, seed);
    size_t tail = (old_size - PATTERN_END_BYTES) & ~(size_t)7;
    if (tail < kept)
        pattern_verify_range(block, tail, kept, seed);
}

#endif
