// What a program has in place of our plain C++ operators, for those of our forms that go through them.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>

typedef void *new_operator(size_t size);
typedef void delete_operator(void *object);
typedef void *aligned_new_operator(size_t size, size_t align);
typedef void aligned_delete_operator(void *object, size_t align);

// NULL: ours serves. Where the program has no form for arrays, that is its plain one.
struct operators {
	new_operator *make, *make_array;
	delete_operator *end, *end_array;
	aligned_new_operator *make_aligned, *make_array_aligned;
	aligned_delete_operator *end_aligned, *end_array_aligned;
};

// Before the program has threads. All operations of the process miss from now on.
void operators_replace(const struct operators *program);
