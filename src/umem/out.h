// Output of reports: text or JSON to a file, in pieces, without allocation.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/format.h"

// A line for an address of code: looking for it may take a walk through all of a program's symbols, and many stacks have it.
enum { LG_OUT_NAMES = 9, OUT_NAME_BYTES = 1024 - sizeof(uintptr_t) };
struct out_name {
	uintptr_t frame; // 0: none
	char text[OUT_NAME_BYTES];
};

// In memory that was zero.
struct out {
	int file, error; // errno of what could not be written; what came after it is lost, too
	bool json;
	bool separate; // JSON: a comma comes before the next value
	struct text text;
	char bytes[16384];
	struct out_name names[1 << LG_OUT_NAMES];
};

void out_begin(struct out *out, int file, bool json);
void out_end(struct out *out); // writes what is left

// As text_add; at most 4 KiB at once.
__attribute__((format(printf, 2, 3))) void out_add(struct out *out, const char *format, ...);

// JSON: opens and closes an object or a list, as a field when it has a name; fields of objects. They write the commas.
void out_open(struct out *out, const char *name, char bracket);
void out_close(struct out *out, char bracket);
void out_number(struct out *out, const char *name, uint64_t value);
void out_string(struct out *out, const char *name, const char *value);
void out_address(struct out *out, const char *name, uintptr_t value);

// A stack: lines, or a list of strings.
void out_stack(struct out *out, const char *name, const uintptr_t *frames, unsigned count);
