// What happens when an assertion of vmag itself fails: one line on stderr, then abort.
// SPDX-License-Identifier: BSD-2-Clause
#include "util/assert.h"

#include <stdlib.h>
#include <unistd.h>

#include "util/format.h"

void assertion_failed(const char *what, const char *file, int line)
{
	char buffer[256];
	struct text text = text_into(buffer, sizeof buffer);

	text_add(&text, "vmag: internal error, please report it: %s (%s:%d)\n", what, file, line);
	ssize_t ignored = write(STDERR_FILENO, buffer, (size_t)(text.at - buffer));
	(void)ignored;
	abort();
}
