// Counting mappings on Linux: the lines of /proc/PID/maps.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/map_count.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "os/file.h"
#include "os/pages.h"
#include "util/number.h"

enum { BYTES_A_READ = 4096, ALLOWED_BY_DEFAULT = 65530 };

static size_t allowed(void)
{
	char text[32];
	const char *at = text;

	return os_file_read("/proc/sys/vm/max_map_count", text, sizeof text) > 0 ? number_take(&at, 10) : ALLOWED_BY_DEFAULT;
}

static size_t lines(int file)
{
	char text[BYTES_A_READ];
	size_t count = 0;
	ssize_t length;

	while ((length = os_file_read_some(file, text, sizeof text)) > 0)
		for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + length - at))) != NULL; at++)
			count++;
	return count;
}

bool os_maps_are_scarce(void)
{
	int saved = errno, file = os_file_open_own("maps");
	bool scarce = file >= 0 && lines(file) > allowed() / 2;

	if (file >= 0)
		os_file_close(file);
	errno = saved;
	return scarce;
}

// A shared page never becomes one with its neighbours.
bool os_maps_are_used_up(void)
{
	int saved = errno;
	void *page = mmap(NULL, os_page_size(), PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED)
		munmap(page, os_page_size());
	errno = saved;
	return page == MAP_FAILED;
}
