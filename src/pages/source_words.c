// Sources by their names, as the option heap_source has them.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/backing.h"
#include "os/file.h"
#include "pages/sources.h"

enum { NODES_MOST = 1024 };

static const char *behind(const char *words, const char *start)
{
	size_t length = strlen(start);

	return strncmp(words, start, length) == 0 && words[length] != '\0' ? words + length : NULL;
}

static struct extent_hooks_s *of_node(const char *number, bool strict)
{
	unsigned node = 0;

	for (; *number >= '0' && *number <= '9' && node < NODES_MOST; number++)
		node = node * 10 + (unsigned)(*number - '0');
	errno = EINVAL;
	return *number == '\0' ? source_of_node(node, strict) : NULL;
}

static struct extent_hooks_s *of_file(int file)
{
	return file >= 0 ? source_of_file(file) : NULL;
}

static struct extent_hooks_s *of_words(const char *words)
{
	const char *rest;

	if (strcmp(words, "huge") == 0)
		return source_of_huge_pages();
	if (strcmp(words, "sbrk") == 0)
		return source_of_break();
	if ((rest = behind(words, "node=")) != NULL)
		return of_node(rest, false);
	if ((rest = behind(words, "only_node=")) != NULL)
		return of_node(rest, true);
	if ((rest = behind(words, "memory_file=")) != NULL)
		return of_file(os_backing_open_memory(rest));
	if ((rest = behind(words, "file=")) != NULL)
		return of_file(os_backing_open(rest));
	errno = EINVAL;
	return NULL;
}

struct extent_hooks_s *source_of_words(const char *words)
{
	struct extent_hooks_s *hooks = of_words(words);
	int failure = errno;

	if (hooks == NULL && failure == EINVAL)
		os_stderr_say("vmag: heap_source:%s: there are huge, sbrk, node=N, only_node=N, file=PATH and memory_file=NAME; "
			      "the heap is ordinary memory", words);
	else if (hooks == NULL)
		os_stderr_say("vmag: heap_source:%s: it cannot be had (error %d); the heap is ordinary memory", words, failure);
	return hooks;
}
