/* A stand-in for libvmag.so in the tool's tests: it writes the report, and hands malloc on to the C library.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size_bytes);

static volatile int was_asked;

void *malloc(size_t size_bytes)
{
	was_asked = 1;
	return __libc_malloc(size_bytes);
}

static void report(const char *format, ...)
{
	const char *path = getenv("VMAG_REPORT");
	int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
	char line[512];
	va_list values;

	if (file < 0)
		return;
	va_start(values, format);
	int length = vsnprintf(line, sizeof line, format, values);
	va_end(values);
	if (write(file, line, (size_t)length) != length)
		abort();
	close(file);
}

__attribute__((constructor)) static void loaded(void)
{
	report("{\"event\":\"loaded\",\"pid\":%d,\"version\":\"stub\"}\n", (int)getpid());
}

__attribute__((destructor)) static void ended(void)
{
	report("{\"event\":\"exit\",\"pid\":%d,\"version\":\"stub\",\"resident_bytes\":2048,\"peak_resident_bytes\":4096,"
	       "\"allocated_bytes\":1,\"active_bytes\":2,\"dirty_bytes\":3,\"cached_bytes\":4,\"metadata_bytes\":5,"
	       "\"mapped_bytes\":6,\"arenas\":%d,\"threads\":8,\"a_key_of_tomorrow\":[{}]}\n", (int)getpid(), was_asked ? 7 : 0);
}
