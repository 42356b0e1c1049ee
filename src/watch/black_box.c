// The black box: making the file, and what is written into it.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "watch/black_box.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "conf/options.h"
#include "os/areas.h"
#include "os/backing.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/pages.h"
#include "os/sandbox.h"
#include "os/thread.h"
#include "util/bits.h"
#include "util/format.h"

enum { PATH_BYTES = 768, MAPS_LEAST = 64 * 1024, MAPS_PART = 32, NAME_BYTES = 32, NAMES_MOST = 256, CACHES_TOLD = 1024, LOOK_MS = 250 };

struct vmag_box *_Atomic black_box;
_Atomic bool black_box_wanted;
_Atomic bool black_box_is_behind;
void (*black_box_counters)(struct vmag_box_counters *counters);

static struct {
	// Constant while there is a box.
	int pid;
	char path[PATH_BYTES];
	// Under the tallies' lock.
	uint64_t stacks_end; // in the file
	// Of whoever looks.
	_Atomic bool looking;
	_Atomic uint64_t looked_at; // ms
	uint64_t first_looked_at;
	uint32_t stacks_seen;       // when the maps were read last
} own;

// The box, in the process that made it: children that were made without fork's handlers have it mapped, too. NULL also in one that has a filter: its box stays as
// it was then, and where it is.
static __attribute__((noinline)) struct vmag_box *unless_another_s(struct vmag_box *box)
{
	return !os_has_filter() && os_process_number() == own.pid ? box : NULL;
}

static inline struct vmag_box *mine(void)
{
	struct vmag_box *box = atomic_load_explicit(&black_box, memory_order_acquire);

	return box == NULL ? NULL : unless_another_s(box);
}

static void *at(struct vmag_box *box, uint64_t offset)
{
	return (char *)box + offset;
}

// ---- making

// Absolute, for the program may change its folder.
static void make_path(void)
{
	enum { REST = sizeof "/.-2147483648.box" };
	struct text text = text_into(own.path, sizeof own.path - 1);
	char folder[PATH_BYTES];
	ssize_t length = options.black_box[0] == '/' ? 0 : os_link_read("/proc/thread-self/cwd", folder, sizeof folder);

	if (length > 0 && length + strlen(options.black_box) + REST <= sizeof own.path) // else as long as the process stays in its folder
		text_add(&text, "%s/", folder);
	text_add(&text, "%s.%d.box", options.black_box, own.pid);
	*text.at = '\0';
}

// Zeroed, of the size that the option says.
static struct vmag_box *make_file(size_t bytes)
{
	int file = os_backing_create(own.path);
	struct vmag_box *box = NULL;

	if (file >= 0 && os_backing_extend(file, 0, bytes))
		box = os_backing_map(bytes, file);
	if (box == NULL)
		os_stderr_say("vmag: option black_box: cannot make %s (errno %d); there is none", own.path, errno);
	if (box == NULL && file >= 0)
		os_file_remove(own.path);
	if (file >= 0)
		os_file_close(file);
	return box;
}

// A quarter of the room is the tallies'.
static void lay_out(struct vmag_box *box, size_t bytes)
{
	box->version = VMAG_BOX_VERSION;
	box->bytes = sizeof *box;
	box->file_bytes = bytes;
	box->begun = os_clock_epoch_seconds();
	box->pid = (uint32_t)own.pid;
	memcpy(box->library_version, VMAG_VERSION, sizeof VMAG_VERSION);
	box->maps = (uint32_t)round_up(sizeof *box, CACHE_LINE);
	box->maps_bytes = (uint32_t)max_size(MAPS_LEAST, round_down(bytes / MAPS_PART, CACHE_LINE));
	box->names = box->maps + 2 * box->maps_bytes;
	box->name_bytes = NAME_BYTES;
	box->names_most = NAMES_MOST;
	box->caches = box->names + NAMES_MOST * NAME_BYTES;
	box->cache_name_bytes = NAME_BYTES;
	box->caches_most = CACHES_TOLD;
	box->tallies = box->caches + CACHES_TOLD * NAME_BYTES;
	box->tallies_most = (uint32_t)((bytes - box->tallies) / 4 / sizeof(struct vmag_box_tally));
	box->stacks = box->tallies + box->tallies_most * (uint32_t)sizeof(struct vmag_box_tally);
	own.stacks_end = box->stacks;
	if (os_file_read("/proc/self/comm", box->program, sizeof box->program) > 0 && strchr(box->program, '\n') != NULL)
		*strchr(box->program, '\n') = '\0';
}

bool black_box_begin(void)
{
	size_t bytes = round_up(options.black_box_bytes, os_page_size());
	int saved = errno;
	struct vmag_box *box;

	if (!atomic_load(&black_box_wanted) || !atomic_exchange(&black_box_wanted, false) || os_has_filter() || getauxval(AT_SECURE) != 0 ||
	    environment(OPTIONS_ON_STDIN) != NULL)
		return false;
	own.pid = os_process_number();
	make_path();
	box = make_file(bytes);
	if (box != NULL) {
		lay_out(box, bytes);
		atomic_store(&black_box, box); // before the profile looks what there is to be told, as who counts relies on
		memcpy(box->magic, VMAG_BOX_MAGIC, sizeof box->magic);
	}
	errno = saved;
	return box != NULL;
}

// ---- samples

static uint64_t add_stack(struct vmag_box *box, const struct stack *stack)
{
	struct vmag_box_stack *copy = at(box, own.stacks_end);
	size_t bytes = sizeof *copy + stack->depth * sizeof copy->frames[0];
	uint64_t offset = own.stacks_end;

	if (offset + bytes > box->file_bytes)
		return 0;
	for (uint32_t i = 0; i < stack->depth; i++)
		copy->frames[i] = stack->frames[i];
	copy->depth = stack->depth;
	own.stacks_end += bytes;
	return offset;
}

static struct vmag_box_tally *entry_of(struct vmag_box *box, uint32_t number)
{
	return box != NULL && number <= box->tallies_most ? (struct vmag_box_tally *)at(box, box->tallies) + (number - 1) : NULL;
}

void black_box_add(uint32_t number, struct stack *stack, const struct vmag_box_tally *tally)
{
	struct vmag_box *box = mine();
	struct vmag_box_tally *entry = entry_of(box, number);

	if (box == NULL)
		return;
	if (stack->boxed == 0)
		stack->boxed = (uint32_t)add_stack(box, stack);
	if (entry == NULL || stack->boxed == 0) {
		__atomic_fetch_add(&box->no_room, 1, __ATOMIC_RELAXED);
		return;
	}
	*entry = *tally;
	__atomic_store_n(&entry->stack, stack->boxed, __ATOMIC_RELEASE);
}

void black_box_count(uint32_t number, int live, int total)
{
	struct vmag_box_tally *entry = entry_of(mine(), number);

	if (entry == NULL)
		return;
	__atomic_fetch_add(&entry->live, (uint64_t)(int64_t)live, __ATOMIC_RELAXED);
	if (total != 0)
		__atomic_fetch_add(&entry->total, (uint64_t)(int64_t)total, __ATOMIC_RELAXED);
}

void black_box_forget(uint32_t number)
{
	struct vmag_box_tally *entry = entry_of(mine(), number);

	if (entry != NULL)
		__atomic_store_n(&entry->stack, 0, __ATOMIC_RELEASE);
}

void black_box_name(uint32_t thread, const char *name)
{
	struct vmag_box *box = mine();

	if (box != NULL && thread < box->names_most)
		strncpy(at(box, box->names + thread * NAME_BYTES), name, NAME_BYTES - 1);
}

void black_box_cache(unsigned number, const char *name)
{
	struct vmag_box *box = mine();

	if (box != NULL && number < box->caches_most)
		strncpy(at(box, box->caches + number * NAME_BYTES), name, NAME_BYTES - 1);
}

// ---- what is written now and then

static void copy_maps(struct vmag_box *box)
{
	uint32_t next = (box->maps_written + 1) & 1;
	uintptr_t from = 0;

	box->maps_used[next] = (uint32_t)os_areas_copy_code(&from, at(box, box->maps + next * box->maps_bytes), box->maps_bytes);
	__atomic_store_n(&box->maps_written, box->maps_written + 1, __ATOMIC_RELEASE);
}

static void write_counters(struct vmag_box *box)
{
	uint32_t next = box->counters_written + 1;

	if (black_box_counters == NULL)
		return;
	black_box_counters(&box->counters[next & 1]);
	__atomic_store_n(&box->counters_written, next, __ATOMIC_RELEASE);
}

// At first each time that the process has become twice as old: it allocates much then.
static bool is_due(uint64_t now_ms)
{
	uint64_t last = atomic_load_explicit(&own.looked_at, memory_order_relaxed);

	return last == 0 || (int64_t)(now_ms - last) >= (int64_t)min_size(last - own.first_looked_at + 1, LOOK_MS);
}

void black_box_look(uint64_t now_ms, bool active, unsigned lg_sample, uint64_t lost)
{
	struct vmag_box *box;
	int saved = errno;

	if (os_has_filter())
		return;
	if (!is_due(now_ms)) {
		atomic_store(&black_box_is_behind, true);
		return;
	}
	box = mine();
	if (box == NULL || atomic_exchange(&own.looking, true))
		return;
	if (atomic_load_explicit(&own.looked_at, memory_order_relaxed) == 0)
		own.first_looked_at = now_ms;
	atomic_store(&black_box_is_behind, false);
	atomic_store_explicit(&own.looked_at, now_ms, memory_order_relaxed);
	write_counters(box);
	box->profile_active = active;
	box->lg_sample = lg_sample;
	box->lost = lost;
	if (box->maps_written == 0 || own.stacks_seen != stacks_count()) {
		own.stacks_seen = stacks_count();
		copy_maps(box);
	}
	atomic_store(&own.looking, false);
	errno = saved;
}

void black_box_end(void)
{
	if (mine() == NULL)
		return;
	atomic_store(&black_box, NULL);
	atomic_store(&black_box_is_behind, false);
	os_file_remove(own.path);
}

// The mapping is the parent's. A handler may have forked while this thread was about to write to it: the thread goes on with that, in memory that is
// nobody's and otherwise untouched.
static void leave_to_parent(struct vmag_box *box)
{
	size_t bytes = box->file_bytes;

	if (!os_pages_close(box, bytes) || !os_pages_commit(box, bytes))
		os_pages_unmap(box, bytes);
}

// All threads but one are gone.
void black_box_fork_child(void)
{
	struct vmag_box *box;

	if (options.black_box[0] == '\0')
		return;
	box = atomic_exchange(&black_box, NULL);
	if (box != NULL)
		leave_to_parent(box);
	for (struct stack *stack = stacks_newest(); stack != NULL; stack = stack->older)
		stack->boxed = 0;
	own.stacks_seen = 0;
	atomic_store(&own.looking, false);
	atomic_store(&own.looked_at, 0);
	atomic_store(&black_box_is_behind, false);
	atomic_store(&black_box_wanted, true);
}
