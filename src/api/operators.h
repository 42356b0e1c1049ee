// What a program has in place of our plain C++ operators, for those of our forms that go through them.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>

#include "util/bits.h"

typedef void *new_operator(size_t size);
typedef void delete_operator(void *object);
typedef void *aligned_new_operator(size_t size, size_t align);
typedef void aligned_delete_operator(void *object, size_t align);
typedef void sized_delete_operator(void *object, size_t size);
typedef void aligned_sized_delete_operator(void *object, size_t size, size_t align);
typedef void *nothrow_new_operator(size_t size, const void *tag);
typedef void *aligned_nothrow_new_operator(size_t size, size_t align, const void *tag);
typedef void nothrow_delete_operator(void *object, const void *tag);
typedef void aligned_nothrow_delete_operator(void *object, size_t align, const void *tag);

// Ours, by names that nobody replaces: in the static library those of C++ are weak, as in the C++ library, so that a program may have its own.
extern new_operator ours_Znwm HIDDEN, ours_Znam HIDDEN;
extern delete_operator ours_ZdlPv HIDDEN, ours_ZdaPv HIDDEN;
extern aligned_new_operator ours_ZnwmSt11align_val_t HIDDEN, ours_ZnamSt11align_val_t HIDDEN;
extern aligned_delete_operator ours_ZdlPvSt11align_val_t HIDDEN, ours_ZdaPvSt11align_val_t HIDDEN;
extern sized_delete_operator ours_ZdlPvm HIDDEN, ours_ZdaPvm HIDDEN;
extern aligned_sized_delete_operator ours_ZdlPvmSt11align_val_t HIDDEN, ours_ZdaPvmSt11align_val_t HIDDEN;
extern nothrow_new_operator ours_ZnwmRKSt9nothrow_t HIDDEN, ours_ZnamRKSt9nothrow_t HIDDEN;
extern nothrow_delete_operator ours_ZdlPvRKSt9nothrow_t HIDDEN, ours_ZdaPvRKSt9nothrow_t HIDDEN;
extern aligned_nothrow_new_operator ours_ZnwmSt11align_val_tRKSt9nothrow_t HIDDEN, ours_ZnamSt11align_val_tRKSt9nothrow_t HIDDEN;
extern aligned_nothrow_delete_operator ours_ZdlPvSt11align_val_tRKSt9nothrow_t HIDDEN, ours_ZdaPvSt11align_val_tRKSt9nothrow_t HIDDEN;

// NULL: ours serves. Where the program has no form for arrays, that is its plain one.
struct operators {
	new_operator *make, *make_array;
	delete_operator *end, *end_array;
	aligned_new_operator *make_aligned, *make_array_aligned;
	aligned_delete_operator *end_aligned, *end_array_aligned;
};

// Before the program has threads. All operations of the process miss from now on.
void operators_replace(const struct operators *program);

// Looks whether the program has some of its own. Once, at load.
void operators_look(void);

// Where the program's calls of that name go to; NULL: nowhere. In the shared library alone: in a static program the linker has decided.
void *operators_found(const char *name);
