// Controls of arenas: arena.<i>.*, and making them.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "conf/options.h"
#include "ctl/control.h"
#include "ctl/snapshot.h"
#include "heap/explicit.h"
#include "jemalloc/jemalloc.h"
#include "os/pages.h"
#include "util/format.h"

enum { ARENA_NAME_BYTES = 32 };

// Kept and told, for jemalloc's arenas have them.
static _Atomic size_t oversize[ARENAS_MOST], grow_limit[ARENAS_MOST];
static const char dss_words[][sizeof "secondary"] = { "disabled", "primary", "secondary" };
static _Atomic unsigned char dss[ARENAS_MOST], dss_of_all; // numbers of words

unsigned control_arenas(void)
{
	return arenas_numbers();
}

static bool means_all(unsigned id)
{
	return id == CONTROL_ALL || id == control_arenas();
}

// NULL: not made, or destroyed.
static struct arena *live_arena(unsigned id)
{
	return id < control_arenas() && arena_is_live(id) ? arena_of(id) : NULL;
}

// Of the last epoch, as the arena's statistics are, or destroyed since.
int read_arena_initialized(struct control_call *call)
{
	unsigned id = call->index[0];

	call->value.boolean = means_all(id) || (snapshot_arena(id) != NULL && (id == CONTROL_DESTROYED || live_arena(id) != NULL));
	return 0;
}

static int for_arenas(unsigned id, void act(struct arena *arena))
{
	unsigned first = means_all(id) ? 0 : id, end = means_all(id) ? control_arenas() : id + 1;

	for (unsigned i = first; i < end; i++) {
		struct arena *arena = live_arena(i); // once: it may be destroyed meanwhile, which `act` notices

		if (arena != NULL)
			act(arena);
	}
	return 0;
}

int act_arena_decay(struct control_call *call)
{
	return for_arenas(call->index[0], arena_decay);
}

int act_arena_purge(struct control_call *call)
{
	return for_arenas(call->index[0], arena_purge);
}

int act_arena_reset(struct control_call *call)
{
	return arena_reset(call->index[0]);
}

// The number of a word; -1: none.
static int dss_number(const char *word)
{
	for (int i = 0; word != NULL && i < (int)(sizeof dss_words / sizeof *dss_words); i++)
		if (strcmp(word, dss_words[i]) == 0)
			return i;
	return -1;
}

const char *control_dss(unsigned id)
{
	return dss_words[means_all(id) ? dss_of_all : id < ARENAS_MOST ? dss[id] : 0];
}

int change_arena_dss(struct control_call *call)
{
	unsigned id = call->index[0];
	_Atomic unsigned char *kept;

	if (!means_all(id) && live_arena(id) == NULL)
		return EFAULT;
	kept = means_all(id) ? &dss_of_all : &dss[id];
	if (call->writes) {
		int number = dss_number(call->value.string);

		if (number < 0)
			return EINVAL;
		*kept = (unsigned char)number;
	}
	call->value.string = control_dss(id);
	return 0;
}

int change_arena_oversize(struct control_call *call)
{
	unsigned id = call->index[0];

	if (live_arena(id) == NULL)
		return EFAULT;
	if (call->writes)
		oversize[id] = call->value.size + 1;
	call->value.size = oversize[id] != 0 ? oversize[id] - 1 : options.oversize_threshold;
	return 0;
}

int change_arena_retain_grow_limit(struct control_call *call)
{
	unsigned id = call->index[0];
	size_t most = class_size(SLAB_CLASSES + LARGE_CLASSES - 1);

	if (live_arena(id) == NULL)
		return EFAULT;
	if (call->writes) {
		if (call->value.size < os_page_size() || call->value.size == SIZE_MAX)
			return EFAULT;
		grow_limit[id] = round_down(min_size(call->value.size, most), os_page_size());
	}
	call->value.size = grow_limit[id] != 0 ? grow_limit[id] : most;
	return 0;
}

int change_arena_dirty_decay(struct control_call *call)
{
	struct arena *arena = live_arena(call->index[0]);

	if (arena == NULL)
		return EFAULT;
	if (call->writes)
		return arena_set_dirty_decay_ms(arena, call->value.ssize);
	call->value.ssize = arena_dirty_decay_ms(arena);
	return 0;
}

int change_arena_muzzy_decay(struct control_call *call)
{
	struct arena *arena = live_arena(call->index[0]);

	if (arena == NULL)
		return EFAULT;
	if (call->writes)
		return arena_set_muzzy_decay_ms(arena, call->value.ssize);
	call->value.ssize = arena_muzzy_decay_ms(arena);
	return 0;
}

int change_arenas_dirty_decay(struct control_call *call)
{
	if (call->writes)
		return arenas_set_dirty_decay_ms(call->value.ssize);
	call->value.ssize = arenas_dirty_decay_ms();
	return 0;
}

int change_arenas_muzzy_decay(struct control_call *call)
{
	if (call->writes)
		return arenas_set_muzzy_decay_ms(call->value.ssize);
	call->value.ssize = arenas_muzzy_decay_ms();
	return 0;
}

int change_arena_hooks(struct control_call *call)
{
	unsigned id = call->index[0];
	struct arena *arena = id < control_arenas() ? arena_wanted(id) : NULL;

	if (arena == NULL)
		return EFAULT;
	if (call->writes)
		arena_set_hooks(arena, call->value.pointer);
	else
		call->value.pointer = arena_hooks(arena);
	return 0;
}

static char names[ARENAS_MOST][ARENA_NAME_BYTES];

// What is read is a pointer to the caller's own buffer.
int own_arena_name(struct control_call *call)
{
	unsigned id = call->index[0];
	char *buffer = NULL;
	const char *name = NULL;

	if (call->newp != NULL && call->newlen != sizeof name)
		return EINVAL;
	if (call->oldp != NULL && (call->oldlenp == NULL || *call->oldlenp != sizeof buffer))
		return EINVAL;
	if (live_arena(id) == NULL)
		return EFAULT;
	if (names[id][0] == '\0')
		text_print(names[id], ARENA_NAME_BYTES, id < arenas_automatic_most() ? "auto_%u" : "manual_%u", id);
	if (call->oldp != NULL)
		memcpy(&buffer, call->oldp, sizeof buffer);
	if (buffer != NULL)
		memcpy(buffer, names[id], ARENA_NAME_BYTES);
	if (call->newp == NULL)
		return 0;
	memcpy(&name, call->newp, sizeof name);
	if (name == NULL)
		return EINVAL;
	memset(names[id], 0, ARENA_NAME_BYTES);
	memcpy(names[id], name, min_size(strlen(name), ARENA_NAME_BYTES - 1));
	return 0;
}

int read_active_now(struct control_call *call)
{
	call->value.size = 0;
	for (unsigned id = 0; id < control_arenas(); id++) {
		const struct arena *arena = live_arena(id); // once, as above

		if (arena != NULL)
			call->value.size += pages_active_bytes(&arena->pages);
	}
	return 0;
}

int read_narenas(struct control_call *call)
{
	call->value.number = control_arenas();
	return 0;
}

// Before the number is another arena's.
static void forget_number(unsigned id)
{
	snapshot_destroyed(id);
	oversize[id] = grow_limit[id] = 0;
	dss[id] = 0;
	names[id][0] = '\0';
}

int act_arena_destroy(struct control_call *call)
{
	unsigned id = call->index[0];

	return live_arena(id) == NULL ? EFAULT : arena_destroy(id, forget_number);
}

static int create(struct control_call *call, extent_hooks_t *hooks)
{
	unsigned id;
	int failure = arenas_make(hooks, &id);

	return failure != 0 ? failure : control_put(call, &id, sizeof id);
}

int own_arenas_create(struct control_call *call)
{
	extent_hooks_t *hooks = NULL;
	int failure = control_must_read(call, sizeof(unsigned));

	if (failure == 0 && call->newp != NULL)
		failure = control_take(call, &hooks, sizeof hooks);
	return failure != 0 ? failure : create(call, hooks);
}

// jemalloc's arena_config_t; where its metadata lie is not for the program to say here.
struct arena_configuration {
	extent_hooks_t *hooks;
	bool metadata_use_hooks;
};

int own_arenas_create_ext(struct control_call *call)
{
	struct arena_configuration configuration = { 0 };
	int failure = control_must_read(call, sizeof(unsigned));

	if (failure == 0 && call->newp != NULL)
		failure = control_take(call, &configuration, sizeof configuration);
	return failure != 0 ? failure : create(call, configuration.hooks);
}
