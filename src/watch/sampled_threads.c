// Sampled threads: blocks of names, by number.
// SPDX-License-Identifier: BSD-2-Clause
#include "watch/sampled_threads.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "util/bits.h"
#include "vmag/format.h"

typedef char name_bytes[THREAD_NAME_BYTES];
_Static_assert(NAMES_A_BLOCK * sizeof(name_bytes) == BASE_LARGEST, "a block is an object of base");

static name_bytes *_Atomic blocks[NAME_BLOCKS];
static _Atomic uint32_t last;

static void ensure_block(uint32_t thread)
{
	name_bytes *none = NULL, *fresh;

	if (blocks[thread / NAMES_A_BLOCK] != NULL)
		return;
	fresh = base_alloc(BASE_LARGEST);
	if (fresh == NULL)
		return;
	memset(fresh, 0, BASE_LARGEST);
	if (!atomic_compare_exchange_strong(&blocks[thread / NAMES_A_BLOCK], &none, fresh))
		base_free(fresh, BASE_LARGEST);
}

uint32_t sampled_thread_number(void)
{
	uint32_t thread = atomic_load(&last);

	do
		if (thread == SAMPLED_THREADS_MOST)
			return thread;
	while (!atomic_compare_exchange_weak(&last, &thread, thread + 1));
	ensure_block(thread + 1);
	return thread + 1;
}

uint32_t sampled_threads_last(void)
{
	return atomic_load(&last);
}

char *sampled_thread_name_place(uint32_t thread)
{
	name_bytes *block = thread <= SAMPLED_THREADS_MOST ? blocks[thread / NAMES_A_BLOCK] : NULL;

	return block == NULL ? NULL : block[thread % NAMES_A_BLOCK];
}

const char *sampled_thread_name(uint32_t thread)
{
	const char *place = sampled_thread_name_place(thread);

	return place == NULL ? "" : place;
}

COLD void sampled_threads_tell(struct vmag_root *root)
{
	root->thread_names = (uintptr_t)blocks;
	root->thread_count = (uintptr_t)&last;
	root->names_a_block = NAMES_A_BLOCK;
	root->name_bytes = THREAD_NAME_BYTES;
}
