// Patterns: what guarded buffers are filled with, and where a pattern was broken. Pure functions over memory.
//
//   [ data … size asked for │ 0xbb │ 0xbb … ][ 0xfeedface feedface ]
//                             └ to a multiple of 8   └ red zone
//
// Freed data read 0xdeadbeef, fresh data 0xbaddcafe. The words and the first 0xbb are libumem's, so that what its users
// know by sight means the same here.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PATTERN_FREE 0xdeadbeefdeadbeefull
#define PATTERN_FRESH 0xbaddcafebaddcafeull
#define PATTERN_RED 0xfeedfacefeedfaceull
enum { PATTERN_END = 0xbb, RED_BYTES = 8 };

enum { PATTERN_WHOLE = -1 }; // no byte differs

// Fills `size` bytes; the pattern starts anew at `bytes`.
void pattern_fill(void *bytes, size_t size, uint64_t pattern);

// The offset of the first byte that differs from the pattern, or PATTERN_WHOLE.
long pattern_broken(const void *bytes, size_t size, uint64_t pattern);

// Bytes that data of `size` bytes take with their end and red zone.
size_t red_zone_bytes(size_t size);
void red_zone_write(void *data, size_t size);

// The offset from `data` of the first byte behind the data that was changed, or PATTERN_WHOLE.
long red_zone_broken(const void *data, size_t size);
