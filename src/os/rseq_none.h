// No restartable sequences on this processor: os_rseq_init says no, and nothing here is ever reached with effect.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

enum { RSEQ_READS_IN_ORDER = 1 };

static inline void *rseq_field(ptrdiff_t distance)
{
	(void)distance;
	return NULL;
}

static inline bool rseq_pop(void ***tops, size_t word, void **object)
{
	(void)tops, (void)word, (void)object;
	return false;
}

static inline bool rseq_push(void ***tops, size_t word, void *object)
{
	(void)tops, (void)word, (void)object;
	return false;
}

static inline bool rseq_exchange(int number, void ***at, void **fresh, void ***old)
{
	(void)number, (void)at, (void)fresh, (void)old;
	return false;
}
