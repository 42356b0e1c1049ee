// Reports on logs: their entries, how full they are, and what debugging is set to.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "conf/umem_options.h"
#include "guard/fault.h"
#include "guard/guarded.h"
#include "guard/log.h"
#include "heap/debug.h"
#include "os/clock.h"
#include "umem/report.h"
#include "util/number.h"

static const char event_names[][8] = { "", "alloc", "free", "fail", "make", "destroy" };

static void write_contents(struct out *out, const struct guard_entry *entry)
{
	const unsigned char *byte = (const unsigned char *)(entry->frame + entry->frames);

	if (out->json) {
		char hexadecimal[8193];
		struct text text = text_into(hexadecimal, sizeof hexadecimal - 1);

		for (size_t i = 0; i < entry->contents; i++)
			text_add(&text, "%02x", byte[i]);
		*text.at = '\0';
		out_string(out, "contents", hexadecimal);
		return;
	}
	for (size_t i = 0; i < entry->contents; i++)
		out_add(out, i % 32 == 0 ? "%s             %02x" : "%s%02x", i % 32 == 0 && i > 0 ? "\n" : "", byte[i]);
	out_add(out, "\n");
}

// Ages are of when the report began, for writing takes its time. Meanwhile others write entries.
struct reading {
	struct out *out;
	uint64_t now;
};

static void write_entry(const struct guard_entry *entry, void *argument)
{
	const struct reading *reading = argument;
	struct out *out = reading->out;
	uint64_t age = reading->now - min_size(entry->time_ns, reading->now);

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

int report_log(struct out *out, const char *rest)
{
	struct report_word word = report_next_word(&rest);
	struct reading reading = { out, os_clock_ns() };
	enum guard_log log = LOG_TRANSACTION;
	const char *digits;

	for (int i = 0; i < GUARD_LOGS; i++)
		if (strcmp(word.text, guard_log_name((enum guard_log)i)) == 0) {
			log = (enum guard_log)i;
			word = report_next_word(&rest);
		}
	if (guard_log_room(log) == 0)
		return ENOTSUP;
	digits = word.text;
	if (out->json)
		out_string(out, "log", guard_log_name(log));
	out_open(out, "entries", '[');
	guard_log_each(log, *digits == '\0' ? SIZE_MAX : number_take(&digits, 10), write_entry, &reading);
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
