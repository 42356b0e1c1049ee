// Control groups on Linux: in version 2 the group that /proc/self/cgroup names and those above it, in version 1 the root's files.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/cgroup.h"

#include <stdint.h>
#include <string.h>

#include "os/file.h"
#include "os/sandbox.h"
#include "util/bits.h"
#include "util/number.h"

#define ROOT "/sys/fs/cgroup"
enum { GROUP_BYTES = 512, FILE_NAME_BYTES = 64, PROCESSORS_MOST = 1 << 20 };

// The group's path below the root; "": the root itself.
static bool find_group(char group[GROUP_BYTES])
{
	char text[GROUP_BYTES];
	const char *path = os_file_read("/proc/self/cgroup", text, sizeof text) > 0 ? strstr(text, "0::/") : NULL;
	size_t length = 0;

	if (path == NULL)
		return false;
	for (path += 3; path[length] != '\n' && path[length] != '\0'; length++) // strcspn would make more of the C library resident
		group[length] = path[length];
	group[length == 1 ? 0 : length] = '\0';
	return true;
}

// To the group above. False: there is none.
static bool go_up(char *group)
{
	size_t length = strlen(group);

	while (length > 0 && group[length - 1] != '/')
		length--;
	if (length == 0)
		return false;
	group[length - 1] = '\0';
	return true;
}

static bool read_file(const char *group, const char *name, char *text, size_t size)
{
	char path[sizeof ROOT + GROUP_BYTES + FILE_NAME_BYTES], *end = path + sizeof ROOT - 1;

	memcpy(path, ROOT, sizeof ROOT - 1);
	memcpy(end, group, strlen(group));
	memcpy(end + strlen(group), name, strlen(name) + 1);
	return os_file_read(path, text, size) > 0;
}

// Skips to the next number and reads it; false at the end or where "max" or "-1" stands for no limit.
static bool next_number(const char **at, uint64_t *value)
{
	while (**at == ' ' || **at == '\n')
		(*at)++;
	if (**at < '0' || **at > '9')
		return false;
	*value = number_take(at, 10);
	return true;
}

// 0: none.
static uint64_t number_in(const char *group, const char *name)
{
	char text[32];
	const char *at = text;
	uint64_t value;

	return read_file(group, name, text, sizeof text) && next_number(&at, &value) ? value : 0;
}

static unsigned processors_for(uint64_t quota, uint64_t period)
{
	uint64_t processors = period == 0 ? 0 : (quota + period - 1) / period;

	return (unsigned)max_size(min_size(processors, PROCESSORS_MOST), 1);
}

// Of the group and of those above: "quota period" in one file.
static unsigned least_quota(char *group)
{
	unsigned least = UINT32_MAX;

	do {
		uint64_t quota, period;
		char text[64];
		const char *at = text;

		if (read_file(group, "/cpu.max", text, sizeof text) && next_number(&at, &quota) && next_number(&at, &period))
			least = (unsigned)min_size(least, processors_for(quota, period));
	} while (go_up(group));
	return least;
}

unsigned os_cgroup_processors(void)
{
	char group[GROUP_BYTES];
	unsigned least;
	uint64_t quota;

	if (os_is_shut_in())
		return UINT32_MAX;
	least = find_group(group) ? least_quota(group) : UINT32_MAX;
	quota = least == UINT32_MAX ? number_in("", "/cpu/cpu.cfs_quota_us") : 0;
	return quota == 0 ? least : processors_for(quota, number_in("", "/cpu/cpu.cfs_period_us"));
}

static size_t lower_limit(size_t one, size_t other)
{
	return one == 0 || (other != 0 && other < one) ? other : one;
}

void os_cgroup_memory(size_t *current, size_t *limit)
{
	const size_t unlimited = (size_t)1 << 62; // version 1 says it by a number of about 2^63
	char group[GROUP_BYTES];

	*current = *limit = 0;
	if (find_group(group)) {
		do {
			if (*current == 0) // a group without the controller has its memory counted in the next one that has it
				*current = number_in(group, "/memory.current");
			*limit = lower_limit(*limit, number_in(group, "/memory.max"));
		} while (go_up(group));
	}
	if (*current == 0) {
		*current = number_in("", "/memory/memory.usage_in_bytes");
		*limit = number_in("", "/memory/memory.limit_in_bytes");
	}
	if (*limit >= unlimited)
		*limit = 0;
}
