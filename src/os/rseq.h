// Restartable sequences (rseq(2)): work on the state of the processor one runs on, without a lock or an atomic operation.
//
// The kernel keeps the number of the processor in a registered area of each thread, and knows from the area's rseq_cs which
// instructions are a sequence: { start, length up to the commit, abort }. A thread that is preempted, moved or interrupted
// by a signal inside of one goes on at `abort`, which starts the sequence over. So a sequence reads what it likes and ends
// with one store, its commit; whatever it wrote before that (a slot above the top) means nothing without it. (2001, the
// footnote of §6.1, asked for the processor's number in the thread; the restart is more than it asked for.)
//
// Each processor has an array of tops, and before it its number; the number of none stops all of them with one store:
//
//   [ number ][ top 0 ][ top 1 ] …       each top points into a stack: [ NULL ][ r1 ] … [ empty ] … [ FULL ]
//               ▲ tops                                                                  ▲ top
//
// A thread keeps the address of its processor's tops, and a sequence compares the numbers: nothing that follows waits for the
// processor's number.
//
// The area is the one that glibc registers (2.35 on); we never write its processor numbers, never make a system call inside
// a sequence, and commit by one store: what the kernel promises to every registration. rseq_cs stays set after a
// sequence; the kernel clears it when it finds the thread elsewhere, and the library is never unloaded (-z nodelete).
// Where nobody registered (musl, an old glibc or kernel, GLIBC_TUNABLES=glibc.pthread.rseq=0) os_rseq_init says no.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bits.h"

// The distance of the registered area from the thread pointer; constant after os_rseq_init.
extern ptrdiff_t os_rseq_area HIDDEN;

// In the area: the processor's number, and where the thread's descriptor is told.
enum { RSEQ_CPU_ID = 4, RSEQ_CS = 8 };

// Looks for the area, tests it and registers for os_rseq_fence. False: sequences must not be used. Once, calls the system;
// may sleep for some microseconds.
bool os_rseq_init(void);

// Writes addresses into the descriptors, which as linked tell distances: a part of os_rseq_init, alone for who has sequences and no area
// (tests/rseq/emulated.c). Once.
void os_rseq_complete(void);

// Numbers are below this: processors that the machine may ever have. Reads a file: ask once.
unsigned os_rseq_numbers(void);

// After it, no sequence is under way that began before it, on any processor, and what they committed is seen by the caller. False: the
// system refused. A system call that interrupts the processors on which the process runs; errno is kept.
bool os_rseq_fence(void);

// False: it would refuse. A process of several threads that is shut in asks the system for nothing that a filter may end it for.
bool os_rseq_may_fence(void);

// Where a sequence goes when it misses: something has to lie there. gcc 12.2 loses what a caller assigns on the way out of an asm goto with
// results, and gives out what the register of the result held.
#define RSEQ_MISSED __asm__ volatile("")

#if defined(__x86_64__)
#include "os/rseq_x86_64.h"
#elif defined(__aarch64__)
#include "os/rseq_aarch64.h"
#else
#include "os/rseq_none.h"
#endif

// What the platform's header defines, always inlined:
//
// RSEQ_READS_IN_ORDER
//     Whether a sequence that finds the number finds the tops as they were when it was written, or later; else there is to be an os_rseq_fence in between.
//
// void *rseq_field(ptrdiff_t distance)
//     Of this thread, what lies at that distance from its thread pointer.
//
// bool rseq_pop(void ***tops, size_t word, void **object)
//     Takes the object below the top of stack `word`; false: there is NULL, the stack is empty, or the tops are not those of
//     this thread's processor.
//
// bool rseq_push(void ***tops, size_t word, void *object)
//     Puts an object at the top; false: there is FULL, no slot is empty, or likewise.
//
// bool rseq_exchange(int number, void ***at, void **fresh, void ***old)
//     Exchanges a word of processor `number`; false: this thread runs on another one.

// The number of this thread's processor at this moment; negative: the thread is not registered.
static inline int rseq_number(void)
{
	return *(volatile int *)rseq_field(os_rseq_area + RSEQ_CPU_ID);
}
