// The file of an event trace: its making, places of chunks, checksums, and the facts.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "watch/trace_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cache/table.h"
#include "os/areas.h"
#include "os/backing.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/module.h"
#include "os/sandbox.h"
#include "os/thread.h"
#include "util/format.h"
#include "vmem/resource.h"
#include "watch/trace_facts.h"
#include "watch/trace_stacks.h"

enum {
	PATH_BYTES = TRACE_PREFIX_BYTES + 64,
	NAMES_MOST = 1000,
	LANES = 4,
	MAPS_MOST = 48 * 1024,
	MAPS_LENGTH_MOST = 3, // bytes of its varint
	MORE_MAPS = 16, // chunks of mappings at most, beside the first
	REST_EVERY = 64, // chunks, without need
	RING_LEAST = 4, // places, of which one in four is for facts,
	FACT_PLACES_LEAST = 2, // and two in any case: stacks, and the rest
	SETTLE_MOST_MS = 5000,
};

static const uint64_t NEXT_FILE = (uint64_t)1 << 32; // of `writers`

// In place of a file's descriptor.
enum { NO_FILE = -1, NOT_TO_BE_HAD = -2, BEING_MADE = -3 };

static struct {
	// Constant while a trace is on.
	char prefix[TRACE_PREFIX_BYTES];
	uint32_t places;      // for chunks, in ring mode of events
	uint32_t fact_places; // behind them; 0: no ring, all chunks share the places
	struct os_backing_identity identity; // of the file, once it is there, and
	char path[PATH_BYTES];
	struct os_backing_identity standard_error; // when it began
	unsigned filtered; // os_is_filtered then
	// Atomic.
	_Atomic uint64_t writers; // those who may be using it, and above them the file's number
	_Atomic uint32_t chunks;  // begun
	_Atomic bool is_full;     // a chunk of events had no place left, or could not be written
	_Atomic bool told;        // that it cannot be written, by this process or one that it is forked from
	_Atomic uint64_t facts_of; // the number of the file that somebody writes facts of, 0: nobody does; what follows belongs to that one
	struct facts *facts;
	uint32_t fact_chunks; // in ring mode, begun
	uint16_t generation; // of modules, when mappings were told last; 0: never
	uint32_t rest_at;    // chunks that were begun then
	uint8_t began;       // VMAG_TRACE_AT_START, …
	bool has_ended;
	uint8_t ended;       // VMAG_TRACE_EXITED, …
	size_t ledger_bytes;
	char ledger[TRACE_LEDGER_BYTES];
	uint32_t names_sequence; // of the chunk of the rest, or NO_SEQUENCE
	uint32_t maps_sequences[MORE_MAPS]; // likewise
} out;

static _Atomic int out_file = NO_FILE; // or another of the three above

_Static_assert(VMAG_TRACE_CHUNK % (LANES * 8) == 0, "the checksum's zeros are in the chunk");

// The chunk is filled up with zeros, for which there is room.
static uint32_t checksum(uint8_t *bytes, size_t length)
{
	uint64_t lane[LANES] = { 0, 1, 2, 3 }, sum = length, words[LANES];

	memset(bytes + length, 0, round_up(length, sizeof words) - length);
	for (const uint8_t *at = bytes; at < bytes + length; at += sizeof words) {
		memcpy(words, at, sizeof words);
		for (int k = 0; k < LANES; k++) {
			lane[k] = (lane[k] ^ words[k]) * GOLDEN;
			lane[k] ^= lane[k] >> 32;
		}
	}
	for (int k = 0; k < LANES; k++)
		sum += lane[k];
	return (uint32_t)(sum ^ sum >> 32);
}

// Not where the program has something else as its standard error than at the beginning, a file of its own perhaps.
static void complain(const char *what, int error)
{
	if (!os_backing_is(STDERR_FILENO, &out.standard_error) || atomic_exchange(&out.told, true))
		return;
	os_stderr_say("vmag: trace: cannot %s %s.%d.*.trace (errno %d); the trace ends here%s", what, out.prefix, os_process_number(), error,
		      error == EACCES ? "; for a process that became another user, name a folder that this user may write in, or start it as that user" : "");
}

// From the root on, where the system tells: the program may go to another folder.
static void note_path(int file, const char *path)
{
	char link[48];
	ssize_t length;

	text_print(link, sizeof link, "/proc/self/fd/%d", file);
	length = os_link_read(link, out.path, sizeof out.path);
	if (length < 0) { // the first thread has ended
		text_print(link, sizeof link, "/proc/thread-self/fd/%d", file);
		length = os_link_read(link, out.path, sizeof out.path);
	}
	if (length <= 0 || (size_t)length == sizeof out.path - 1)
		memcpy(out.path, path, sizeof out.path);
}

static int open_file(void)
{
	char path[PATH_BYTES] = "";
	int file = -1;

	for (unsigned i = 0; file < 0 && i < NAMES_MOST; i++) {
		text_print(path, sizeof path, "%s.%d.%u.trace", out.prefix, os_process_number(), i);
		file = os_file_create_new(path);
		if (file < 0 && errno != EEXIST)
			break;
	}
	if (file >= 0 && os_backing_identify(file, &out.identity)) {
		note_path(file, path);
		return file;
	}
	complain("make", errno);
	return NOT_TO_BE_HAD;
}

// A program that closes what it does not know, as daemons do, closes the file: it is opened again, if its name still leads to it.
static int open_again(void)
{
	int file = os_file_open_again(out.path);

	if (file >= 0 && os_backing_is(file, &out.identity))
		return file;
	complain("find", file >= 0 ? ENOENT : errno);
	if (file >= 0)
		os_file_close(file);
	return NOT_TO_BE_HAD;
}

// The process has shut itself in since the trace began: what was not written by then stays so. Who begins one inside knows what may be done there.
static bool is_barred(void)
{
	return atomic_load_explicit(&os_is_filtered, memory_order_relaxed) != out.filtered;
}

// Not what the program closed, and opened as another.
static void close_file(int file)
{
	if (file >= 0 && !is_barred() && os_backing_is(file, &out.identity))
		os_file_close(file);
}

// What is used in its place: this thread's, unless another one came first, or the trace ended.
static COLD int instead_of(int file)
{
	int fresh = open_again();

	if (atomic_compare_exchange_strong(&out_file, &file, fresh))
		return fresh;
	if (fresh >= 0)
		os_file_close(fresh);
	return file;
}

// The file, made by the first thread that has something to write; the others wait for it, lest a second one lies beside it.
static int the_file(void)
{
	_Atomic uint32_t never = 0;
	int file = NO_FILE;
	uint64_t end;

	if (atomic_compare_exchange_strong(&out_file, &file, BEING_MADE)) {
		file = open_file();
		atomic_store(&out_file, file);
	}
	// Who makes it may wait for us, when this is a handler in the same thread, or have been left by a handler's longjmp.
	end = file == BEING_MADE ? os_clock_ms() + SETTLE_MOST_MS : 0;
	while ((file = atomic_load(&out_file)) == BEING_MADE && (os_clock_ms() < end || !atomic_compare_exchange_strong(&out_file, &file, NOT_TO_BE_HAD)))
		os_word_wait(&never, 0, 1);
	return LIKELY(file < 0 || os_backing_is(file, &out.identity)) ? file : instead_of(file);
}

static bool write_at(int file, struct vmag_trace_chunk *head, uint32_t place)
{
	head->magic = VMAG_TRACE_MAGIC;
	head->version = VMAG_TRACE_VERSION;
	head->pid = (uint32_t)os_process_number();
	head->checksum = 0;
	head->checksum = checksum((uint8_t *)head, sizeof *head + head->bytes);
	if (!os_backing_is(file, &out.identity))
		return false;
	if (os_file_write_at(file, (const char *)head, sizeof *head + head->bytes, (uint64_t)place * VMAG_TRACE_CHUNK))
		return true;
	if (os_backing_is(file, &out.identity)) // else a handler forked meanwhile
		complain("write", errno);
	return false;
}

static void add_arena(void *facts, struct vmag_vmem *arena)
{
	if (facts_room(facts) >= FACTS_NAME_MOST)
		facts_add_name(facts, VMAG_TRACE_ARENA, arena->number, (uint64_t)1 << arena->lg_quantum, arena->name);
}

static void add_cache(void *facts, struct vmag_cache *cache)
{
	if (facts_room(facts) >= FACTS_NAME_MOST)
		facts_add_name(facts, VMAG_TRACE_CACHE, cache->number, cache->source.import == NULL ? cache->object_bytes : 0, cache->name);
}

// Of those that there are now, as far as there is room: in ring mode, in which their first events do not tell them.
static void add_names(struct facts *facts)
{
	caches_each(add_cache, facts);
	resource_each(add_arena, facts);
}

static void add_tag(struct facts *facts, uint8_t tag)
{
	*facts->at++ = tag;
	facts->head.events++;
}

// From this address on; returns where it ends, 0: all is told. The text is made where it will stand, behind the room for its length.
static uintptr_t add_maps(struct facts *facts, uint8_t tag, uintptr_t from)
{
	char *text = (char *)facts->at + 1 + MAPS_LENGTH_MOST;
	size_t bytes = os_areas_copy_code(&from, text, MAPS_MOST);

	add_tag(facts, tag);
	facts->at = add_varint(facts->at, bytes);
	memmove(facts->at, text, bytes);
	facts->at += bytes;
	return from;
}

// Where a chunk goes. UINT32_MAX: there is no place left.
static uint32_t place_of(uint32_t sequence)
{
	if (out.fact_places != 0) // the rest has the first place, chunks of stacks come round the others
		return out.places + (sequence == 0 ? 0 : 1 + (sequence - 1) % (out.fact_places - 1));
	return sequence < out.places ? sequence : UINT32_MAX;
}

static uint64_t number_now(void)
{
	return atomic_load(&out.writers) / NEXT_FILE;
}

// Again at its place, or at a new one. False: there is none, or another file was begun while a write to this one took its time.
static bool write_facts_chunk(int file, struct facts *facts, uint32_t *sequence)
{
	uint32_t place;

	if (facts->file != number_now())
		return false;
	if (*sequence == NO_SEQUENCE)
		*sequence = out.fact_places == 0 ? atomic_fetch_add(&out.chunks, 1) : sequence == &out.names_sequence ? 0 : ++out.fact_chunks;
	place = place_of(*sequence);
	if (place == UINT32_MAX)
		return false;
	facts->head.kind = VMAG_TRACE_FACTS;
	facts->head.sequence = *sequence;
	facts->head.bytes = (uint32_t)(facts->at - facts->payload);
	facts->head.ticks_first = facts->head.ticks_last = os_ticks();
	facts->head.ns_first = facts->head.ns_last = os_clock_ns();
	return write_at(file, &facts->head, place);
}

static void write_stacks(int file, struct facts *facts)
{
	uint32_t *sequence;

	do
		sequence = facts->file == number_now() ? trace_stacks_next(facts) : NULL;
	while (sequence != NULL && write_facts_chunk(file, facts, sequence));
}

// What did not fit into the first chunk, and nothing into those where there is less of it than before.
static void write_more_maps(int file, struct facts *facts, uintptr_t from)
{
	for (unsigned i = 0; i < MORE_MAPS && (from != 0 || out.maps_sequences[i] != NO_SEQUENCE); i++) {
		facts_clear(facts);
		if (from != 0)
			from = add_maps(facts, VMAG_TRACE_MORE_MAPS, from);
		if (from != 0 && i == MORE_MAPS - 1)
			add_tag(facts, VMAG_TRACE_MAPS_CUT);
		write_facts_chunk(file, facts, &out.maps_sequences[i]);
	}
}

static void write_the_rest(int file, struct facts *facts)
{
	bool is_ring = out.fact_places != 0;
	uintptr_t more;

	facts_clear(facts);
	more = add_maps(facts, VMAG_TRACE_MAPS, 0);
	if (is_ring && more != 0) // there is one place that is kept
		add_tag(facts, VMAG_TRACE_MAPS_CUT);
	if (out.ledger_bytes > 0) {
		add_tag(facts, VMAG_TRACE_LEDGER);
		facts_add_text(facts, out.ledger, out.ledger_bytes);
	}
	if (atomic_load(&out.is_full))
		add_tag(facts, VMAG_TRACE_FULL);
	add_tag(facts, VMAG_TRACE_BEGAN);
	*facts->at++ = out.began;
	if (out.has_ended) {
		add_tag(facts, VMAG_TRACE_ENDED);
		*facts->at++ = out.ended;
		facts->at = add_varint(facts->at, is_ring ? 0 : atomic_load(&out.chunks));
	}
	if (is_ring)
		add_names(facts);
	write_facts_chunk(file, facts, &out.names_sequence);
	if (!is_ring)
		write_more_maps(file, facts, more);
}

// Where code is mapped is not asked for each time: the kernel takes long to tell.
static bool rest_is_due(void)
{
	uint16_t generation = atomic_load_explicit(&os_modules_generation, memory_order_relaxed);
	uint32_t chunks = atomic_load(&out.chunks);

	if (generation == out.generation && chunks - out.rest_at < REST_EVERY)
		return false;
	out.generation = generation;
	out.rest_at = chunks;
	return true;
}

// What is new; all when `last`. Who finds another at it leaves it to that one.
static void write_facts(int file, uint64_t number, bool last)
{
	uint64_t own = number, nobody = 0;
	struct facts *facts;

	if (number != number_now() || !atomic_compare_exchange_strong(&out.facts_of, &nobody, number))
		return;
	if (out.facts == NULL)
		out.facts = base_alloc_pages(sizeof *out.facts);
	facts = out.facts;
	if (facts != NULL) {
		bool first = out.names_sequence == NO_SEQUENCE, due = rest_is_due() || last;

		facts->file = number;
		if (first) // its place is where the file says that it is full
			write_the_rest(file, facts);
		write_stacks(file, facts);
		if (due && (last || !first))
			write_the_rest(file, facts);
	}
	atomic_compare_exchange_strong(&out.facts_of, &own, 0);
}

bool trace_file_begin(const struct trace_wish *wish)
{
	uint64_t places = wish->most_bytes / VMAG_TRACE_CHUNK;

	if (strlen(wish->prefix) >= sizeof out.prefix)
		return false;
	memcpy(out.prefix, wish->prefix, strlen(wish->prefix) + 1);
	out.places = (uint32_t)(places >= UINT32_MAX ? UINT32_MAX - 1 : places < 2 ? 2 : places);
	out.fact_places = 0;
	atomic_store(&out.told, false);
	os_backing_identify(STDERR_FILENO, &out.standard_error);
	if (wish->ring) {
		out.places = out.places < RING_LEAST ? RING_LEAST : out.places;
		out.fact_places = (uint32_t)max_size(out.places / RING_LEAST, FACT_PLACES_LEAST);
		out.places -= out.fact_places;
	}
	trace_file_fork_child();
	out.filtered = atomic_load(&os_is_filtered);
	out.began = wish->later ? VMAG_TRACE_LATER : VMAG_TRACE_AT_START;
	return true;
}

uint64_t trace_file_enter(void)
{
	return atomic_fetch_add(&out.writers, 1);
}

static bool is_of_file(uint64_t writers, uint64_t entered)
{
	return writers / NEXT_FILE == entered / NEXT_FILE;
}

bool trace_file_leave(uint64_t entered)
{
	uint64_t now = atomic_load(&out.writers);

	while (is_of_file(now, entered))
		if (atomic_compare_exchange_weak(&out.writers, &now, now - 1))
			return true;
	return false;
}

bool trace_file_write(struct vmag_trace_chunk *head, uint64_t entered)
{
	int saved = errno, file = is_barred() ? NOT_TO_BE_HAD : the_file();
	uint32_t place;
	bool written;

	head->sequence = atomic_fetch_add(&out.chunks, 1);
	place = out.fact_places != 0 ? head->sequence % out.places : place_of(head->sequence);
	written = file >= 0 && place != UINT32_MAX && write_at(file, head, place);
	if (written)
		write_facts(file, entered / NEXT_FILE, false);
	else if (file >= 0 && is_of_file(atomic_load(&out.writers), entered) && !atomic_exchange(&out.is_full, true))
		write_facts(file, entered / NEXT_FILE, true);
	errno = saved;
	return written;
}

void trace_file_settle(void)
{
	uint64_t end = os_clock_ms() + SETTLE_MOST_MS;
	_Atomic uint32_t never = 0;

	while (atomic_load(&out.writers) % NEXT_FILE != 0 && os_clock_ms() < end)
		os_word_wait(&never, 0, 1);
}

void trace_file_end(unsigned how)
{
	int file = atomic_exchange(&out_file, NO_FILE);

	if (is_barred())
		return;
	if (file >= 0 && !os_backing_is(file, &out.identity))
		file = open_again();
	if (file < 0)
		return;
	out.ended = (uint8_t)how;
	out.has_ended = true;
	write_facts(file, number_now(), true);
	close_file(file);
}

void trace_file_ledger(const char *fields, size_t length)
{
	out.ledger_bytes = min_size(length, sizeof out.ledger);
	memcpy(out.ledger, fields, out.ledger_bytes);
}

void trace_file_fork_child(void)
{
	close_file(atomic_exchange(&out_file, NO_FILE));
	atomic_store(&out.writers, (atomic_load(&out.writers) / NEXT_FILE + 1) * NEXT_FILE);
	atomic_store(&out.chunks, 0);
	if (atomic_exchange(&out.facts_of, 0) != 0)
		out.facts = NULL; // whose thread may be at it still
	atomic_store(&out.is_full, false);
	out.ledger_bytes = 0;
	out.began = VMAG_TRACE_IN_CHILD;
	out.has_ended = false;
	out.fact_chunks = out.rest_at = out.generation = 0;
	out.names_sequence = NO_SEQUENCE;
	memset(out.maps_sequences, -1, sizeof out.maps_sequences);
	trace_stacks_begin();
}
