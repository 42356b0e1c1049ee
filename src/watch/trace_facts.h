// A chunk of facts of an event trace that is being made (include/vmag/trace_format.h), and its numbers.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "util/bits.h"
#include "vmag/trace_format.h"

enum { FACTS_BYTES = VMAG_TRACE_CHUNK - sizeof(struct vmag_trace_chunk), FACTS_NAME_MOST = 128 };
#define NO_SEQUENCE UINT32_MAX // it was not written yet

struct facts {
	struct vmag_trace_chunk head;
	uint8_t payload[FACTS_BYTES];
	uint8_t *at; // the end of what is there
	uint64_t file; // its number, see watch/trace_file.c; unused while stacks are gathered
};

static inline void facts_clear(struct facts *facts)
{
	facts->at = facts->payload;
	facts->head.events = 0;
	facts->head.sequence = NO_SEQUENCE;
}

static inline size_t facts_room(const struct facts *facts)
{
	return (size_t)(facts->payload + FACTS_BYTES - facts->at);
}

static inline uint8_t *add_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)value | 0x80;
	*at++ = (uint8_t)value;
	return at;
}

static inline void facts_add_text(struct facts *facts, const char *text, size_t length)
{
	facts->at = add_varint(facts->at, length);
	memcpy(facts->at, text, length);
	facts->at += length;
}

// There is room for FACTS_NAME_MOST.
static inline void facts_add_name(struct facts *facts, uint8_t tag, uint64_t number, uint64_t bytes, const char *name)
{
	*facts->at++ = tag;
	facts->at = add_varint(add_varint(facts->at, number), bytes);
	facts_add_text(facts, name, min_size(strlen(name), FACTS_NAME_MOST / 2));
	facts->head.events++;
}
