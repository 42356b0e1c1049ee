// The file of an event trace: chunks of equal size, each good by itself.
//
//   file:   chunk 0 │ chunk 1 │ …                    VMAG_TRACE_CHUNK bytes each; the last ones may be cut
//   chunk:  struct vmag_trace_chunk │ payload        `bytes` of it, the rest of the chunk is not defined
//
// A chunk holds events of one thread, in their order. Chunks of one thread follow each other by `sequence`, which counts all
// chunks of the process; in the file they stand in any order, and in ring mode new ones take the places of the oldest. A
// reader takes every chunk whose magic, version and checksum are right, and passes over the others: that is how a trace of a
// process that was killed is read.
//
// Payload: events, each a varint of ticks since the event before (for the first: since ticks_first) · 4 + kind, then
//   VMAG_TRACE_ALLOC   zigzag varint of (address − address of the event before) / 8, varint of bytes the program may use
//   VMAG_TRACE_FREE    zigzag varint of the same
//   VMAG_TRACE_RESIZE  as ALLOC: the object at this address has this size from now on
// A varint has seven bits a byte, the lowest first, bit 7 set in all bytes but the last; zigzag maps 0, −1, 1, −2 … to
// 0, 1, 2, 3 …. Before the first event of a chunk the address is 0.
//
// Ticks are the processor's; (ticks_first, ns_first) and (ticks_last, ns_last) say what they are in CLOCK_MONOTONIC.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdint.h>

#define VMAG_TRACE_MAGIC 0x63746d76u // "vmtc"

enum { VMAG_TRACE_VERSION = 1, VMAG_TRACE_CHUNK = 65536 };
enum { VMAG_TRACE_ALLOC, VMAG_TRACE_FREE, VMAG_TRACE_RESIZE };

// Little endian on all platforms served.
struct vmag_trace_chunk {
	uint32_t magic;
	uint16_t version;
	uint16_t reserved;
	uint32_t sequence;
	uint32_t bytes;  // of the payload
	uint32_t events; // in it
	uint32_t checksum; // CRC-32 (polynomial 0xedb88320) of the payload
	uint32_t pid, thread; // the kernel's numbers
	uint64_t ticks_first, ns_first, ticks_last, ns_last;
};
