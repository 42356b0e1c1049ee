// Reports on guarded buffers: which are lost, who has those in use, which are damaged.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include "os/pages.h"
#include "umem/leaks.h"
#include "umem/report.h"
#include "util/bits.h"

// Buffers of one cache that were allocated by the same stack.
struct group {
	uint64_t key;
	size_t bytes, buffers;
	const struct guarded *oldest;
};

struct grouping {
	struct group *groups; // open addressing; buffers 0: empty
	size_t slots;
};

static uint64_t mix(uint64_t hash, uint64_t word)
{
	return (hash ^ word) * GOLDEN ^ hash >> 29;
}

static uint64_t key_of(const struct guarded_copy *buffer)
{
	uint64_t key = mix(1, (uintptr_t)buffer->record.cache);

	for (unsigned i = 0; i < buffer->record.allocated.frames; i++)
		key = mix(key, buffer->frames[i]);
	return key;
}

static void group_add(struct grouping *grouping, const struct guarded *buffer)
{
	struct guarded_copy copy;
	struct group *group;
	uint64_t key;
	size_t slot;

	if (!guard_find_start(buffer, &copy))
		return;
	key = key_of(&copy);
	for (slot = key % grouping->slots; (group = &grouping->groups[slot])->buffers != 0 && group->key != key;)
		slot = (slot + 1) % grouping->slots;
	if (group->buffers++ == 0)
		group->key = key;
	group->bytes += buffer->size;
	if (group->oldest == NULL || buffer->allocated.time_ns < group->oldest->allocated.time_ns)
		group->oldest = buffer;
}

// Groups to the front: from now on they are looked through, and none is looked for.
static void pack(struct grouping *grouping)
{
	size_t used = 0;

	for (size_t i = 0; i < grouping->slots; i++)
		if (grouping->groups[i].buffers != 0)
			grouping->groups[used++] = grouping->groups[i];
	grouping->slots = used;
}

// The largest group not yet told; it is forgotten.
static bool group_next(struct grouping *grouping, struct group *largest)
{
	struct group *found = NULL;

	for (size_t i = 0; i < grouping->slots; i++)
		if (grouping->groups[i].buffers != 0 && (found == NULL || grouping->groups[i].bytes > found->bytes))
			found = &grouping->groups[i];
	if (found == NULL)
		return false;
	*largest = *found;
	*found = (struct group){ 0 };
	return true;
}

static void write_group(struct out *out, const struct group *group)
{
	struct guarded_copy copy;

	if (!guard_find_start(group->oldest, &copy))
		return;
	out_open(out, NULL, '{');
	if (out->json) {
		out_number(out, "bytes", group->bytes);
		out_number(out, "buffers", group->buffers);
		out_string(out, "cache", copy.record.cache->name);
		out_address(out, "oldest", group->oldest->address);
	} else
		out_add(out, "%12zu bytes in %zu buffers, cache %s, the oldest at 0x%lx\n", group->bytes, group->buffers,
			copy.record.cache->name, (unsigned long)group->oldest->address);
	out_stack(out, "stack", copy.frames, copy.record.allocated.frames);
	out_close(out, '}');
}

enum { GROUPS_TOLD = 1000 };

static int write_groups(struct out *out, const struct guarded *buffers, size_t count)
{
	struct grouping grouping = { .slots = count * 2 + 1 };
	size_t bytes = round_up(grouping.slots * sizeof *grouping.groups, os_page_size());
	struct group group;

	grouping.groups = os_pages_map(bytes);
	if (grouping.groups == NULL)
		return ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (buffers[i].state == GUARD_LIVE)
			group_add(&grouping, &buffers[i]);
	pack(&grouping);
	out_open(out, "groups", '[');
	for (int told = 0; told < GROUPS_TOLD && group_next(&grouping, &group); told++)
		write_group(out, &group);
	out_close(out, ']');
	os_pages_unmap(grouping.groups, bytes);
	return 0;
}

static size_t bytes_of(const struct guarded *buffers, size_t count)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += buffers[i].state == GUARD_LIVE ? buffers[i].size : 0;
	return bytes;
}

static void write_sum(struct out *out, const char *what, const struct guarded *buffers, size_t count)
{
	if (out->json) {
		out_number(out, "bytes", bytes_of(buffers, count));
		out_number(out, "buffers", count);
	} else
		out_add(out, "vmag: %zu bytes in %zu buffers %s\n", bytes_of(buffers, count), count, what);
}

int report_findleaks(struct out *out, const char *rest)
{
	struct leak_search search;
	int error;

	(void)rest;
	if (!buffers_take(&search))
		return ENOMEM;
	error = leaks_find(&search);
	if (error == 0) {
		write_sum(out, "are lost: nothing refers to them", search.buffers, search.lost);
		error = write_groups(out, search.buffers, search.lost);
	}
	buffers_release(&search);
	return error;
}

int report_umausers(struct out *out, const char *rest)
{
	struct leak_search search;
	size_t live = 0;
	int error;

	(void)rest;
	if (!buffers_take(&search))
		return ENOMEM;
	for (size_t i = 0; i < search.count; i++)
		if (search.buffers[i].state == GUARD_LIVE)
			search.buffers[live++] = search.buffers[i];
	write_sum(out, "in use", search.buffers, live);
	error = write_groups(out, search.buffers, live);
	buffers_release(&search);
	return error;
}

int report_verify(struct out *out, const char *rest)
{
	size_t damaged = guard_verify("umem_verify", LOOK_ON_REQUEST);

	(void)rest;
	if (out->json)
		out_number(out, "damaged", damaged);
	else
		out_add(out, "vmag: %zu %s damaged%s\n", damaged, damaged == 1 ? "buffer is" : "buffers are",
			damaged == 0 ? "" : ", as told on standard error and by umem_status");
	return 0;
}
