// Sampled threads: their numbers and names, for the life of the process.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdint.h>

enum {
	THREAD_NAME_BYTES = 32,
	NAMES_A_BLOCK = 256,
	NAME_BLOCKS = 256,
	SAMPLED_THREADS_MOST = NAMES_A_BLOCK * NAME_BLOCKS - 1, // the last number, which threads beyond share
};

// A number for a thread, from 1 on.
uint32_t sampled_thread_number(void);

// The last number that was given; 0: none.
uint32_t sampled_threads_last(void);

// Where its name is, ended by a zero, "" when it has none; and where it may be written, NULL: there is no memory for it.
const char *sampled_thread_name(uint32_t thread);
char *sampled_thread_name_place(uint32_t thread);

// Tells readers in other processes where they are.
struct vmag_root;
void sampled_threads_tell(struct vmag_root *root);
