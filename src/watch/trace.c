// Event trace: encoding events, and writing full buffers.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "watch/trace.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/mutex.h"
#include "os/stack.h"
#include "util/format.h"
#include "vmag/trace_format.h"

enum { EVENT_MOST = 32, PATH_BYTES = TRACE_PREFIX_BYTES + 64, NAMES_MOST = 1000 };

// A chunk under way. The thread writes events and then `used`; who stops the trace reads it from another thread.
struct tracer {
	struct tracer *next; // of all, under lock
	bool taken;          // by a thread, under lock
	uint64_t ticks;      // of the last event
	uintptr_t address;   // of the last event
	uint32_t events;
	_Atomic uint32_t used;
	struct vmag_trace_chunk head;
	uint8_t payload[VMAG_TRACE_CHUNK - sizeof(struct vmag_trace_chunk)];
};

static struct {
	struct mutex lock;
	// Under lock.
	struct tracer *all;
	// Constant while a trace is on.
	char prefix[TRACE_PREFIX_BYTES];
	uint32_t most_chunks;
	bool ring;
	// Atomic.
	_Atomic bool on;
	_Atomic uint32_t chunks;  // begun
	_Atomic int file;         // or one of the three below
} trace = { .lock = MUTEX_INIT(RANK_TRACE), .file = -1 };

// CRC-32, eight bytes at a time: table[k] is for a byte that k further bytes follow.
static uint32_t crc_table[8][256]; // filled by whoever comes first, always with the same

static void fill_crc_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t entry = i;

		for (int bit = 0; bit < 8; bit++)
			entry = entry >> 1 ^ (entry & 1 ? 0xedb88320u : 0);
		crc_table[0][i] = entry;
	}
	for (int k = 1; k < 8; k++)
		for (uint32_t i = 0; i < 256; i++)
			crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 0xff];
}

static uint32_t checksum(const uint8_t *bytes, size_t length)
{
	uint32_t sum = ~0u;
	size_t i = 0;

	for (; i + 8 <= length; i += 8) {
		uint64_t eight;

		memcpy(&eight, bytes + i, sizeof eight);
		eight ^= sum;
		sum = 0;
		for (int k = 0; k < 8; k++)
			sum ^= crc_table[7 - k][eight >> 8 * k & 0xff];
	}
	for (; i < length; i++)
		sum = sum >> 8 ^ crc_table[0][(sum ^ bytes[i]) & 0xff];
	return ~sum;
}

// In place of a file's descriptor.
enum { NO_FILE = -1, NOT_TO_BE_HAD = -2, BEING_MADE = -3 };

static int open_file(void)
{
	char path[PATH_BYTES];
	int file = -1;

	for (unsigned i = 0; file < 0 && i < NAMES_MOST; i++) {
		struct text text = text_into(path, sizeof path);

		text_add(&text, "%s.%d.%u.trace%c", trace.prefix, (int)getpid(), i, '\0');
		file = os_file_create_new(path);
		if (file < 0 && errno != EEXIST)
			break;
	}
	return file < 0 ? NOT_TO_BE_HAD : file;
}

// The file, made by the first thread that has something to write; the others wait for it, lest a second one lies beside it.
static int the_file(void)
{
	_Atomic uint32_t never = 0;
	int file = NO_FILE;

	if (atomic_compare_exchange_strong(&trace.file, &file, BEING_MADE)) {
		file = open_file();
		atomic_store(&trace.file, file);
	}
	while ((file = atomic_load(&trace.file)) == BEING_MADE)
		os_word_wait(&never, 0, 1);
	return file;
}

static void begin_chunk(struct tracer *tracer)
{
	tracer->head.ticks_first = tracer->ticks = os_ticks();
	tracer->head.ns_first = os_clock_ns();
	tracer->address = 0;
	tracer->events = 0;
	atomic_store_explicit(&tracer->used, 0, memory_order_release);
}

static void write_chunk(struct tracer *tracer)
{
	uint32_t used = atomic_load_explicit(&tracer->used, memory_order_acquire), sequence;
	struct vmag_trace_chunk *head = &tracer->head;
	int saved = errno, file;

	if (used == 0)
		return;
	sequence = atomic_fetch_add(&trace.chunks, 1);
	file = the_file();
	if (file < 0 || (!trace.ring && sequence >= trace.most_chunks)) {
		atomic_store(&trace.on, false);
		errno = saved;
		return;
	}
	head->magic = VMAG_TRACE_MAGIC;
	head->version = VMAG_TRACE_VERSION;
	head->sequence = sequence;
	head->bytes = used;
	head->events = tracer->events;
	head->checksum = checksum(tracer->payload, used);
	head->pid = (uint32_t)getpid();
	head->ticks_last = os_ticks();
	head->ns_last = os_clock_ns();
	os_file_write_at(file, (const char *)head, sizeof *head + used, (uint64_t)(sequence % trace.most_chunks) * VMAG_TRACE_CHUNK);
	errno = saved;
}

static struct tracer *tracer_take(void)
{
	struct tracer *tracer;

	mutex_lock(&trace.lock);
	for (tracer = trace.all; tracer != NULL && tracer->taken; tracer = tracer->next)
		;
	if (tracer != NULL)
		tracer->taken = true;
	mutex_unlock(&trace.lock);
	if (tracer != NULL)
		return tracer;
	tracer = base_alloc_pages(sizeof *tracer);
	if (tracer == NULL)
		return NULL;
	tracer->taken = true;
	mutex_lock(&trace.lock);
	tracer->next = trace.all;
	trace.all = tracer;
	mutex_unlock(&trace.lock);
	return tracer;
}

// Room for an event in this thread's chunk; NULL: there is no trace, or no memory.
static struct tracer *ready(struct tracer **own)
{
	struct tracer *tracer = *own;

	if (!atomic_load_explicit(&trace.on, memory_order_relaxed))
		return NULL;
	if (UNLIKELY(tracer == NULL)) {
		tracer = *own = tracer_take();
		if (tracer == NULL)
			return NULL;
		tracer->head.thread = (uint32_t)os_thread_number();
		begin_chunk(tracer);
	}
	if (UNLIKELY(atomic_load_explicit(&tracer->used, memory_order_relaxed) > sizeof tracer->payload - EVENT_MOST)) {
		write_chunk(tracer);
		begin_chunk(tracer);
	}
	return tracer;
}

static uint8_t *add_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)value | 0x80;
	*at++ = (uint8_t)value;
	return at;
}

static uint8_t *add_event(struct tracer *tracer, unsigned kind, const void *object)
{
	uint8_t *at = tracer->payload + atomic_load_explicit(&tracer->used, memory_order_relaxed);
	uint64_t ticks = os_ticks();
	int64_t step = (int64_t)((uintptr_t)object - tracer->address) / 8;

	// Processors may disagree by a little.
	at = add_varint(at, (ticks > tracer->ticks ? ticks - tracer->ticks : 0) << 2 | kind);
	tracer->ticks = ticks > tracer->ticks ? ticks : tracer->ticks;
	tracer->address = (uintptr_t)object;
	tracer->events++;
	return add_varint(at, (uint64_t)step << 1 ^ (uint64_t)(step >> 63));
}

static void event_done(struct tracer *tracer, const uint8_t *at)
{
	atomic_store_explicit(&tracer->used, (uint32_t)(at - tracer->payload), memory_order_release);
}

static void sized_event(struct tracer **own, unsigned kind, const void *object, size_t size)
{
	struct tracer *tracer = ready(own);

	if (tracer != NULL)
		event_done(tracer, add_varint(add_event(tracer, kind, object), size));
}

void trace_allocated(struct tracer **own, const void *object, size_t size)
{
	sized_event(own, VMAG_TRACE_ALLOC, object, size);
}

void trace_resized(struct tracer **own, const void *object, size_t size)
{
	sized_event(own, VMAG_TRACE_RESIZE, object, size);
}

void trace_freed(struct tracer **own, const void *object)
{
	struct tracer *tracer = ready(own);

	if (tracer != NULL)
		event_done(tracer, add_event(tracer, VMAG_TRACE_FREE, object));
}

void trace_thread_end(struct tracer **own)
{
	struct tracer *tracer = *own;

	if (tracer == NULL)
		return;
	*own = NULL;
	if (atomic_load_explicit(&trace.on, memory_order_relaxed))
		write_chunk(tracer);
	mutex_lock(&trace.lock);
	atomic_store(&tracer->used, 0);
	tracer->taken = false;
	mutex_unlock(&trace.lock);
}

bool trace_start(const char *prefix, uint64_t most_bytes, bool ring)
{
	if (trace_is_on() || strlen(prefix) >= sizeof trace.prefix)
		return false;
	fill_crc_table();
	strcpy(trace.prefix, prefix);
	trace.most_chunks = (uint32_t)(most_bytes / VMAG_TRACE_CHUNK > UINT32_MAX ? UINT32_MAX : most_bytes / VMAG_TRACE_CHUNK);
	trace.most_chunks += trace.most_chunks == 0;
	trace.ring = ring;
	atomic_store(&trace.chunks, 0);
	atomic_store(&trace.file, NO_FILE);
	mutex_lock(&trace.lock);
	for (struct tracer *tracer = trace.all; tracer != NULL; tracer = tracer->next)
		begin_chunk(tracer);
	mutex_unlock(&trace.lock);
	atomic_store(&trace.on, true);
	return true;
}

bool trace_is_on(void)
{
	return atomic_load(&trace.on);
}

// Tracers are never freed, so the list may be walked without the lock, which is not to be held across a write.
void trace_stop(void)
{
	struct tracer *first;
	int file;

	atomic_store(&trace.on, false);
	mutex_lock(&trace.lock);
	first = trace.all;
	mutex_unlock(&trace.lock);
	for (struct tracer *tracer = first; tracer != NULL; tracer = tracer->next) {
		write_chunk(tracer);
		atomic_store(&tracer->used, 0);
	}
	file = atomic_exchange(&trace.file, NO_FILE);
	if (file >= 0)
		os_file_close(file);
}

void trace_fork_prepare(void)
{
	mutex_fork_lock(&trace.lock);
}

void trace_fork_done(bool child, struct tracer *own)
{
	int file;

	mutex_fork_unlock(&trace.lock);
	if (!child)
		return;
	for (struct tracer *tracer = trace.all; tracer != NULL; tracer = tracer->next) {
		tracer->taken = tracer == own;
		begin_chunk(tracer);
	}
	if (own != NULL)
		own->head.thread = (uint32_t)os_thread_number();
	atomic_store(&trace.chunks, 0);
	file = atomic_exchange(&trace.file, NO_FILE);
	if (file >= 0)
		os_file_close(file);
}
