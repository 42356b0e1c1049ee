// Arithmetic on sizes and bit words: powers of two, rounding, first set bit.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __OPTIMIZE__
#error "vmag is compiled with -O2: with less, what must be inlined is not. To check, configure with -DVMAG_DEBUG=ON."
#endif
_Static_assert(sizeof(void *) == 8, "vmag is for 64-bit x86-64 and AArch64");

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CACHE_LINE 64

// Runs once in a process, or seldom: compiled for size.
#define COLD __attribute__((cold))

// Data that the fast path reads is reached without a detour through the table of global offsets.
#define HIDDEN __attribute__((visibility("hidden")))

// What is hidden unless it says otherwise (CMakeLists.txt) says this.
#define EXPORT __attribute__((visibility("default")))

static inline bool is_power_of_two(size_t x)
{
	return x != 0 && (x & (x - 1)) == 0;
}

// `align` is a power of two. Overflows to a value below x when x is within `align` of SIZE_MAX.
static inline size_t round_up(size_t x, size_t align)
{
	return (x + align - 1) & ~(align - 1);
}

static inline size_t round_down(size_t x, size_t align)
{
	return x & ~(align - 1);
}

// x is not zero. An exclusive or, for that is how x86-64's bsr becomes clz: gcc then leaves out both.
static inline unsigned lg_floor(size_t x)
{
	return 63u ^ (unsigned)__builtin_clzl(x);
}

static inline unsigned lg_ceil(size_t x)
{
	return x <= 1 ? 0 : lg_floor(x - 1) + 1;
}

static inline unsigned first_bit(uint64_t word)
{
	return (unsigned)__builtin_ctzl(word);
}

// 2^64 by the golden ratio: what is multiplied by it differs most in its highest bits (Knuth, The Art of Computer Programming, 6.4).
#define GOLDEN 0x9e3779b97f4a7c15u

// A hash of `lg` bits, 1 to 64.
static inline uint64_t hash_bits(uint64_t number, unsigned lg)
{
	return number * GOLDEN >> (64 - lg);
}

static inline size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}
