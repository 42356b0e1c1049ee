// Taking and answering requests.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/request.h"

struct vmag_request request;

static _Atomic uint32_t taken_last; // of whom a request is taken only once

bool request_take(struct vmag_request *taken)
{
	uint32_t number = __atomic_load_n(&request.number, __ATOMIC_ACQUIRE), before = atomic_load(&taken_last);

	if (number == before || !atomic_compare_exchange_strong(&taken_last, &before, number))
		return false;
	*taken = request;
	taken->number = number;
	taken->path[sizeof taken->path - 1] = '\0';
	return true;
}

void request_answer(const struct vmag_request *taken, int error)
{
	request.error = error;
	__atomic_store_n(&request.answered, taken->number, __ATOMIC_RELEASE);
}

void request_fork_child(void)
{
	request.number = request.answered = atomic_load(&taken_last);
}
