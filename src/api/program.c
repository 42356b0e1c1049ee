// The library run as a program (`ld-linux-x86-64.so.2 libvmag.so`): it prints the table of options, for readers that cannot load it.
//
// With OPTIONS_ON_STDIN set, standard input has the options of another process as that one's root tells them (root: options,
// options_bytes), and their values are printed, or nothing, for its own; no file is made. Exit status 1: they are those of another version.
// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>
#include <unistd.h>

#include "conf/options.h"
#include "heap/heap.h"
#include "os/file.h"

#ifdef __x86_64__ // where a program begins, the stack is not aligned as in a function that was called
#define ENTRY __attribute__((force_align_arg_pointer, used, noreturn))
#else
#define ENTRY __attribute__((used, noreturn))
#endif

static bool take_options(void)
{
	char values[sizeof options + 1];
	size_t bytes = 0;
	ssize_t got;

	while (bytes < sizeof values && (got = os_file_read_some(STDIN_FILENO, values + bytes, sizeof values - bytes)) > 0)
		bytes += (size_t)got;
	if (bytes == sizeof options)
		memcpy(&options, values, sizeof options);
	return bytes == sizeof options || bytes == 0;
}

static void put(void *argument, const char *line)
{
	(void)argument;
	os_file_write(STDOUT_FILENO, line, strlen(line));
}

// Named by the linker's option -e.
ENTRY void program_enter(void);
ENTRY void program_enter(void)
{
	bool known = heap_ready() && (environment(OPTIONS_ON_STDIN) == NULL || take_options());

	if (known)
		options_print(put, NULL);
	_exit(known ? 0 : 1);
}
