// Reports on guarded buffers: leaks, users, logs, verification, what an address is.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "conf/umem_options.h"
#include "guard/fault.h"
#include "guard/log.h"
#include "heap/debug.h"
#include "heap/heap.h"
#include "os/areas.h"
#include "os/clock.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "slab/bin.h"
#include "umem/leaks.h"
#include "umem/report.h"
#include "vmag/vmem.h"

static const char state_names[][12] = { "live", "being freed", "freed" };
static const char event_names[][8] = { "", "alloc", "free", "fail", "make", "destroy" };

// Buffers of one cache that were allocated by the same stack.
struct group {
	uint64_t key;
	size_t bytes, buffers;
	uintptr_t oldest; // a buffer
	uint64_t oldest_ns;
};

struct grouping {
	struct group *groups; // open addressing; buffers 0: empty
	size_t slots, used;
};

static uint64_t mix(uint64_t hash, uint64_t word)
{
	return (hash ^ word) * 0x9e3779b97f4a7c15ull ^ hash >> 29;
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

	if (!guard_find_start(buffer->address, &copy))
		return;
	key = key_of(&copy);
	for (slot = key % grouping->slots; (group = &grouping->groups[slot])->buffers != 0 && group->key != key;)
		slot = (slot + 1) % grouping->slots;
	if (group->buffers++ == 0) {
		grouping->used++;
		group->key = key;
	}
	group->bytes += buffer->size;
	if (group->oldest == 0 || buffer->allocated.time_ns < group->oldest_ns) {
		group->oldest = buffer->address;
		group->oldest_ns = buffer->allocated.time_ns;
	}
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
		out_address(out, "oldest", group->oldest);
	} else
		out_add(out, "%12zu bytes in %zu buffers, cache %s, the oldest at 0x%lx\n", group->bytes, group->buffers,
			copy.record.cache->name, (unsigned long)group->oldest);
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
	int error = ENOMEM;

	(void)rest;
	if (!buffers_take(&search))
		return ENOMEM;
	if (leaks_find(&search)) {
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
	size_t damaged = guard_verify("umem_verify");

	(void)rest;
	if (out->json)
		out_number(out, "damaged", damaged);
	else
		out_add(out, "vmag: %zu buffers are damaged\n", damaged);
	return 0;
}

static void write_contents(struct out *out, const struct guard_entry *entry)
{
	const unsigned char *byte = (const unsigned char *)(entry->frame + entry->frames);

	if (out->json) {
		char hexadecimal[8193];
		struct text text = text_into(hexadecimal, sizeof hexadecimal - 1);

		for (size_t i = 0; i < entry->contents && i < 1024; i++)
			text_add(&text, "%02x", byte[i]);
		*text.at = '\0';
		out_string(out, "contents", hexadecimal);
		return;
	}
	for (size_t i = 0; i < entry->contents; i++)
		out_add(out, i % 32 == 0 ? "%s             %02x" : "%s%02x", i % 32 == 0 && i > 0 ? "\n" : "", byte[i]);
	out_add(out, "\n");
}

static void write_entry(const struct guard_entry *entry, void *argument)
{
	struct out *out = argument;
	uint64_t age = os_clock_ns() - entry->time_ns;

	out_open(out, NULL, '{');
	if (out->json) {
		out_string(out, "event", event_names[entry->event]);
		out_number(out, "age_ns", age);
		out_number(out, "thread", (uint64_t)entry->thread);
		out_address(out, "address", entry->address);
		out_number(out, "size", entry->size);
		if (entry->cache != NULL)
			out_string(out, "cache", entry->cache->name);
		if (entry->object_bytes != 0)
			out_number(out, "object_bytes", entry->object_bytes);
	} else if (entry->object_bytes != 0)
		out_add(out, "T-%lu.%09lu  %-7s  0x%lx  a slab of %zu bytes for objects of %zu bytes  thread %d\n",
			(unsigned long)(age / 1000000000), (unsigned long)(age % 1000000000), event_names[entry->event],
			(unsigned long)entry->address, entry->size, entry->object_bytes, entry->thread);
	else
		out_add(out, "T-%lu.%09lu  %-5s  0x%lx  %zu bytes  %s  thread %d\n", (unsigned long)(age / 1000000000),
			(unsigned long)(age % 1000000000), event_names[entry->event], (unsigned long)entry->address,
			entry->size, entry->cache != NULL ? entry->cache->name : "-", entry->thread);
	out_stack(out, "stack", entry->frame, entry->frames);
	if (entry->contents > 0)
		write_contents(out, entry);
	out_close(out, '}');
}

static size_t number_of(const char *text)
{
	size_t value = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (size_t)(*text - '0');
	return value;
}

int report_log(struct out *out, const char *rest)
{
	struct report_word word = report_next_word(&rest);
	enum guard_log log = LOG_TRANSACTION;

	for (int i = 0; i < GUARD_LOGS; i++)
		if (strcmp(word.text, guard_log_name((enum guard_log)i)) == 0) {
			log = (enum guard_log)i;
			word = report_next_word(&rest);
		}
	if (guard_log_room(log) == 0)
		return ENOTSUP;
	if (out->json)
		out_string(out, "log", guard_log_name(log));
	out_open(out, "entries", '[');
	guard_log_each(log, word.text[0] == '\0' ? SIZE_MAX : number_of(word.text), write_entry, out);
	out_close(out, ']');
	return 0;
}

static void write_logs(struct out *out)
{
	out_open(out, "logs", '[');
	for (int i = 0; i < GUARD_LOGS; i++) {
		enum guard_log log = (enum guard_log)i;

		if (out->json) {
			out_open(out, NULL, '{');
			out_string(out, "name", guard_log_name(log));
			out_number(out, "room", guard_log_room(log));
			out_number(out, "written", guard_log_written(log));
			out_close(out, '}');
		} else
			out_add(out, "log %-12s %zu entries of room, %lu written\n", guard_log_name(log), guard_log_room(log),
				(unsigned long)guard_log_written(log));
	}
	out_close(out, ']');
}

int report_status(struct out *out, const char *rest)
{
	char messages[4001];
	size_t length = guard_messages(messages, sizeof messages - 1);

	(void)rest;
	messages[length] = '\0';
	if (out->json) {
		out_number(out, "debugging", debugging());
		out_number(out, "guards", umem_options.guards);
		out_number(out, "audit_frames", umem_options.audit_frames);
		out_number(out, "contents_bytes", umem_options.contents_bytes);
		out_number(out, "firewall_bytes", umem_options.firewall_bytes);
		out_number(out, "held_bytes", guard_held_bytes());
		out_number(out, "faults", guard_faults());
		out_string(out, "messages", messages);
	} else
		out_add(out, "vmag: debugging %s: guards %zu, audit %zu frames, contents %zu bytes, firewall from %zu bytes\n"
			"freed buffers held back: %zu bytes\nfaults reported: %zu\n%s",
			debugging() ? "on" : "off", umem_options.guards, umem_options.audit_frames, umem_options.contents_bytes,
			umem_options.firewall_bytes, guard_held_bytes(), guard_faults(), messages);
	write_logs(out);
	return 0;
}

void report_buffer(struct out *out, const struct guarded_copy *buffer)
{
	const struct guarded *record = &buffer->record;
	char lines[8192];
	struct text text = text_into(lines, sizeof lines - 1);

	if (out->json) {
		out_address(out, "buffer", record->address);
		out_number(out, "size", record->size);
		out_string(out, "cache", record->cache->name);
		out_string(out, "state", state_names[record->state]);
		out_number(out, "allocated_by_thread", (uint64_t)record->allocated.thread);
		out_stack(out, "allocated", buffer->frames, record->allocated.frames);
		out_number(out, "freed_by_thread", (uint64_t)record->freed.thread);
		out_stack(out, "freed", buffer->frames + umem_options.audit_frames, record->freed.frames);
		return;
	}
	out_add(out, "0x%lx, %zu bytes, cache %s, %s\n", (unsigned long)record->address, record->size, record->cache->name,
		state_names[record->state]);
	guard_add_history(&text, buffer);
	*text.at = '\0';
	for (const char *line = lines; *line != '\0';) {
		size_t length = strcspn(line, "\n");

		for (size_t i = 0; i <= length; i++)
			out_add(out, "%c", line[i]);
		line += length + 1;
	}
}

static bool read_address(const char *text, uintptr_t *address)
{
	*address = 0;
	if (text[0] == '0' && text[1] == 'x')
		text += 2;
	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++) {
		unsigned digit = (unsigned)(*text >= 'a' ? *text - 'a' + 10 : *text - '0');

		if (digit > 15)
			return false;
		*address = *address << 4 | digit;
	}
	return true;
}

static void say_is(struct out *out, const char *what)
{
	if (out->json)
		out_string(out, "is", what);
	else
		out_add(out, "%s\n", what);
}

// An address of the heap that no record knows: an object of malloc without debugging, or memory of the library.
static void write_heap_object(struct out *out, uintptr_t address)
{
	struct run *run = page_map_run((void *)address);
	size_t size = run->bin != NULL ? run->bin->shape.size : run->bytes;
	uintptr_t start = run_start(run) + (run->bin != NULL ? (address - run_start(run)) / size * size : 0);

	say_is(out, run->bin != NULL ? "in a slab of the heap" : "in a large object of the heap");
	if (out->json) {
		out_address(out, "buffer", start);
		out_number(out, "size", size);
		out_number(out, "arena", run->arena);
	} else
		out_add(out, "buffer 0x%lx of %zu bytes, arena %u\n", (unsigned long)start, size, (unsigned)run->arena);
}

static void write_area(struct out *out, uintptr_t address)
{
	static const char names[][36] = { "data of the program or a library", "a mapped file", "shared memory", "a stack",
					  "memory of brk", "anonymous memory, not of the heap", "memory of the kernel" };
	const char *what = "nothing: no memory is there";
	struct os_areas areas;
	struct os_area area;

	if (os_areas_begin(&areas)) {
		while (os_areas_next(&areas, &area))
			if (address >= area.start && address < area.end)
				what = names[area.kind];
		os_areas_end(&areas);
	}
	say_is(out, what);
}

int report_whatis(struct out *out, const char *rest)
{
	struct report_word word = report_next_word(&rest);
	struct guarded_copy buffer;
	uintptr_t address;

	if (!read_address(word.text, &address))
		return EINVAL;
	if (out->json)
		out_address(out, "address", address);
	else
		out_add(out, "0x%lx is ", (unsigned long)address);
	if (debugging() && guard_find(address, &buffer)) {
		say_is(out, "in a buffer");
		report_buffer(out, &buffer);
	} else if (heap_ready() && page_map_run((void *)address) != NULL)
		write_heap_object(out, address);
	else
		write_area(out, address);
	return 0;
}
