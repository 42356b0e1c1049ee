// Taking and answering requests.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/request.h"

struct vmag_request request_word;

int (*request_report)(const char *text);

static _Atomic uint32_t taken_last; // of whom a request is taken only once

bool request_take(struct vmag_request *taken)
{
	uint32_t number = __atomic_load_n(&request_word.number, __ATOMIC_ACQUIRE), before = atomic_load(&taken_last);

	if (number == before || !atomic_compare_exchange_strong(&taken_last, &before, number))
		return false;
	*taken = request_word;
	taken->number = number;
	taken->path[sizeof taken->path - 1] = '\0';
	return true;
}

void request_answer(const struct vmag_request *taken, int error)
{
	request_word.error = error;
	__atomic_store_n(&request_word.answered, taken->number, __ATOMIC_RELEASE);
}

void request_fork_child(void)
{
	if (request_waits())
		request_word.number = request_word.answered = atomic_load(&taken_last);
}
