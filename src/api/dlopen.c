// Exported: dlopen, which takes RTLD_DEEPBIND away, and dlclose. Both tell that code changes (os/module.h).
//
// A library opened with it looks into its own dependencies first and finds the C library's malloc and free there, while the program
// runs on ours: the first object that goes from one to the other ends the process (docs/decisions/0026). PHP opens its
// extensions so. The option dlopen_deepbind leaves the flag alone.
// Not in the static library: there the program decides what they are.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "api/identity.h"
#include "conf/options.h"
#include "heap/heap.h"
#include "life/background.h"
#include "os/module.h"
#include "os/stack.h"
#include "util/bits.h"

#ifndef RTLD_DEEPBIND // as in musl
#define RTLD_DEEPBIND 0
#endif

typedef void *open_function(const char *path, int mode);
typedef int close_function(void *library);

static void *real(void *_Atomic *found, const char *name)
{
	void *function = atomic_load_explicit(found, memory_order_relaxed);

	if (function == NULL) {
		function = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(found, function, memory_order_relaxed);
	}
	return function;
}

// Where there is none, the program shall not find the error of who looked.
static COLD __attribute__((noinline)) void *look_up(void *where, const char *name)
{
	void *function = dlsym(where, name);

	if (function == NULL)
		dlerror();
	return function;
}

__attribute__((constructor)) COLD static void ask_loader(void)
{
	background_create_by(look_up(RTLD_NEXT, "pthread_create"));
	identity_next = look_up(RTLD_NEXT, "setuid");
	if (heap_ready() && options.prof_unwinder == OS_UNWIND_TABLES)
		os_modules_ask_loader(look_up(RTLD_DEFAULT, "_dl_find_object"));
}

// By path and as it is, so that it does not matter who asks.
static bool is_path(const char *name)
{
	return strchr(name, '/') != NULL && strchr(name, '$') == NULL;
}

// The last call is a jump: the loader looks at the return address to know whose search path and namespace are meant.
EXPORT void *dlopen(const char *path, int mode)
{
	static void *_Atomic found;
	open_function *open;
	void *library;

	*(void **)&open = real(&found, "dlopen");
	mode = heap_ready() && options.dlopen_deepbind ? mode : mode & ~RTLD_DEEPBIND;
	if (path != NULL && (mode & RTLD_NOLOAD) == 0) {
		os_modules_change(); // its code may come to lie where a closed library's was
		if (is_path(path)) {
			library = open(path, mode);
			os_modules_change(); // what was asked meanwhile, when there was nothing
			return library;
		}
	}
	return open(path, mode);
}

// Until it returns, other threads, and its destructors, may ask for what is taken away.
EXPORT int dlclose(void *library)
{
	static void *_Atomic found;
	close_function *close;
	int result;

	*(void **)&close = real(&found, "dlclose");
	result = close(library);
	os_modules_change();
	return result;
}
