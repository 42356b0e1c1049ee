// Text for reports, made in a caller's buffer without allocation, locale or stdio.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdarg.h>
#include <stddef.h>

// Where text goes, piece by piece; no zero is put behind it.
struct text {
	char *at;  // next byte to write
	char *end; // one past the last usable byte; the text is cut there
};

static inline struct text text_into(char *buffer, size_t size)
{
	return (struct text){ buffer, buffer + size };
}

// printf's %s %c %d %u %x %p %% with the length modifiers l and z, and field widths with '-' or '0'. Nothing else.
__attribute__((format(printf, 2, 3))) void text_add(struct text *text, const char *format, ...);
void text_add_list(struct text *text, const char *format, va_list list);

// A whole text of at most size - 1 bytes, with a zero behind it.
__attribute__((format(printf, 3, 4))) void text_print(char *buffer, size_t size, const char *format, ...);

// How a JSON text writes the character of UTF-8 that begins at `value`, not its zero; returns how many bytes of `value` that are. A byte that
// belongs to none is a question mark: a name may be cut in the middle of one.
size_t text_json(const char *value, char to[static 8]);
