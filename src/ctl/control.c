// Controls: the table, and jemalloc's rules for the caller's buffers.
// SPDX-License-Identifier: BSD-2-Clause
#include "ctl/control.h"

#include <errno.h>
#include <string.h>

#include "conf/options.h"
#include "ctl/snapshot.h"
#include "util/bits.h"
#include "util/format.h"

// The number of an option's row.
enum {
#define OPTION(name, type, value, least, most, meaning) number_of_##name,
#include "conf/options.def"
};

#define NUMBER(name) number_of_##name
#define TOTAL(field) offsetof(struct totals, field)
#define ARENA(field) offsetof(struct arena_figures, field)
#define BIN(field) offsetof(struct bin_figures, field)
#define LEXTENT(field) offsetof(struct lextent_figures, field)
#define CONTROL_TYPE(type)                                                                                     \
	_Generic((type)0, bool: CONTROL_BOOL, int: CONTROL_UNSIGNED, unsigned: CONTROL_UNSIGNED, long: CONTROL_SSIZE, \
		 long long: CONTROL_SSIZE, unsigned long: CONTROL_SIZE, unsigned long long: CONTROL_SIZE)
#define ROW_TYPE(type) (type)
enum { VOID = CONTROL_VOID, BOOL = CONTROL_BOOL, UNSIGNED = CONTROL_UNSIGNED, U32 = CONTROL_U32, U64 = CONTROL_U64,
       I64 = CONTROL_I64, SIZE = CONTROL_SIZE, SSIZE = CONTROL_SSIZE, STRING = CONTROL_STRING, POINTER = CONTROL_POINTER,
       PAIR = CONTROL_PAIR, STRUCT = CONTROL_STRUCT };

const struct control control_rows[] = {
#define CONTROL(name, type, access, handler, argument, meaning) { name, type, CONTROL_##access, argument },
#include "ctl/controls.def"
};

const size_t control_count = sizeof control_rows / sizeof control_rows[0];

static const char meanings[] =
#define CONTROL(name, type, access, handler, argument, meaning) meaning "\0"
#include "ctl/controls.def"
	"";

enum { FIRST_ROW = __COUNTER__ + 1 };

static int handle(const struct control *row, struct control_call *call)
{
	switch (row - control_rows) {
#define CONTROL(name, type, access, handler, argument, meaning) \
	case __COUNTER__ - FIRST_ROW:                          \
		return handler(call);
#include "ctl/controls.def"
	}
	return ENOENT;
}

static size_t size_of_type(enum control_type type)
{
	switch (type) {
	case CONTROL_BOOL:
		return sizeof(bool);
	case CONTROL_UNSIGNED:
	case CONTROL_U32:
		return sizeof(unsigned);
	case CONTROL_PAIR:
		return 2 * sizeof(uint64_t);
	case CONTROL_VOID:
	case CONTROL_STRUCT:
		return 0;
	default:
		return sizeof(uint64_t);
	}
}

int control_put(struct control_call *call, const void *value, size_t size)
{
	if (call->oldp == NULL || call->oldlenp == NULL)
		return 0;
	if (*call->oldlenp != size) {
		*call->oldlenp = *call->oldlenp < size ? *call->oldlenp : size;
		memcpy(call->oldp, value, *call->oldlenp);
		return EINVAL;
	}
	if (LIKELY(size == sizeof(uint64_t)))
		memcpy(call->oldp, value, sizeof(uint64_t));
	else
		memcpy(call->oldp, value, size);
	return 0;
}

int control_take(struct control_call *call, void *value, size_t size)
{
	if (call->newp == NULL || call->newlen != size)
		return EINVAL;
	memcpy(value, call->newp, size);
	return 0;
}

int control_must_read(struct control_call *call, size_t size)
{
	if (call->oldp != NULL && call->oldlenp != NULL && *call->oldlenp == size)
		return 0;
	if (call->oldlenp != NULL)
		*call->oldlenp = 0;
	return EINVAL;
}

int control_only_read(const struct control_call *call)
{
	return call->newp != NULL || call->newlen != 0 ? EPERM : 0;
}

int control_only_written(const struct control_call *call)
{
	return call->oldp != NULL || call->oldlenp != NULL ? EPERM : 0;
}

static int act(const struct control *row, struct control_call *call)
{
	if (control_only_read(call) != 0 || control_only_written(call) != 0)
		return EPERM;
	return handle(row, call);
}

static int read_value(const struct control *row, struct control_call *call)
{
	int failure = handle(row, call);

	return failure != 0 ? failure : control_put(call, &call->value, size_of_type(row->type));
}

static int change(const struct control *row, struct control_call *call)
{
	size_t size = size_of_type(row->type);
	int failure;

	if (call->newp != NULL && call->newlen != size)
		return EINVAL;
	failure = read_value(row, call);
	if (failure != 0 || call->newp == NULL)
		return failure;
	memcpy(&call->value, call->newp, size);
	call->writes = true;
	return handle(row, call);
}

static int perform_access(const struct control *row, struct control_call *call)
{
	int failure = EPERM;

	switch ((enum control_access)row->access) {
	case CONTROL_ACT:
		failure = act(row, call);
		break;
	case CONTROL_READ:
		failure = control_only_read(call);
		if (failure == 0)
			failure = read_value(row, call);
		break;
	case CONTROL_CHANGE:
		failure = change(row, call);
		break;
	case CONTROL_OWN:
		failure = handle(row, call);
		break;
	}
	return failure;
}

static int perform(const struct control *row, struct control_call *call)
{
	int saved = errno, failure;

	call->argument = row->argument;
	failure = perform_access(row, call);
	errno = saved;
	return failure;
}

int control_by_name(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen)
{
	struct control_call call = { .oldp = oldp, .oldlenp = oldlenp, .newp = newp, .newlen = newlen };
	const struct control *row;
	int failure = control_find_name(name, &row, call.index);

	return failure != 0 ? failure : perform(row, &call);
}

int control_by_mib(const size_t *mib, size_t length, void *oldp, size_t *oldlenp, void *newp, size_t newlen)
{
	struct control_call call = { .oldp = oldp, .oldlenp = oldlenp, .newp = newp, .newlen = newlen };
	const struct control *row;
	int failure = control_find_mib(mib, length, &row, call.index);

	return failure != 0 ? failure : perform(row, &call);
}

void controls_print(void (*put)(void *argument, const char *line), void *argument)
{
	static const char types[][16] = { "-", "bool", "unsigned", "uint32_t", "uint64_t", "int64_t", "size_t", "ssize_t",
					  "const char *", "pointer", "uint64_t[2]", "struct" };
	static const char accesses[][12] = { "act", "read", "read, write", "see meaning" };
	const char *meaning = meanings;

	for (size_t i = 0; i < control_count; i++, meaning += strlen(meaning) + 1) {
		const struct control *row = &control_rows[i];
		char line[640];
		struct text text = text_into(line, sizeof line - 2);

		text_add(&text, "%s\t%s\t%s\t%s", row->name, types[row->type], accesses[row->access], meaning);
		*text.at++ = '\n';
		*text.at = '\0';
		put(argument, line);
	}
}
