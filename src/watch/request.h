// Request: what an observer in another process asks for, found when somebody comes by.
//
// The observer writes into our memory (include/vmag/format.h, struct vmag_request); no signal, no thread, nothing stops.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/bits.h"
#include "vmag/format.h"

extern struct vmag_request request_word; // where the observer writes

// Copies the request that waits, if there is one that nobody else took. What was taken is answered.
bool request_take(struct vmag_request *taken);
void request_answer(const struct vmag_request *taken, int error);

// Writes one of libumem's reports, asked for as in VMAG_UMEM_REPORT; an errno. Set once by the floor above, NULL: there are none.
extern int (*request_report)(const char *text);

static inline bool request_waits(void)
{
	return UNLIKELY(__atomic_load_n(&request_word.number, __ATOMIC_RELAXED) != __atomic_load_n(&request_word.answered, __ATOMIC_RELAXED));
}

// In the child: what was asked of the parent is not asked of it.
void request_fork_child(void);
