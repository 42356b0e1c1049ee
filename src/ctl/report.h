// Report: all statistics as text for people or as JSON with jemalloc's keys, written in pieces; nothing is allocated.
//
// The letters are jemalloc's: J JSON; the others leave something out: g general, m merged, d destroyed, a each arena, b bins,
// l large objects, x mutexes, e extents and h huge pages (of which the JSON has zeros). Before, a new snapshot is taken.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

#include "util/format.h"

struct arena_figures;

// Where the report goes: pieces ended by a zero, each valid during the call.
typedef void report_put(void *argument, const char *piece);

// NULL: to malloc_message, when the program has set that, else to the standard error.
void report_print(report_put *put, void *argument, const char *letters);

// The program's function for messages, NULL: the standard error.
extern void (*malloc_message)(void *argument, const char *text);

// Inside.
enum { REPORT_BYTES = 4096, REPORT_LINE = 512 };

struct report {
	report_put *put;
	void *argument;
	bool general, merged, destroyed, each, bins, large, mutexes, extents, huge_pages;
	bool first; // of JSON: nothing stands in the open object yet
	struct text text;
	char buffer[REPORT_BYTES];
};

// At most REPORT_LINE bytes.
__attribute__((format(printf, 2, 3))) void report_add(struct report *report, const char *format, ...);
void report_lines(struct report *report);
void report_json(struct report *report);
void report_arenas(struct report *report, void show(struct report *report, unsigned id, const char *name, const struct arena_figures *figures));
