// Processors on Linux: sched_getaffinity, then the quota files of cgroup v2 and v1.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/file.h"
#include "os/system_call.h"
#include "os/thread.h"
#include "util/number.h"

enum { PATH_BYTES = 512 };

unsigned os_cpus_affine(void)
{
	// Larger than cpu_set_t: the kernel refuses a mask shorter than its own.
	unsigned long mask[8192 / (8 * sizeof(unsigned long))];
	long bytes = os_system_call(SYS_sched_getaffinity, os_process_number(), sizeof mask, mask);
	unsigned count = 0;

	// Bit by bit: a call of the compiler's library would make more of its pages resident than the loop is long.
	for (long i = 0; i < bytes / (long)sizeof mask[0]; i++)
		for (; mask[i] != 0; mask[i] &= mask[i] - 1)
			count++;
	return count == 0 ? 1 : count;
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

static unsigned ceil_ratio(uint64_t quota, uint64_t period)
{
	uint64_t cpus = period == 0 ? 0 : (quota + period - 1) / period;

	return cpus == 0 ? 1 : cpus > 1u << 20 ? 1u << 20 : (unsigned)cpus;
}

// cgroup v2: "quota period" in one file, at every level up to the root.
static unsigned quota_v2(const char *group)
{
	char path[PATH_BYTES], text[64];
	unsigned least = UINT32_MAX;
	size_t length = strlen(group);

	while (true) {
		uint64_t quota, period;
		const char *at = text;

		if (length + sizeof "/sys/fs/cgroup" + sizeof "/cpu.max" > sizeof path)
			return least;
		memcpy(path, "/sys/fs/cgroup", 14);
		memcpy(path + 14, group, length);
		memcpy(path + 14 + length, "/cpu.max", sizeof "/cpu.max");
		if (os_file_read(path, text, sizeof text) > 0 && next_number(&at, &quota) && next_number(&at, &period)) {
			unsigned cpus = ceil_ratio(quota, period);
			least = cpus < least ? cpus : least;
		}
		while (length > 0 && group[length - 1] != '/')
			length--;
		if (length == 0)
			return least;
		length--;
	}
}

static unsigned quota_v1(void)
{
	char quota_text[32], period_text[32];
	const char *q = quota_text, *p = period_text;
	uint64_t quota, period;

	if (os_file_read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota_text, sizeof quota_text) > 0 &&
	    os_file_read("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period_text, sizeof period_text) > 0 &&
	    next_number(&q, &quota) && next_number(&p, &period))
		return ceil_ratio(quota, period);
	return UINT32_MAX;
}

unsigned os_cpus_quota(void)
{
	char text[PATH_BYTES];
	ssize_t length = os_file_read("/proc/self/cgroup", text, sizeof text);
	char *group = length > 0 ? strstr(text, "0::/") : NULL, *end;
	unsigned v2;

	if (group == NULL)
		return quota_v1();
	group += 3;
	for (end = group; *end != '\n' && *end != '\0'; end++) // strcspn would make more of the C library resident
		continue;
	*end = '\0';
	if (strcmp(group, "/") == 0)
		group = "";
	v2 = quota_v2(group);
	return v2 == UINT32_MAX ? quota_v1() : v2;
}
