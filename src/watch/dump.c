// Dump: heap_v2 text, made in a buffer on the stack and written piece by piece.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "watch/dump.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cache/table.h"
#include "os/areas.h"
#include "os/backing.h"
#include "os/build_id.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/pages.h"
#include "os/sandbox.h"
#include "os/thread.h"
#include "util/bits.h"
#include "util/format.h"
#include "util/real.h"
#include "vmag/format.h"
#include "watch/profile.h"
#include "watch/sampled_threads.h"

enum { BUFFER_BYTES = 4096, LINE_BYTES = 256, PATH_BYTES = 768, NAMES_MOST = 1000 };

bool (*dump_allocated)(size_t *bytes, unsigned *threads) __attribute__((section(".data"))); // beside what is written to at start in any case

// The right to dump: 0 free, 1 taken, 2 taken and awaited.
static _Atomic uint32_t baton;
static __thread bool dumping;

bool dump_begin(void)
{
	uint32_t seen = 0;

	if (dumping)
		return false;
	if (!atomic_compare_exchange_strong(&baton, &seen, 1))
		while (atomic_exchange(&baton, 2) != 0)
			os_word_wait(&baton, 2, 0);
	dumping = true;
	return true;
}

void dump_end(void)
{
	dumping = false;
	if (atomic_exchange(&baton, 0) == 2)
		os_word_wake(&baton);
}

void dump_fork_child(void)
{
	if (!dumping)
		atomic_store(&baton, 0);
}

struct writer {
	int fd, error;
	size_t allocated; // as of before the dump
	struct text text;
	char buffer[BUFFER_BYTES];
};

static void flush(struct writer *out)
{
	size_t length = (size_t)(out->text.at - out->buffer);

	if (out->error == 0 && !os_file_write(out->fd, out->buffer, length))
		out->error = errno;
	out->text = text_into(out->buffer, sizeof out->buffer);
}

// Room for a line; nothing longer is added at once.
static struct text *line(struct writer *out)
{
	if (out->text.end - out->text.at < LINE_BYTES)
		flush(out);
	return &out->text;
}

// Readers divide by 1 − e^(−bytes/objects), the period being 1: that is undone here, and matters for 8 bytes and 16.
static void add_counts(struct text *text, const struct estimate *sum)
{
	double live = sum->live_objects > 0 ? real_one_minus_exp(sum->live_bytes / sum->live_objects) : 0;
	double total = sum->total_objects > 0 ? real_one_minus_exp(sum->total_bytes / sum->total_objects) : 0;
	bool all = profile_settings.accumulate;

	text_add(text, "%zu: %zu [%zu: %zu]", (size_t)(sum->live_objects * live + 0.5), (size_t)(sum->live_bytes * live + 0.5),
		 all ? (size_t)(sum->total_objects * total + 0.5) : 0, all ? (size_t)(sum->total_bytes * total + 0.5) : 0);
}

static bool is_something(const struct estimate *sum)
{
	return sum->live_objects > 0 || (profile_settings.accumulate && sum->total_objects > 0);
}

// Of `count` threads from `first` on, in one walk through the tallies, of which each thread has its own.
static void sum_threads(struct estimate *sums, uint32_t first, uint32_t count)
{
	memset(sums, 0, count * sizeof *sums);
	for (uint32_t number = 1; number <= tallies_last(); number++) {
		const struct tally *tally = tally_of(number);

		if (tally_is_told(tally) && tally->thread - first < count)
			estimate_add(&sums[tally->thread - first], tally);
	}
}

static void write_threads(struct writer *out)
{
	uint32_t last = sampled_threads_last(), at_once = last;
	size_t bytes = round_up((last + 1) * sizeof(struct estimate), os_page_size());
	struct estimate one, *mapped = os_pages_map(bytes), *sums = mapped;

	if (mapped == NULL) { // slowly, then
		sums = &one;
		at_once = 1;
	}
	for (uint32_t thread = 1; thread <= last; thread++) {
		uint32_t place = (thread - 1) % at_once;

		if (place == 0)
			sum_threads(sums, thread, at_once);
		if (!is_something(&sums[place]))
			continue;
		text_add(line(out), "  t%u: ", thread);
		add_counts(line(out), &sums[place]);
		text_add(line(out), " %s\n", sampled_thread_name(thread));
	}
	if (mapped != NULL)
		os_pages_unmap(mapped, bytes);
}

static void write_head(struct writer *out)
{
	struct estimate sum = { 0 };

	for (uint32_t number = 1; number <= tallies_last(); number++)
		estimate_add(&sum, tally_of(number));
	text_add(line(out), "heap_v2/1\n  t*: ");
	add_counts(line(out), &sum);
	text_add(line(out), "\n");
	write_threads(out);
}

// The stack's tallies of one thread, which are neighbours; returns the first of the next thread.
static uint32_t sum_of_thread(uint32_t number, struct estimate *sum)
{
	uint32_t thread = tally_of(number)->thread;

	for (; number != 0 && tally_of(number)->thread == thread; number = tally_of(number)->next_of_stack)
		estimate_add(sum, tally_of(number));
	return number;
}

static struct estimate sum_of_stack(const struct stack *stack)
{
	struct estimate sum = { 0 };

	for (uint32_t number = stack->first_tally; number != 0; number = tally_of(number)->next_of_stack)
		estimate_add(&sum, tally_of(number));
	return sum;
}

static void write_stack(struct writer *out, const struct stack *stack, const struct estimate *sum)
{
	text_add(line(out), "@");
	for (uint32_t i = 0; i < stack->depth; i++)
		text_add(line(out), " 0x%zx", (size_t)stack->frames[i]);
	text_add(line(out), stack->depth == 0 ? " 0x0\n  t*: " : "\n  t*: ");
	add_counts(line(out), sum);
	text_add(line(out), "\n");
	for (uint32_t number = stack->first_tally; number != 0;) {
		struct estimate part = { 0 };
		uint32_t thread = tally_of(number)->thread;

		number = sum_of_thread(number, &part);
		if (!is_something(&part))
			continue;
		text_add(line(out), "  t%u: ", thread);
		add_counts(line(out), &part);
		text_add(line(out), "\n");
	}
}

static void write_maps(struct writer *out)
{
	int fd = os_file_open_own("maps");
	ssize_t got;

	text_add(line(out), "\nMAPPED_LIBRARIES:\n");
	flush(out);
	while (fd >= 0 && (got = os_file_read_some(fd, out->buffer, sizeof out->buffer)) > 0) {
		out->text.at = out->buffer + got;
		flush(out);
	}
	if (fd >= 0)
		os_file_close(fd);
}

static void write_builds(struct writer *out)
{
	struct os_areas areas;
	struct os_area area;
	char build[OS_BUILD_LINE];

	if (!os_areas_begin_places(&areas))
		return;
	while (os_areas_next(&areas, &area))
		if (os_build_line(&areas, &area, build) > 0)
			text_add(line(out), "%s", build);
	os_areas_end(&areas);
}

// Of which there are samples; white space in a name becomes '_'.
static void write_cache(struct writer *out, unsigned id)
{
	struct vmag_cache *cache = cache_pin(id);
	char name[CACHE_NAME_BYTES];

	if (cache == NULL)
		return;
	memcpy(name, cache->name, sizeof name);
	cache_unpin(cache);
	for (char *at = name; *at != '\0'; at++)
		if ((unsigned char)*at <= ' ')
			*at = '_';
	text_add(line(out), " cache.%u=%s", id, name);
}

static void write_caches(struct writer *out)
{
	uint64_t seen[CACHES_MOST / 64] = { 0 };

	for (uint32_t number = 1; number <= tallies_last(); number++) {
		const struct tally *tally = tally_of(number);
		unsigned id = tally_is_told(tally) ? tally->arena - (unsigned)VMAG_ARENA_CACHES : CACHES_MOST;

		if (id >= CACHES_MOST || (seen[id / 64] >> id % 64 & 1) != 0)
			continue;
		seen[id / 64] |= (uint64_t)1 << id % 64;
		write_cache(out, id);
	}
}

// The smaller of before and now: what was freed meanwhile is not missing.
static void write_allocated(struct writer *out)
{
	size_t now = 0;
	unsigned threads = 0;

	if (!atomic_load(&profile_settings.active))
		text_add(line(out), " active=0");
	if (dump_allocated != NULL && dump_allocated(&now, &threads))
		text_add(line(out), " allocated=%zu threads=%u", min_size(now, out->allocated), threads);
}

// Stacks by their place in this file.
static void write_samples(struct writer *out, struct stack *newest, uint32_t dump)
{
	uint32_t place = 0;

	text_add(line(out), "\nVMAG_PROFILE:\nlg_sample=%u lost=%zu pid=%d time=%zu",
		 (unsigned)atomic_load(&profile_settings.lg_sample), (size_t)profile_lost(), os_process_number(),
		 (size_t)os_clock_epoch_seconds());
	if (!profile_settings.accumulate) // what was allocated where nothing lives any more is missing
		text_add(line(out), " accum=0");
	write_allocated(out);
	write_caches(out);
	text_add(line(out), "\n");
	for (struct stack *stack = newest; stack != NULL; stack = stack->older) {
		if (stack->dump != dump)
			continue;
		place++;
		for (uint32_t number = stack->first_tally; number != 0; number = tally_of(number)->next_of_stack) {
			const struct tally *tally = tally_of(number);

			text_add(line(out), "%u %u %u %zu %u %zu %zu\n", place, tally->thread, tally->arena, (size_t)tally->size,
				 tally->lg_sample, (size_t)atomic_load(&tally->live), (size_t)atomic_load(&tally->total));
		}
	}
}

static void write_profile(struct writer *out)
{
	static uint32_t dumps;
	struct stack *newest = stacks_newest();

	write_head(out);
	dumps++;
	for (struct stack *stack = newest; stack != NULL; stack = stack->older) {
		struct estimate sum = sum_of_stack(stack);

		if (!is_something(&sum))
			continue;
		stack->dump = dumps;
		write_stack(out, stack, &sum);
	}
	write_maps(out);
	write_builds(out);
	write_samples(out, newest, dumps);
	flush(out);
}

// Closes the file; −1: there is none, errno says why.
static int dump_into(int file, const char *path)
{
	struct writer out = { .fd = file };
	profile_dumped *dumped;
	int saved = errno;

	if (out.fd < 0)
		return errno;
	out.text = text_into(out.buffer, sizeof out.buffer);
	if (dump_allocated != NULL)
		dump_allocated(&out.allocated, &(unsigned){ 0 });
	bool alone = dump_begin();
	if (alone) {
		write_profile(&out);
		dump_end();
	}
	os_file_close(out.fd);
	dumped = atomic_load(&profile_dumped_hook); // once: it may be taken away meanwhile
	if (alone && dumped != NULL)
		dumped(path);
	errno = saved;
	return alone ? out.error : EAGAIN;
}

static struct os_backing_identity standard_error; // when the process began
static _Atomic bool told;

COLD void dump_remember_standard_error(void)
{
	os_backing_identify(STDERR_FILENO, &standard_error);
}

// Once, and not where the program has something else as its standard error by now, a file of its own perhaps.
static void complain(const char *path, int error)
{
	if (os_backing_is(STDERR_FILENO, &standard_error) && !atomic_exchange(&told, true))
		os_stderr_say("vmag: profile: cannot write %s (errno %d); the option prof_prefix says where to%s", path, error,
			      error == EACCES ? "; for a process that became another user, to a folder that this user may write in, or start it as that user" : "");
}

// Names can be foreseen, so what has one already may be anybody's; or a dump of an earlier process 1 of the container. It stays, and the next number is tried.
// Where the process is shut in, there are those alone that the program asks for.
int dump_named(char kind)
{
	static _Atomic unsigned dumps, of_kind[128];
	char path[PATH_BYTES], number[16] = "";
	int file = -1, saved = errno, error;

	if (profile_settings.prefix[0] == '\0')
		return ENOENT;
	if (kind != 'm' && os_has_filter())
		return EPERM;
	if (kind != 'f')
		text_print(number, sizeof number, "%u", atomic_fetch_add(&of_kind[(unsigned char)kind], 1));
	for (unsigned i = 0; file < 0 && i < NAMES_MOST; i++) {
		text_print(path, sizeof path, "%s.%d.%u.%c%s.heap", profile_settings.prefix, os_process_number(), atomic_fetch_add(&dumps, 1), kind,
			   number);
		file = os_file_create_new(path);
		if (file < 0 && errno != EEXIST)
			break;
	}
	error = dump_into(file, path);
	if (error != 0 && error != EAGAIN)
		complain(path, error);
	errno = saved;
	return error;
}

int profile_dump(const char *path)
{
	return path != NULL ? dump_into(os_file_create(path), path) : dump_named('m');
}

// Whether there was something to tell.
static __attribute__((noinline)) bool tell_leaks(void)
{
	struct estimate sum = { 0 };
	uint32_t stacks = 0;

	for (struct stack *stack = stacks_newest(); stack != NULL; stack = stack->older) {
		struct estimate of_stack = sum_of_stack(stack);

		stacks += of_stack.live_objects > 0;
		sum.live_objects += of_stack.live_objects;
		sum.live_bytes += of_stack.live_bytes;
	}
	if (stacks == 0)
		return false;
	os_stderr_say("vmag: alive at exit: about %zu bytes in about %zu objects, from %u call stacks",
		      (size_t)(sum.live_bytes + 0.5), (size_t)(sum.live_objects + 0.5), stacks);
	return true;
}

bool profile_final(void)
{
	bool leaks = profile_settings.leak_report && tell_leaks();

	if (profile_settings.dump_at_exit)
		dump_named('f');
	return leaks;
}
