// Areas on Linux: /proc/PID/smaps, maps and pagemap.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/areas.h"

#include <string.h>

#include "os/build_id.h"
#include "os/file.h"
#include "os/pages.h"
#include "util/bits.h"
#include "util/number.h"

enum { LINE = 512, GUARD_MOST = 64 * 1024 };

static bool begin(struct os_areas *areas, const char *name, bool kinds)
{
	areas->offset = 0;
	areas->at = areas->length = 0;
	areas->last_end = 0;
	areas->last_is_program = areas->last_is_guard = false;
	areas->image.inode = 0;
	areas->has_kinds = kinds;
	areas->file = os_file_open_own(name);
	return areas->file >= 0;
}

bool os_areas_begin(struct os_areas *areas)
{
	if (os_link_read("/proc/self/exe", areas->program, sizeof areas->program) < 0 &&
	    os_link_read("/proc/thread-self/exe", areas->program, sizeof areas->program) < 0)
		areas->program[0] = '\0';
	return begin(areas, "smaps", true);
}

bool os_areas_begin_places(struct os_areas *areas)
{
	return begin(areas, "maps", false);
}

void os_areas_end(struct os_areas *areas)
{
	os_file_close(areas->file);
}

// The next byte of the file, −1 at its end.
static int next_byte(struct os_areas *areas)
{
	if (areas->at == areas->length) {
		ssize_t got = os_file_read_at(areas->file, areas->bytes, sizeof areas->bytes, areas->offset);

		if (got <= 0)
			return -1;
		areas->offset += (uint64_t)got;
		areas->length = (size_t)got;
		areas->at = 0;
	}
	return (unsigned char)areas->bytes[areas->at++];
}

// The next line; what does not fit is passed over. Its length, all of it, or −1: there is none.
static ssize_t next_line(struct os_areas *areas, char *line, size_t size)
{
	size_t length = 0;
	int byte;

	for (; (byte = next_byte(areas)) >= 0 && byte != '\n'; length++)
		if (length < size - 1)
			line[length] = (char)byte;
	line[min_size(length, size - 1)] = '\0';
	return byte < 0 ? -1 : (ssize_t)length;
}

// "Rss:  123 kB": the bytes, when the line has that key.
static bool field(const char *line, const char *key, size_t *bytes)
{
	size_t length = strlen(key);

	if (strncmp(line, key, length) != 0)
		return false;
	for (line += length; *line == ' ';)
		line++;
	*bytes = number_take(&line, 10) * 1024;
	return true;
}

static bool starts_with(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

static enum os_area_kind kind_of_path(const struct os_areas *areas, const char *path)
{
	if (starts_with(path, "[stack"))
		return AREA_STACK;
	if (strcmp(path, "[heap]") == 0)
		return AREA_BRK;
	if (starts_with(path, "[anon:"))
		return strstr(path, "stack") != NULL ? AREA_STACK : AREA_ANONYMOUS;
	if (*path == '\0')
		return AREA_ANONYMOUS;
	if (*path == '[')
		return AREA_KERNEL;
	if (starts_with(path, "/dev/shm/") || starts_with(path, "/memfd:") || starts_with(path, "/SYSV") ||
	    starts_with(path, "/dev/zero") || starts_with(path, "[anon_shmem"))
		return AREA_SHARED;
	return strstr(path, ".so") != NULL || strcmp(path, areas->program) == 0 ? AREA_PROGRAM : AREA_FILE;
}

// Data without a name that follows a library is the library's; a stack follows its guard.
static enum os_area_kind kind_by_neighbour(const struct os_areas *areas, const struct os_area *area)
{
	if (area->kind != AREA_ANONYMOUS || areas->last_end != area->start)
		return area->kind;
	return areas->last_is_program ? AREA_PROGRAM : areas->last_is_guard ? AREA_STACK : AREA_ANONYMOUS;
}

static const char *behind_blank(const char *line)
{
	while (*line != '\0' && *line != ' ')
		line++;
	return line + (*line == ' ');
}

static void find_kind(struct os_areas *areas, struct os_area *area, const char *path, bool inaccessible)
{
	area->kind = kind_of_path(areas, path);
	area->kind = kind_by_neighbour(areas, area);
	areas->last_is_program = area->kind == AREA_PROGRAM && *path != '\0';
	areas->last_is_guard = inaccessible && *path == '\0' && area->end - area->start <= GUARD_MOST;
	areas->last_end = area->end;
}

// "start-end rwxp offset device inode   path"
static bool parse_head(struct os_areas *areas, const char *line, struct os_area *area)
{
	bool inaccessible, is_executable;

	area->start = number_take(&line, 16);
	if (*line++ != '-')
		return false;
	area->end = number_take(&line, 16);
	inaccessible = starts_with(line, " ---");
	area->writable = starts_with(line, " rw");
	is_executable = strlen(line) > 3 && line[3] == 'x';
	line = behind_blank(behind_blank(line));
	area->offset = number_take(&line, 16);
	line = behind_blank(behind_blank(line));
	area->inode = number_take(&line, 10);
	area->is_code = is_executable && area->inode != 0;
	if (area->offset == 0 && area->inode != 0) {
		areas->image.start = area->start;
		areas->image.end = area->end;
		areas->image.inode = area->inode;
	}
	while (*line == ' ')
		line++;
	if (areas->has_kinds)
		find_kind(areas, area, line, inaccessible);
	return true;
}

bool os_areas_next(struct os_areas *areas, struct os_area *area)
{
	char line[LINE];

	*area = (struct os_area){ 0 };
	if (next_line(areas, line, LINE) < 0 || !parse_head(areas, line, area))
		return false;
	while (areas->has_kinds && next_line(areas, line, LINE) >= 0 && !starts_with(line, "VmFlags:"))
		if (!field(line, "Rss:", &area->resident) && !field(line, "Pss:", &area->proportional))
			field(line, "Swap:", &area->swapped);
	return true;
}

size_t os_areas_copy_code(uintptr_t *from, char *text, size_t most)
{
	char last[LINE], build[OS_BUILD_LINE]; // where there is no room for the head of a line
	uintptr_t start = *from;
	struct os_areas areas;
	struct os_area area;
	size_t used = 0, bytes;
	ssize_t length;

	*from = 0;
	if (!os_areas_begin_places(&areas))
		return 0;
	for (;;) {
		size_t room = most - used;
		char *line = room < LINE ? last : text + used;

		length = next_line(&areas, line, room < LINE ? LINE : room);
		if (length < 0)
			break;
		if (!parse_head(&areas, line, &area) || !area.is_code || area.start < start)
			continue;
		bytes = os_build_line(&areas, &area, build);
		if ((size_t)length + 1 + bytes > room) {
			*from = area.start;
			break;
		}
		memmove(text + used, line, (size_t)length);
		used += (size_t)length;
		text[used++] = '\n';
		memcpy(text + used, build, bytes);
		used += bytes;
	}
	os_areas_end(&areas);
	return used;
}

int os_residency_open(void)
{
	return os_file_open_own("pagemap");
}

void os_residency_close(int file)
{
	os_file_close(file);
}

bool os_residency_read(int file, uintptr_t start, uint8_t *states, size_t pages)
{
	enum { BATCH = 256 };
	const uint64_t present = 1ull << 63, exclusive = 1ull << 56;
	uint64_t entries[BATCH];

	for (size_t done = 0; done < pages;) {
		size_t count = pages - done < BATCH ? pages - done : BATCH;
		ssize_t got = os_file_read_at(file, entries, count * sizeof *entries,
					      (start / os_page_size() + done) * sizeof *entries);

		if (got < (ssize_t)sizeof *entries)
			return false;
		for (size_t i = 0; i < (size_t)got / sizeof *entries; i++)
			states[done++] = !(entries[i] & present) ? PAGE_ABSENT :
					 entries[i] & exclusive ? PAGE_OURS : PAGE_COMMON;
	}
	return true;
}

bool os_residency_is_guard(int file, uintptr_t page)
{
	const uint64_t guard = 1ull << 58;
	uint64_t entry;

	return os_file_read_at(file, &entry, sizeof entry, page / os_page_size() * sizeof entry) == sizeof entry && (entry & guard) != 0;
}
