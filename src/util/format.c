// Text for reports, made in a caller's buffer: a small printf that never allocates.
// SPDX-License-Identifier: BSD-2-Clause
#include "util/format.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// What stands between '%' and a conversion's letter.
struct field {
	unsigned width;
	bool left;
	char pad;
	bool wide; // an argument of 64 bits
};

static void add_char(struct text *text, char c)
{
	if (text->at < text->end)
		*text->at++ = c;
}

static void add_field(struct text *text, const char *piece, size_t length, struct field field)
{
	size_t blanks = field.width > length ? field.width - length : 0;

	for (size_t i = 0; !field.left && i < blanks; i++)
		add_char(text, field.pad);
	for (size_t i = 0; i < length; i++)
		add_char(text, piece[i]);
	for (size_t i = 0; field.left && i < blanks; i++)
		add_char(text, ' ');
}

static void add_number(struct text *text, uint64_t value, unsigned base, const char *sign, struct field field)
{
	char digits[32];
	char *at = digits + sizeof digits;

	do {
		*--at = "0123456789abcdef"[value % base];
		value /= base;
	} while (value != 0);
	if (field.pad == '0' && !field.left) // zeroes go between the sign and the digits
		while ((size_t)(digits + sizeof digits - at) + __builtin_strlen(sign) < field.width && at > digits + 4)
			*--at = '0';
	for (const char *s = sign + __builtin_strlen(sign); s > sign;)
		*--at = *--s;
	add_field(text, at, (size_t)(digits + sizeof digits - at), field);
}

static void add_signed(struct text *text, int64_t value, struct field field)
{
	if (value < 0)
		add_number(text, -(uint64_t)value, 10, "-", field);
	else
		add_number(text, (uint64_t)value, 10, "", field);
}

// Returns where the letter is.
static const char *read_field(const char *at, struct field *field)
{
	*field = (struct field){ .pad = ' ' };
	for (; *at == '-' || *at == '0'; at++) {
		field->left |= *at == '-';
		field->pad = *at == '0' ? '0' : ' ';
	}
	for (; *at >= '0' && *at <= '9'; at++)
		field->width = field->width * 10 + (unsigned)(*at - '0');
	for (; *at == 'l' || *at == 'z'; at++)
		field->wide = true;
	return at;
}

void text_add_list(struct text *text, const char *format, va_list list)
{
	for (const char *f = format; *f != '\0'; f++) {
		struct field field;

		if (*f != '%') {
			add_char(text, *f);
			continue;
		}
		f = read_field(f + 1, &field);
		switch (*f) {
		case 's': {
			const char *s = va_arg(list, const char *);
			add_field(text, s, __builtin_strlen(s), field);
			break;
		}
		case 'c':
			add_field(text, &(char){ (char)va_arg(list, int) }, 1, field);
			break;
		case 'd':
			add_signed(text, field.wide ? va_arg(list, long) : va_arg(list, int), field);
			break;
		case 'u':
			add_number(text, field.wide ? va_arg(list, unsigned long) : va_arg(list, unsigned), 10, "", field);
			break;
		case 'x':
			add_number(text, field.wide ? va_arg(list, unsigned long) : va_arg(list, unsigned), 16, "", field);
			break;
		case 'p':
			add_number(text, (uintptr_t)va_arg(list, void *), 16, "0x", field);
			break;
		default:
			add_char(text, *f);
			break;
		}
		if (*f == '\0')
			break;
	}
}

void text_add(struct text *text, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	text_add_list(text, format, list);
	va_end(list);
}

void text_print(char *buffer, size_t size, const char *format, ...)
{
	struct text text = text_into(buffer, size - 1);
	va_list list;

	va_start(list, format);
	text_add_list(&text, format, list);
	va_end(list);
	*text.at = '\0';
}

// Bytes of the character of UTF-8 that begins there; 0: none does.
static unsigned character_bytes(const unsigned char *at)
{
	unsigned bytes = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;

	for (unsigned i = 1; i < bytes; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
		return 0; // could be shorter, half a character of UTF-16, or beyond all
	return bytes;
}

size_t text_json(const char *value, char to[static 8])
{
	unsigned bytes = character_bytes((const unsigned char *)value);

	if (bytes == 0)
		text_print(to, 8, "?");
	else if ((unsigned char)*value < ' ')
		text_print(to, 8, "\\u%04x", (unsigned)*value);
	else if (*value == '"' || *value == '\\')
		text_print(to, 8, "\\%c", *value);
	else {
		memcpy(to, value, bytes);
		to[bytes] = '\0';
	}
	return bytes > 0 ? bytes : 1;
}
