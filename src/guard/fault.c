// Faults of guarded buffers: the block of lines, and the ring that remembers the last ones.
// SPDX-License-Identifier: BSD-2-Clause
#include "guard/fault.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "conf/umem_options.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/stack.h"
#include "os/thread.h"
#include "os/unseen.h"
#include "util/bits.h"
#include "util/format.h"

enum { REMEMBERED = 8192, BLOCK = 7168 };

static struct {
	struct {
		char bytes[REMEMBERED];
		_Atomic size_t written;
	} ring;
	_Atomic size_t faults;
} told;

static void remember(const char *bytes, size_t length)
{
	size_t at = atomic_fetch_add_explicit(&told.ring.written, length, memory_order_relaxed);

	for (size_t i = 0; i < length; i++)
		told.ring.bytes[(at + i) % REMEMBERED] = bytes[i];
}

size_t guard_messages(char *bytes, size_t size)
{
	size_t written = atomic_load_explicit(&told.ring.written, memory_order_relaxed);
	size_t length = min_size(min_size(written, REMEMBERED), size);

	for (size_t i = 0; i < length; i++)
		bytes[i] = told.ring.bytes[(written - length + i) % REMEMBERED];
	return length;
}

size_t guard_faults(void)
{
	return atomic_load_explicit(&told.faults, memory_order_relaxed);
}

static void add_frames(struct text *text, const uintptr_t *frames, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		text_add(text, "             ");
		os_stack_name(text, frames[i]);
		text_add(text, "\n");
	}
}

static void add_stamp(struct text *text, const char *what, uint64_t now, const struct guard_stamp *stamp, const uintptr_t *frames)
{
	uint64_t age = now - stamp->time_ns;

	if (stamp->thread == 0)
		return;
	text_add(text, "  %s by thread %d, %lu.%06lu s ago\n", what, stamp->thread, (unsigned long)(age / 1000000000),
		 (unsigned long)(age % 1000000000 / 1000));
	add_frames(text, frames, stamp->frames);
}

void guard_add_history(struct text *text, const struct guarded_copy *buffer)
{
	uint64_t now = os_clock_ns(); // names of functions take their time

	add_stamp(text, "allocated ", now, &buffer->record.allocated, buffer->frames);
	add_stamp(text, "freed     ", now, &buffer->record.freed, buffer->frames + umem_options.audit_frames);
	if (!buffer->record.cache->audited)
		text_add(text, "  by whom    not noted; UMEM_DEBUG=audit notes it\n");
}

static void add_buffer(struct text *text, const struct guard_fault *fault)
{
	const struct guarded *record = &fault->buffer->record;

	text_add(text, "  buffer     0x%lx, %zu bytes, cache %s, %s\n", (unsigned long)record->address, record->size,
		 record->cache->name, record->state == GUARD_HELD ? "freed" : "live");
	if (fault->damaged)
		text_add(text, "  damage     byte %ld is 0x%02x, should be 0x%02x\n", fault->offset, fault->is, fault->should);
	guard_add_history(text, fault->buffer);
}

void guard_tell(const struct guard_fault *fault)
{
	char block[BLOCK];
	struct text text = text_into(block, sizeof block);
	uintptr_t frames[GUARD_FRAMES_MOST];
	unsigned count = os_stack_trace(frames, umem_options.audit_frames > 0 ? (unsigned)umem_options.audit_frames : 1);

	text_add(&text, "vmag: %s(%p): %s\n", fault->call, fault->address, fault->finding);
	if (fault->buffer != NULL)
		add_buffer(&text, fault);
	text_add(&text, "  found      by thread %d\n", os_thread_number());
	add_frames(&text, &fault->code, fault->code != 0);
	add_frames(&text, frames, count);
	atomic_fetch_add_explicit(&told.faults, 1, memory_order_relaxed);
	remember(block, (size_t)(text.at - block));
	os_stderr_write(block, (size_t)(text.at - block));
}

void guard_fault(const struct guard_fault *fault)
{
	guard_tell(fault);
	if (!umem_options.no_abort)
		os_abort();
}
