// Output of reports: flushing, JSON's commas and quotes.
// SPDX-License-Identifier: BSD-2-Clause
#include "umem/out.h"

#include <errno.h>

#include "os/file.h"
#include "os/stack.h"
#include "util/bits.h"

enum { PIECE_MOST = 4096 };

void out_begin(struct out *out, int file, bool json)
{
	out->file = file;
	out->error = 0;
	out->json = json;
	out->separate = false;
	out->text = text_into(out->bytes, sizeof out->bytes);
}

void out_end(struct out *out)
{
	if (out->error == 0 && !os_file_write(out->file, out->bytes, (size_t)(out->text.at - out->bytes)))
		out->error = errno;
	out->text = text_into(out->bytes, sizeof out->bytes);
}

static void make_room(struct out *out)
{
	if (out->text.end - out->text.at < PIECE_MOST)
		out_end(out);
}

void out_add(struct out *out, const char *format, ...)
{
	va_list list;

	make_room(out);
	va_start(list, format);
	text_add_list(&out->text, format, list);
	va_end(list);
}

static void add_quoted(struct out *out, const char *value)
{
	char character[8];

	out_add(out, "\"");
	while (*value != '\0') {
		value += text_json(value, character);
		out_add(out, "%s", character);
	}
	out_add(out, "\"");
}

static void begin_value(struct out *out, const char *name)
{
	if (out->separate)
		out_add(out, ",");
	if (name != NULL) {
		add_quoted(out, name);
		out_add(out, ":");
	}
	out->separate = true;
}

void out_open(struct out *out, const char *name, char bracket)
{
	if (!out->json)
		return;
	begin_value(out, name);
	out_add(out, "%c", bracket);
	out->separate = false;
}

void out_close(struct out *out, char bracket)
{
	if (!out->json)
		return;
	out_add(out, "%c", bracket);
	out->separate = true;
}

void out_number(struct out *out, const char *name, uint64_t value)
{
	begin_value(out, name);
	out_add(out, "%lu", (unsigned long)value);
}

void out_string(struct out *out, const char *name, const char *value)
{
	begin_value(out, name);
	add_quoted(out, value);
}

void out_address(struct out *out, const char *name, uintptr_t value)
{
	begin_value(out, name);
	out_add(out, "\"0x%lx\"", (unsigned long)value);
}

static const char *name_of(struct out *out, uintptr_t frame)
{
	struct out_name *name = &out->names[hash_bits(frame, LG_OUT_NAMES)];
	struct text text = text_into(name->text, sizeof name->text - 1);

	if (name->frame == frame)
		return name->text;
	os_stack_name(&text, frame);
	*text.at = '\0';
	name->frame = frame;
	return name->text;
}

void out_stack(struct out *out, const char *name, const uintptr_t *frames, unsigned count)
{
	out_open(out, name, '[');
	for (unsigned i = 0; i < count; i++)
		if (out->json)
			out_string(out, NULL, name_of(out, frames[i]));
		else
			out_add(out, "             %s\n", name_of(out, frames[i]));
	out_close(out, ']');
}
