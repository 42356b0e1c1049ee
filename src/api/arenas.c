// Exported: arenas of files, huge pages and nodes (include/vmag/arenas.h).
// SPDX-License-Identifier: BSD-2-Clause
#include "util/bits.h"
#include "vmag/arenas.h"

#include <errno.h>
#include <stdint.h>

#include "heap/explicit.h"
#include "heap/heap.h"
#include "os/backing.h"
#include "pages/sources.h"

static int arena_from(struct extent_hooks_s *hooks)
{
	unsigned id;

	if (hooks == NULL)
		return -1;
	errno = arenas_make(hooks, &id);
	if (errno == 0)
		return (int)id;
	source_end(hooks);
	return -1;
}

static bool is_ready(void)
{
	if (heap_ready())
		return true;
	errno = ENOMEM;
	return false;
}

static int arena_of_file(int file)
{
	return file < 0 || !is_ready() ? -1 : arena_from(source_of_file(file));
}

EXPORT int vmag_arena_create_file(const char *path)
{
	return arena_of_file(os_backing_open(path));
}

EXPORT int vmag_arena_create_fd(int fd)
{
	return arena_of_file(os_backing_duplicate(fd));
}

EXPORT int vmag_arena_create_memory_file(const char *name)
{
	return arena_of_file(os_backing_open_memory(name));
}

EXPORT int vmag_arena_create_huge(void)
{
	return arena_from(is_ready() ? source_of_huge_pages() : NULL);
}

EXPORT int vmag_arena_create_node(unsigned node, int strict)
{
	return arena_from(is_ready() ? source_of_node(node, strict != 0) : NULL);
}

EXPORT long long vmag_arena_file_offset(const void *address)
{
	int64_t offset = sources_file_offset(address);

	if (offset < 0)
		errno = EINVAL;
	return offset;
}

EXPORT int vmag_arena_file(unsigned arena)
{
	int file = arena_is_live(arena) ? source_file(arena_hooks(arena_of(arena))) : -1;

	if (file < 0)
		errno = EINVAL;
	return file;
}
