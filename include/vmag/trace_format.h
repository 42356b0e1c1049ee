// The file of an event trace: chunks of equal size, each good by itself.
//
//   file:   chunk 0 │ chunk 1 │ …                    VMAG_TRACE_CHUNK bytes each; the last ones may be cut, some never written
//   chunk:  struct vmag_trace_chunk │ payload        `bytes` of it, the rest of the chunk is not defined
//
// A chunk holds events of one thread, in their order, or facts. Chunks of one thread follow each other by `sequence`; in the
// file they stand in any order, and in ring mode new ones take the places of the oldest. A reader takes every chunk whose
// magic, version and checksum are right, and passes over the others: that is how a trace of a process that was killed is read.
//
// Event: in the lowest two bits of its first byte the kind, in bit 2 whether it is short. A short one is a little endian number
// of VMAG_TRACE_SHORT_SIZED bytes, a FREE of VMAG_TRACE_SHORT_FREE, in which behind these bits stand ticks, step and bytes / 8:
//
//        bit 0    3             16                         42            56
//        kind 1 │ ticks (13) │ step (26; of a FREE 24) │ bytes / 8 (14)
//
// Ticks: since the event before (for the first: since ticks_first). Step: the zigzag of the way from the address of the event
// before, in units of 8 (0 before the first). Bytes: those the program may use. A long event has behind its first byte the
// varints of ticks, of the step, and, if it is no FREE, of the bytes.
//   VMAG_TRACE_ALLOC, VMAG_TRACE_FREE
//   VMAG_TRACE_RESIZE  the object at this address has this size from now on
//   VMAG_TRACE_OTHER   an event of an object cache or a resource arena, always long: the step is in units of 1 from the event
//                      of this kind before; at its end a byte, which one (VMAG_TRACE_CACHE_ALLOC …; VMAG_TRACE_PLACES_ALLOC and _FREE are of
//                      a cache whose objects are not memory of the heap, but an arena's), and the varint of the cache's or the arena's
//                      number, which no other one has or had in this process
// In a chunk of VMAG_TRACE_EVENTS_STACKS all events that make something end with the varint of the stack's number; 0: unknown.
//
// Fact: a tag byte, then
//   VMAG_TRACE_STACK  varints: number, depth, how many of its frames, the outermost, are those of the stack before in this chunk, and for each
//                     other frame, innermost first, the zigzag of the step from the one before, of the first from 0
//   VMAG_TRACE_MAPS   a text: lines of /proc/PID/maps, those of files in which code is executed; behind each
//                     "build START ID" in hexadecimal, of a file with a build id
//   VMAG_TRACE_LEDGER a text: the ledger (vmag/ledger.h) at the end of the process, the fields of a JSON object
//   VMAG_TRACE_FULL   nothing: the file may be no longer, or the disk has no room, and what came later is not in it
//   VMAG_TRACE_BEGAN  a varint: VMAG_TRACE_AT_START of the process, or with objects from before, of which nothing is told:
//                     VMAG_TRACE_LATER, or VMAG_TRACE_IN_CHILD of a process that was forked
//   VMAG_TRACE_ENDED  varints: VMAG_TRACE_EXITED, by the process's exit, or VMAG_TRACE_OUT_OF_TIME or VMAG_TRACE_STOPPED, by
//                     somebody, and what came later is not in it; how many chunks the file has, 0 in ring mode. It is missing where a process was killed
//   VMAG_TRACE_CACHE, VMAG_TRACE_ARENA   varints: number, bytes (an object's, a quantum's; 0: the cache's objects are not
//                     memory of the heap); a text, the name. It comes before the first event of that number is written; in ring mode
//                     those that live are told, each time that mappings are
//   VMAG_TRACE_MORE_MAPS  a text: lines that go on where VMAG_TRACE_MAPS or the last of these in the order of sequences ended
//   VMAG_TRACE_MAPS_CUT   nothing: there was no room for all of these lines
// A varint has seven bits a byte, the lowest first, bit 7 set in all bytes but the last; zigzag maps 0, −1, 1, −2 … to
// 0, 1, 2, 3 …; a text is the varint of its length and its bytes. Of two facts about the same the one of the higher sequence holds.
//
// Ticks are the processor's; (ticks_first, ns_first) and (ticks_last, ns_last), the last event, say what they are in CLOCK_MONOTONIC.
// Each reading of that clock may be late by some hundred nanoseconds: what two threads did to one object is in its order by ticks.
// Before version 6 numbers of caches may be those of others later, and there is no VMAG_TRACE_PLACES_ALLOC. Before version 5 nothing says how it began and ended. In version 2 no frames are those of the stack before, and their number is not there; in versions 2 and 3 the checksum is of the payload only.
// Checksum: four lanes, at first 0, 1, 2, 3; head and payload, filled up with zeros to 32 bytes, as 64-bit words in turn:
// lane = (lane ^ word) · 0x9e3779b97f4a7c15, lane ^= lane >> 32. In the end all lanes and the length in bytes are added, and
// the two halves of that xored.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdint.h>

#define VMAG_TRACE_MAGIC 0x63746d76u // "vmtc"

enum { VMAG_TRACE_VERSION = 6, VMAG_TRACE_CHUNK = 65536 };
enum { VMAG_TRACE_EVENTS, VMAG_TRACE_EVENTS_STACKS, VMAG_TRACE_FACTS }; // what is in a chunk
enum { VMAG_TRACE_ALLOC, VMAG_TRACE_FREE, VMAG_TRACE_RESIZE, VMAG_TRACE_OTHER };
enum {
	VMAG_TRACE_SHORT = 4,
	VMAG_TRACE_TICKS_AT = 3, VMAG_TRACE_TICKS_BITS = 13,
	VMAG_TRACE_STEP_AT = 16, VMAG_TRACE_STEP_BITS = 26, VMAG_TRACE_FREE_STEP_BITS = 24,
	VMAG_TRACE_SIZE_AT = 42, VMAG_TRACE_SIZE_BITS = 14,
	VMAG_TRACE_SHORT_SIZED = 7, VMAG_TRACE_SHORT_FREE = 5
};
enum { VMAG_TRACE_CACHE_ALLOC, VMAG_TRACE_CACHE_FREE, VMAG_TRACE_ARENA_ALLOC, VMAG_TRACE_ARENA_FREE, VMAG_TRACE_PLACES_ALLOC, VMAG_TRACE_PLACES_FREE };
enum {
	VMAG_TRACE_STACK = 1, VMAG_TRACE_MAPS, VMAG_TRACE_CACHE, VMAG_TRACE_ARENA, VMAG_TRACE_LEDGER, VMAG_TRACE_FULL,
	VMAG_TRACE_BEGAN, VMAG_TRACE_ENDED, VMAG_TRACE_MORE_MAPS, VMAG_TRACE_MAPS_CUT
};
enum { VMAG_TRACE_AT_START, VMAG_TRACE_LATER, VMAG_TRACE_IN_CHILD };
enum { VMAG_TRACE_EXITED, VMAG_TRACE_OUT_OF_TIME, VMAG_TRACE_STOPPED };

// Little endian on all platforms served.
struct vmag_trace_chunk {
	uint32_t magic;
	uint16_t version;
	uint16_t kind;
	uint32_t sequence;
	uint32_t bytes;  // of the payload
	uint32_t events; // in it
	uint32_t checksum; // of the head with 0 here, and of the payload
	uint32_t pid, thread; // the kernel's numbers
	uint64_t ticks_first, ns_first, ticks_last, ns_last;
};
