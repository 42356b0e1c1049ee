// At load: whether the program, or a library before us, has C++ operators of its own in place of some of ours, or a realloc.
//
// C++ lets a program replace operator new and operator delete alone; the forms with a size, for arrays and without exceptions then go through
// these. A library's own forms would take what the program's operator made for an object of theirs (docs/decisions/0006).
// SPDX-License-Identifier: BSD-2-Clause
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "api/operators.h"
#include "api/reallocarray.h"
#include "util/bits.h"

// As linked (src/api/operators.c): in a static program its own, where it has them.
new_operator _Znwm, _Znam;
delete_operator _ZdlPv, _ZdaPv;
aligned_new_operator _ZnwmSt11align_val_t, _ZnamSt11align_val_t;
aligned_delete_operator _ZdlPvSt11align_val_t, _ZdaPvSt11align_val_t;
sized_delete_operator _ZdlPvm, _ZdaPvm;
aligned_sized_delete_operator _ZdlPvmSt11align_val_t, _ZdaPvmSt11align_val_t;
nothrow_new_operator _ZnwmRKSt9nothrow_t, _ZnamRKSt9nothrow_t;
nothrow_delete_operator _ZdlPvRKSt9nothrow_t, _ZdaPvRKSt9nothrow_t;
aligned_nothrow_new_operator _ZnwmSt11align_val_tRKSt9nothrow_t, _ZnamSt11align_val_tRKSt9nothrow_t;
aligned_nothrow_delete_operator _ZdlPvSt11align_val_tRKSt9nothrow_t, _ZdaPvSt11align_val_tRKSt9nothrow_t;

#pragma weak operators_found

// Where the program's calls go to, when that is not here; else `instead`.
static __attribute__((noinline)) COLD void *program_has(const char *name, const void *linked, const void *ours, void *instead)
{
	const void *found = operators_found != NULL ? operators_found(name) : linked;

	return found == NULL || found == ours ? instead : (void *)found;
}

// Our delete without a size, for what a new of the program's makes: it may ask for more than it was asked for.
#define UNSIZED(make, end) ((make) != NULL ? ours##end : NULL)

#define PROGRAM_HAS(name, instead) program_has(#name, (const void *)&name, (const void *)&ours##name, (void *)(instead))

#define IS_OURS(name) (PROGRAM_HAS(name, NULL) == NULL)

// Whether any form that goes through others is ours: not where the program, or a library that comes before us, has all of them.
static __attribute__((noinline)) COLD bool some_are_ours(void)
{
	return IS_OURS(_ZdlPvm) || IS_OURS(_ZdaPvm) || IS_OURS(_Znam) || IS_OURS(_ZdaPv) ||
	       IS_OURS(_ZnwmRKSt9nothrow_t) || IS_OURS(_ZnamRKSt9nothrow_t) || IS_OURS(_ZdlPvRKSt9nothrow_t) || IS_OURS(_ZdaPvRKSt9nothrow_t);
}

static __attribute__((noinline)) COLD bool some_aligned_are_ours(void)
{
	return IS_OURS(_ZdlPvmSt11align_val_t) || IS_OURS(_ZdaPvmSt11align_val_t) || IS_OURS(_ZnamSt11align_val_t) || IS_OURS(_ZdaPvSt11align_val_t) ||
	       IS_OURS(_ZnwmSt11align_val_tRKSt9nothrow_t) || IS_OURS(_ZnamSt11align_val_tRKSt9nothrow_t) ||
	       IS_OURS(_ZdlPvSt11align_val_tRKSt9nothrow_t) || IS_OURS(_ZdaPvSt11align_val_tRKSt9nothrow_t);
}

// Where the reallocarray that the program calls is ours: not where we were opened, behind the C library.
static __attribute__((noinline)) COLD void look_whose_array(realloc_function *program)
{
	if (program_has("reallocarray", (const void *)reallocarray, (const void *)reallocarray, NULL) == NULL)
		reallocarray_by(program);
}

COLD void operators_look(void)
{
	struct operators program;
	realloc_function *programs_realloc;

	*(void **)&programs_realloc = program_has("realloc", (const void *)realloc, (const void *)realloc, NULL);
	if (programs_realloc != NULL)
		look_whose_array(programs_realloc);

	program.make = PROGRAM_HAS(_Znwm, NULL);
	program.make_array = PROGRAM_HAS(_Znam, program.make);
	program.end = PROGRAM_HAS(_ZdlPv, UNSIZED(program.make, _ZdlPv));
	program.end_array = PROGRAM_HAS(_ZdaPv, program.end != NULL ? program.end : UNSIZED(program.make_array, _ZdlPv));
	program.make_aligned = PROGRAM_HAS(_ZnwmSt11align_val_t, NULL);
	program.make_array_aligned = PROGRAM_HAS(_ZnamSt11align_val_t, program.make_aligned);
	program.end_aligned = PROGRAM_HAS(_ZdlPvSt11align_val_t, UNSIZED(program.make_aligned, _ZdlPvSt11align_val_t));
	program.end_array_aligned = PROGRAM_HAS(_ZdaPvSt11align_val_t, program.end_aligned != NULL ? program.end_aligned : UNSIZED(program.make_array_aligned, _ZdlPvSt11align_val_t));
	// Those of arrays are the plain ones where there are no others.
	if (((program.make_array != NULL || program.end_array != NULL) && some_are_ours()) ||
	    ((program.make_array_aligned != NULL || program.end_array_aligned != NULL) && some_aligned_are_ours()))
		operators_replace(&program);
}
