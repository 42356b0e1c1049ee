// Exported: the C++ operators new and delete, by their mangled names, so that no C++ library is needed to build or load us.
//
// When memory is short they call the new handler and then throw std::bad_alloc, both found in the program's own C++ library
// at that moment (C++17 [new.delete.single]).
//
// A program may replace some of them. The others then go through those: operator delete with a size through the one without, the forms of arrays
// and the nothrow ones likewise. All of them miss then, and find the program's behind it (docs/decisions/0006).
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

#include "api/needs_malloc.h"
#include "api/operators.h"
#include "conf/options.h"
#include "guard/report.h"
#include "heap/cpu_fast.h"
#include "heap/door.h"
#include "heap/fast.h"
#include "heap/fronts.h"
#include "heap/missed.h"

#ifdef VMAG_WEAK_OPERATORS // in the static library
#define OPERATOR EXPORT __attribute__((weak))
#else
#define OPERATOR EXPORT
#endif

typedef void handler(void);

static struct operators replaced;

// Of libstdc++ and libc++, when they are linked statically; a shared one is looked up.
extern handler *_ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

// A function of the C++ library that is in the process; NULL: there is none. A program in C may have it by a library that it opened for that one alone.
static COLD __attribute__((noinline)) void *of_cxx_library(const char *name)
{
	static const char names[][16] = { "libstdc++.so.6", "libc++.so.1", "libc++abi.so.1" };
	void *found = dlsym(RTLD_DEFAULT, name), *library, *(*open)(const char *, int);
	int (*close)(void *);

	*(void **)&open = dlsym(RTLD_DEFAULT, "dlopen"); // by name: a static program has none, and is not to be told to
	*(void **)&close = dlsym(RTLD_DEFAULT, "dlclose");
	for (unsigned i = 0; found == NULL && open != NULL && close != NULL && i < sizeof names / sizeof names[0]; i++) {
		library = open(names[i], RTLD_LAZY | RTLD_NOLOAD);
		if (library == NULL)
			continue;
		found = dlsym(library, name);
		close(library);
	}
	if (found == NULL)
		dlerror(); // the program shall not find it
	return found;
}

static handler *new_handler(void)
{
	handler *(*get)(void) = _ZSt15get_new_handlerv;

	if (get == NULL)
		*(void **)&get = of_cxx_library("_ZSt15get_new_handlerv");
	return get == NULL ? NULL : get();
}

static void throw_bad_alloc(size_t size)
{
	void (*throw)(void) = _ZSt17__throw_bad_allocv;

	if (throw == NULL)
		*(void **)&throw = of_cxx_library("_ZSt17__throw_bad_allocv");
	if (throw != NULL)
		throw();
	guard_report("operator new", GUARD_NOWHERE, "no memory for %zu bytes, and no C++ library to throw std::bad_alloc (where that is linked statically, link with -Wl,-u,_ZSt17__throw_bad_allocv)", size);
}

// What the compiler calls in operators_nothrow.cc where something is caught: of the C++ library, which may have come after us.
extern void *cxa_begin_catch(void *exception) __asm__("__cxa_begin_catch") __attribute__((weak));
extern void cxa_end_catch(void) __asm__("__cxa_end_catch") __attribute__((weak));

void operators_begin_catch(void *exception);
void operators_end_catch(void);

void operators_begin_catch(void *exception)
{
	void *(*begin)(void *) = cxa_begin_catch;

	if (begin == NULL)
		*(void **)&begin = of_cxx_library("__cxa_begin_catch");
	if (begin != NULL)
		begin(exception);
}

void operators_end_catch(void)
{
	void (*end)(void) = cxa_end_catch;

	if (end == NULL)
		*(void **)&end = of_cxx_library("__cxa_end_catch");
	if (end != NULL)
		end();
}

// The word by which the unwinder finds whom to ask at these functions' frames; NULL as long as there was no C++ library to ask.
extern void *catcher __asm__("DW.ref.__gxx_personality_v0") HIDDEN;

static bool can_catch(void)
{
	if (UNLIKELY(catcher == NULL))
		catcher = of_cxx_library("__gxx_personality_v0");
	return catcher != NULL;
}

// `align` 0: the default alignment.
static void *allocate(size_t size, size_t align)
{
	return align == 0 ? heap_malloc_some(size) : heap_aligned(align, size);
}

static __attribute__((noinline)) void *new_slow(size_t size, size_t align, bool may_throw)
{
	for (;;) {
		void *object = allocate(size, align);
		handler *handle;

		if (object != NULL)
			return object;
		if (options.experimental_infallible_new)
			guard_report("operator new", GUARD_NOWHERE, "no memory for %zu bytes, and the option experimental_infallible_new is set", size);
		handle = may_throw || can_catch() ? new_handler() : NULL;
		if (handle == NULL)
			break;
		handle();
	}
	if (may_throw)
		throw_bad_alloc(size);
	return NULL;
}

static __attribute__((noinline)) void *new_rest(size_t size)
{
	void *object = missed_malloc(size);

	return object != NULL ? object : new_slow(size, 0, true);
}

static __attribute__((noinline)) void *new_slow_way(size_t size)
{
	return medium_or(size, new_rest);
}

static __attribute__((noinline)) void *new_hit(size_t size)
{
	return new_slow(size, 0, true);
}

CPU_FAST void *new_sampled(size_t size)
{
	return sampled_malloc(size, new_slow_way, new_hit);
}

CPU_FAST void *new_miss(size_t size)
{
	return cpu_fast_malloc(size, new_sampled, new_slow_way);
}

// Through the plain one: the program's own form for arrays may have called this one.
CPU_FAST void *new_array_miss(size_t size)
{
	return UNLIKELY(replaced.make != NULL) ? replaced.make(size) : new_miss(size);
}

// The new handler may throw: the nothrow forms go through operators_nothrow.cc, which calls back here and catches.
void *operators_new_nothrow(size_t size, size_t align);
void *operators_new_nothrow_caught(size_t size, size_t align);
void *operators_new_caught(new_operator *make, size_t size);
void *operators_aligned_new_caught(aligned_new_operator *make, size_t size, size_t align);

void *operators_new_nothrow(size_t size, size_t align)
{
	return new_slow(size, align, false);
}

static __attribute__((noinline)) void *new_nothrow_slow_way(size_t size)
{
	void *object = missed_malloc(size);

	return object != NULL ? object : operators_new_nothrow_caught(size, 0);
}

static __attribute__((noinline)) void *new_nothrow_hit(size_t size)
{
	return operators_new_nothrow_caught(size, 0);
}

static __attribute__((noinline)) void *new_nothrow_sampled(size_t size)
{
	return sampled_malloc(size, new_nothrow_slow_way, new_nothrow_hit);
}

CPU_FAST void *new_nothrow_miss(size_t size)
{
	if (UNLIKELY(replaced.make != NULL))
		return operators_new_caught(replaced.make, size);
	return cpu_fast_malloc(size, new_nothrow_sampled, new_nothrow_slow_way);
}

CPU_FAST void *new_array_nothrow_miss(size_t size)
{
	if (UNLIKELY(replaced.make_array != NULL))
		return operators_new_caught(replaced.make_array, size);
	return cpu_fast_malloc(size, new_nothrow_sampled, new_nothrow_slow_way);
}

static __attribute__((noinline)) void delete_rest(void *object)
{
	if (!exchanged_free(object) && !traced_free(object))
		heap_free(object, "operator delete");
}

// Apart, so that it saves no registers.
static __attribute__((noinline)) void delete_slow_way(void *object)
{
	if (!front_free_outbound(object))
		delete_rest(object);
}

CPU_FAST void delete_miss(void *object)
{
	cpu_fast_free(object, delete_slow_way);
}

// What a form of delete other than the plain one misses in: `through` is what the program has in place of that, NULL: nothing.
CPU_FAST void delete_through(delete_operator *through, void *object)
{
	if (UNLIKELY(through != NULL))
		through(object);
	else
		delete_miss(object);
}

CPU_FAST void delete_other_miss(void *object)
{
	delete_through(replaced.end, object);
}

CPU_FAST void delete_array_other_miss(void *object)
{
	delete_through(replaced.end_array, object);
}

static __attribute__((noinline)) void delete_sized_slow_way(void *object, size_t size)
{
	if (!traced_free(object))
		heap_delete_sized(object, size);
}

static __attribute__((noinline)) void delete_sized_unsampled(void *object, size_t size)
{
	cpu_fast_free_sized(object, size, delete_sized_slow_way);
}

static __attribute__((noinline)) void delete_sized_through(delete_operator *through, void *object, size_t size)
{
	if (UNLIKELY(through != NULL))
		through(object);
	else if (!sampled_push(object))
		delete_sized_unsampled(object, size);
}

CPU_FAST void delete_sized_miss(void *object, size_t size)
{
	if (!counted_push_served(object, size))
		delete_sized_through(replaced.end, object, size);
}

CPU_FAST void delete_array_sized_miss(void *object, size_t size)
{
	if (!counted_push_served(object, size))
		delete_sized_through(replaced.end_array, object, size);
}

// The forms for larger alignments, for which the program may have others: not on the fast path. What is no power of two is no alignment: there is no memory at
// it, and none that a new handler could find.
static void *new_aligned_here(size_t size, size_t align)
{
	if (is_power_of_two(align))
		return new_slow(size, align, true);
	throw_bad_alloc(size);
	return NULL;
}

static void *new_aligned(aligned_new_operator *make, size_t size, size_t align)
{
	return make != NULL ? make(size, align) : new_aligned_here(size, align);
}

static void *new_aligned_nothrow(aligned_new_operator *make, size_t size, size_t align)
{
	if (make != NULL)
		return operators_aligned_new_caught(make, size, align);
	return is_power_of_two(align) ? operators_new_nothrow_caught(size, align) : NULL;
}

static void delete_aligned(aligned_delete_operator *end, void *object, size_t align)
{
	if (end != NULL)
		end(object, align);
	else
		fast_free(object, delete_miss);
}

static void delete_aligned_sized(aligned_delete_operator *end, void *object, size_t size, size_t align)
{
	if (end != NULL)
		end(object, align);
	else
		heap_free_sized(object, align, size, "operator delete");
}

// Before a static program's own constructors, which may allocate.
__attribute__((constructor(101))) static void look(void)
{
	operators_look();
}

void operators_replace(const struct operators *program)
{
	replaced = *program;
	fronts_leave_delete();
	doors_close(DOOR_COUNT);
}

// In the names "m" is size_t, unsigned long on every platform served.
OPERATOR void *_Znwm(size_t size)
{
	return fast_malloc(size, new_miss);
}

OPERATOR void *_Znam(size_t size)
{
	return fast_malloc(size, new_array_miss);
}

OPERATOR void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
	(void)tag;
	return fast_malloc(size, new_nothrow_miss);
}

OPERATOR void *_ZnamRKSt9nothrow_t(size_t size, const void *tag)
{
	(void)tag;
	return fast_malloc(size, new_array_nothrow_miss);
}

OPERATOR void *_ZnwmSt11align_val_t(size_t size, size_t align)
{
	return new_aligned_here(size, align);
}

OPERATOR void *_ZnamSt11align_val_t(size_t size, size_t align)
{
	return new_aligned(replaced.make_aligned, size, align);
}

OPERATOR void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const void *tag)
{
	(void)tag;
	return new_aligned_nothrow(replaced.make_aligned, size, align);
}

OPERATOR void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const void *tag)
{
	(void)tag;
	return new_aligned_nothrow(replaced.make_array_aligned, size, align);
}

OPERATOR void _ZdlPv(void *object)
{
	fast_free(object, delete_miss);
}

OPERATOR void _ZdaPv(void *object)
{
	fast_free(object, delete_other_miss);
}

OPERATOR void _ZdlPvRKSt9nothrow_t(void *object, const void *tag)
{
	(void)tag;
	fast_free(object, delete_other_miss);
}

OPERATOR void _ZdaPvRKSt9nothrow_t(void *object, const void *tag)
{
	(void)tag;
	fast_free(object, delete_array_other_miss);
}

OPERATOR void _ZdlPvm(void *object, size_t size)
{
	if (UNLIKELY(size >= FRONT_LIMIT(front_delete_end)))
		delete_sized_through(replaced.end, object, size);
	else
		fast_free_sized_served(object, size, delete_sized_miss);
}

OPERATOR void _ZdaPvm(void *object, size_t size)
{
	if (UNLIKELY(size >= FRONT_LIMIT(front_delete_end)))
		delete_sized_through(replaced.end_array, object, size);
	else
		fast_free_sized_served(object, size, delete_array_sized_miss);
}

OPERATOR void _ZdlPvSt11align_val_t(void *object, size_t align)
{
	(void)align;
	fast_free(object, delete_miss);
}

OPERATOR void _ZdaPvSt11align_val_t(void *object, size_t align)
{
	delete_aligned(replaced.end_aligned, object, align);
}

OPERATOR void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *object, size_t align, const void *tag)
{
	(void)tag;
	delete_aligned(replaced.end_aligned, object, align);
}

OPERATOR void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *object, size_t align, const void *tag)
{
	(void)tag;
	delete_aligned(replaced.end_array_aligned, object, align);
}

OPERATOR void _ZdlPvmSt11align_val_t(void *object, size_t size, size_t align)
{
	delete_aligned_sized(replaced.end_aligned, object, size, align);
}

OPERATOR void _ZdaPvmSt11align_val_t(void *object, size_t size, size_t align)
{
	delete_aligned_sized(replaced.end_array_aligned, object, size, align);
}

#define OURS(name) extern __typeof__(name) ours##name __attribute__((alias(#name)))

OURS(_Znwm);
OURS(_Znam);
OURS(_ZdlPv);
OURS(_ZdaPv);
OURS(_ZnwmSt11align_val_t);
OURS(_ZnamSt11align_val_t);
OURS(_ZdlPvSt11align_val_t);
OURS(_ZdaPvSt11align_val_t);
OURS(_ZdlPvm);
OURS(_ZdaPvm);
OURS(_ZdlPvmSt11align_val_t);
OURS(_ZdaPvmSt11align_val_t);
OURS(_ZnwmRKSt9nothrow_t);
OURS(_ZnamRKSt9nothrow_t);
OURS(_ZdlPvRKSt9nothrow_t);
OURS(_ZdaPvRKSt9nothrow_t);
OURS(_ZnwmSt11align_val_tRKSt9nothrow_t);
OURS(_ZnamSt11align_val_tRKSt9nothrow_t);
OURS(_ZdlPvSt11align_val_tRKSt9nothrow_t);
OURS(_ZdaPvSt11align_val_tRKSt9nothrow_t);
