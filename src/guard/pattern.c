// Patterns: filling and checking, a word at a time.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/pattern.h"

#include <string.h>

#include "util/bits.h"

static uint8_t byte_of(uint64_t pattern, size_t offset)
{
	uint8_t bytes[sizeof pattern];

	memcpy(bytes, &pattern, sizeof pattern);
	return bytes[offset % sizeof pattern];
}

void pattern_fill(void *bytes, size_t size, uint64_t pattern)
{
	char *at = bytes;

	for (; size >= sizeof pattern; at += sizeof pattern, size -= sizeof pattern)
		memcpy(at, &pattern, sizeof pattern);
	memcpy(at, &pattern, size);
}

long pattern_broken(const void *bytes, size_t size, uint64_t pattern)
{
	const uint8_t *at = bytes;
	size_t i = 0;
	uint64_t word;

	for (; i + sizeof word <= size; i += sizeof word) {
		memcpy(&word, at + i, sizeof word);
		if (word != pattern)
			break;
	}
	for (; i < size; i++)
		if (at[i] != byte_of(pattern, i))
			return (long)i;
	return PATTERN_WHOLE;
}

static size_t end_bytes(size_t size)
{
	return round_up(size + 1, 8) - size;
}

size_t red_zone_bytes(size_t size)
{
	return size + end_bytes(size) + RED_BYTES;
}

void red_zone_write(void *data, size_t size)
{
	char *end = (char *)data + size;
	uint64_t red = PATTERN_RED;

	memset(end, PATTERN_END, end_bytes(size));
	memcpy(end + end_bytes(size), &red, sizeof red);
}

long red_zone_broken(const void *data, size_t size)
{
	const uint8_t *end = (const uint8_t *)data + size;
	size_t filled = end_bytes(size);
	long offset;

	for (size_t i = 0; i < filled; i++)
		if (end[i] != PATTERN_END)
			return (long)(size + i);
	offset = pattern_broken(end + filled, RED_BYTES, PATTERN_RED);
	return offset == PATTERN_WHOLE ? PATTERN_WHOLE : (long)(size + filled) + offset;
}
