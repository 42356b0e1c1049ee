// Report: what is common to text and JSON, and the way out.
// SPDX-License-Identifier: BSD-2-Clause
#include "ctl/report.h"

#include <errno.h>
#include <string.h>

#include "ctl/control.h"
#include "ctl/snapshot.h"
#include "os/file.h"
#include "util/bits.h"

EXPORT void (*malloc_message)(void *argument, const char *text);

static void to_stderr(void *unused, const char *piece)
{
	(void)unused;
	os_stderr_write(piece, strlen(piece));
}

static void flush(struct report *report)
{
	*report->text.at = '\0';
	if (report->text.at > report->buffer)
		report->put(report->argument, report->buffer);
	report->text = text_into(report->buffer, sizeof report->buffer - 1);
}

void report_add(struct report *report, const char *format, ...)
{
	va_list list;

	if (report->text.end - report->text.at < REPORT_LINE)
		flush(report);
	va_start(list, format);
	text_add_list(&report->text, format, list);
	va_end(list);
}

static bool is_left_out(const char *letters, char letter)
{
	return letters != NULL && strchr(letters, letter) != NULL;
}

// The sums, the destroyed ones, then each; the sums are of interest where there is more than one arena.
void report_arenas(struct report *report, void show(struct report *report, unsigned id, const char *name, const struct arena_figures *figures))
{
	unsigned arenas = snapshot_arenas(), live = 0;

	for (unsigned id = 0; id < arenas; id++)
		live += snapshot_arena(id) != NULL;
	if (report->merged && (live > 1 || !report->each))
		show(report, CONTROL_ALL, "merged", snapshot_arena(CONTROL_ALL));
	if (report->destroyed && snapshot_arena(CONTROL_DESTROYED) != NULL)
		show(report, CONTROL_DESTROYED, "destroyed", snapshot_arena(CONTROL_DESTROYED));
	for (unsigned id = 0; report->each && id < arenas; id++) {
		const struct arena_figures *figures = snapshot_arena(id); // once: another snapshot may find it destroyed
		char name[16];

		text_print(name, sizeof name, "%u", id);
		if (figures != NULL)
			show(report, id, name, figures);
	}
}

void report_print(report_put *put, void *argument, const char *letters)
{
	struct report report = { .put = put, .argument = argument, .first = true };
	int saved = errno;

	if (put == NULL) {
		report.put = malloc_message != NULL ? malloc_message : to_stderr;
		report.argument = NULL;
	}
	report.text = text_into(report.buffer, sizeof report.buffer - 1);
	report.general = !is_left_out(letters, 'g');
	report.merged = !is_left_out(letters, 'm');
	report.destroyed = !is_left_out(letters, 'd');
	report.each = !is_left_out(letters, 'a');
	report.bins = !is_left_out(letters, 'b');
	report.large = !is_left_out(letters, 'l');
	report.mutexes = !is_left_out(letters, 'x');
	report.extents = !is_left_out(letters, 'e');
	report.huge_pages = !is_left_out(letters, 'h');
	snapshot_take();
	if (is_left_out(letters, 'J'))
		report_json(&report);
	else
		report_lines(&report);
	flush(&report);
	errno = saved;
}
