// Exported: dlopen, which takes RTLD_DEEPBIND away, and tells that code may change.
//
// A library opened with it looks into its own dependencies first and finds the C library's malloc and free there, while the program
// runs on ours: the first object that goes from one to the other ends the process (docs/decisions/0026). PHP opens its
// extensions so. The option dlopen_deepbind leaves the flag alone.
// Not in the static library: there the program decides what dlopen is.
// SPDX-License-Identifier: BSD-2-Clause
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#include "conf/options.h"
#include "heap/heap.h"
#include "os/module.h"
#include "os/stack.h"

#define EXPORT __attribute__((visibility("default")))

#ifndef RTLD_DEEPBIND // as in musl
#define RTLD_DEEPBIND 0
#endif

typedef void *open_function(const char *path, int mode);

static open_function *real_dlopen(void)
{
	static open_function *_Atomic found;
	open_function *real = atomic_load_explicit(&found, memory_order_relaxed);

	if (real == NULL) {
		*(void **)&real = dlsym(RTLD_NEXT, "dlopen");
		atomic_store_explicit(&found, real, memory_order_relaxed);
	}
	return real;
}

__attribute__((constructor)) static void ask_loader(void)
{
	if (heap_ready() && options.prof_unwinder == OS_UNWIND_TABLES)
		os_modules_ask_loader(dlsym(RTLD_DEFAULT, "_dl_find_object"));
}

// The last call is a jump: the loader looks at the return address to know whose search path and namespace are meant.
EXPORT void *dlopen(const char *path, int mode)
{
	open_function *real = real_dlopen();

	os_modules_change(); // its code may come to lie where a closed library's was
	return real(path, heap_ready() && options.dlopen_deepbind ? mode : mode & ~RTLD_DEEPBIND);
}
