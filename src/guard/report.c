// Misuse told: one line on stderr, then abort if it was not refused.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/report.h"

#include <stdlib.h>

#include "os/file.h"
#include "os/unseen.h"
#include "util/format.h"

void (*guard_told)(const char *line);

void guard_warn(const char *call, const void *address, const char *what, size_t size)
{
	char line[320];
	struct text text = text_into(line, sizeof line - 1);

	text_add(&text, "vmag: %s", call);
	if (address != GUARD_NOWHERE)
		text_add(&text, "(%p)", address);
	text_add(&text, ": ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	text_add(&text, what, size);
#pragma GCC diagnostic pop
	text_add(&text, "\n");
	*text.at = '\0';
	if (guard_told != NULL)
		guard_told(line);
	else
		os_stderr_write(line, (size_t)(text.at - line));
}

void guard_report(const char *call, const void *address, const char *what, size_t size)
{
	guard_warn(call, address, what, size);
	os_abort();
}

void guard_report_in(const char *call, const void *address, const char *name, const char *what, size_t size)
{
	char whole[256];

	text_print(whole, sizeof whole, "%s: %s", name, what);
	guard_report(call, address, whole, size);
}
