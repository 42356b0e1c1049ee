// By which realloc reallocarray goes.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>

typedef void *realloc_function(void *object, size_t size);

// The program's, or that of a library before us. At load.
void reallocarray_by(realloc_function *function);
