// libumem's options: three lists of items, each item a row of a table.
// SPDX-License-Identifier: BSD-2-Clause
#include "conf/umem_options.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "conf/options.h"
#include "os/file.h"
#include "util/bits.h"
#include "util/format.h"

enum { FRAMES = 15, MOST_FRAMES = 64, CONTENTS = 256, LOG = 64 * 1024, VERIFY = 1024, HELD = 8 * 1024 * 1024, LITE = 8 };

struct umem_options umem_options = {
	.contents_bytes = CONTENTS, .verify_most = SIZE_MAX, .held_bytes = HELD, .reap_interval = 10, .thread_cache = UMEM_UNBOUNDED
};

struct umem_size_change umem_size_changes[UMEM_SIZE_CHANGES];
unsigned umem_size_changes_count;

// What a program may define; absent ones are NULL.
extern const char *_umem_debug_init(void) __attribute__((weak));
extern const char *_umem_logging_init(void) __attribute__((weak));
extern const char *_umem_options_init(void) __attribute__((weak));

// An item: name, or name=size. Where the size is left out it is `preset`; ITEM_SIZED items must have one.
struct item {
	char name[16];  // no pointers, which would be relocated at each start
	uint16_t field; // offset in umem_options; NO_FIELD: accepted, and nothing to do here
	size_t preset;
	enum { ITEM_PLAIN, ITEM_CLEAR, ITEM_SIZE, ITEM_SIZED, ITEM_ADD, ITEM_REMOVE, ITEM_POLICY, ITEM_BACKEND } form;
	size_t most;
};

#define FIELD(name) offsetof(struct umem_options, name)
#define NO_FIELD UINT16_MAX

static const struct item debug_items[] = {
	{ "guards", FIELD(guards), 1, ITEM_PLAIN, 0 },
	{ "audit", FIELD(audit_frames), FRAMES, ITEM_SIZE, MOST_FRAMES },
	{ "contents", FIELD(contents_bytes), CONTENTS, ITEM_SIZE, 4096 },
	{ "firewall", FIELD(firewall_bytes), 0, ITEM_SIZED, SIZE_MAX },
	{ "verify", FIELD(verify_every), VERIFY, ITEM_SIZE, SIZE_MAX },
	{ "maxverify", FIELD(verify_most), 0, ITEM_SIZED, SIZE_MAX },
	{ "lite", FIELD(verify_most), LITE, ITEM_PLAIN, 0 },
	{ "held", FIELD(held_bytes), 0, ITEM_SIZED, SIZE_MAX },
	{ "mtbf", FIELD(mtbf), 0, ITEM_SIZED, UINT32_MAX },
	{ "checknull", FIELD(check_null), 1, ITEM_PLAIN, 0 },
	{ "noabort", FIELD(no_abort), 1, ITEM_PLAIN, 0 },
	{ "verbose", NO_FIELD, 0, ITEM_PLAIN, 0 },
	{ "allverbose", NO_FIELD, 0, ITEM_PLAIN, 0 },
	{ "nosignal", FIELD(no_signal), 1, ITEM_PLAIN, 0 },
	{ "random", FIELD(random), 1, ITEM_PLAIN, 0 },
	{ "", NO_FIELD, 0, ITEM_PLAIN, 0 },
};

static const struct item logging_items[] = {
	{ "transaction", FIELD(log_transaction), LOG, ITEM_SIZE, SIZE_MAX },
	{ "contents", FIELD(log_contents), LOG, ITEM_SIZE, SIZE_MAX },
	{ "fail", FIELD(log_fail), LOG, ITEM_SIZE, SIZE_MAX },
	{ "slab", FIELD(log_slab), LOG, ITEM_SIZE, SIZE_MAX },
	{ "", NO_FIELD, 0, ITEM_PLAIN, 0 },
};

static const struct item option_items[] = {
	{ "concurrency", FIELD(concurrency), 0, ITEM_SIZED, 176 }, // as narenas
	{ "nomagazines", FIELD(no_magazines), 1, ITEM_PLAIN, 0 },
	{ "perthread_cache", FIELD(thread_cache), 0, ITEM_SIZED, SIZE_MAX },
	{ "reap_interval", FIELD(reap_interval), 0, ITEM_SIZED, 86400 },
	{ "backend", FIELD(sbrk), 0, ITEM_BACKEND, 0 },
	{ "allocator", FIELD(heap_policy), 0, ITEM_POLICY, 0 },
	{ "max_contention", FIELD(max_contention), 0, ITEM_SIZED, SIZE_MAX },
	{ "size_add", NO_FIELD, 0, ITEM_ADD, 0 },
	{ "size_remove", NO_FIELD, 0, ITEM_REMOVE, 0 },
	{ "size_clear", NO_FIELD, 0, ITEM_CLEAR, 0 },
	{ "sbrk_minalloc", FIELD(sbrk_least), 0, ITEM_SIZED, PTRDIFF_MAX / 2 },
	{ "sbrk_pagesize", FIELD(sbrk_page), 0, ITEM_SIZED, SIZE_MAX },
	{ "", NO_FIELD, 0, ITEM_PLAIN, 0 },
};

static void complain(const char *variable, const char *item, size_t length, const char *why)
{
	char line[256];
	struct text text = text_into(line, sizeof line);

	text_add(&text, "vmag: %s: %s: ", variable, why);
	for (size_t i = 0; i < length && i < 80; i++)
		text_add(&text, "%c", item[i]);
	text_add(&text, "\n");
	os_stderr_write(line, (size_t)(text.at - line));
}

static unsigned unit_shift(char unit)
{
	static const char units[] = "kKmMgGtT";
	const char *at = strchr(units, unit);

	return unit == '\0' || at == NULL ? 0 : (unsigned)((at - units) / 2 + 1) * 10;
}

// Digits, and perhaps a unit. False: something else, or too much.
static bool read_size(const char *value, size_t length, size_t *size)
{
	unsigned shift = length > 1 ? unit_shift(value[length - 1]) : 0;

	if (length == 0 || length > 18)
		return false;
	*size = 0;
	for (size_t i = 0; i < length - (shift > 0); i++) {
		if (value[i] < '0' || value[i] > '9')
			return false;
		*size = *size * 10 + (size_t)(value[i] - '0');
	}
	if (*size > SIZE_MAX >> shift)
		return false;
	*size <<= shift;
	return true;
}

static const struct item *find_item(const struct item *items, const char *name, size_t length)
{
	for (; items->name[0] != '\0'; items++)
		if (strlen(items->name) == length && memcmp(items->name, name, length) == 0)
			return items;
	return NULL;
}

struct word {
	char name[8];
	size_t value;
};

static const struct word policies[] = { { "instant", 0 }, { "best", 0x100 }, { "first", 0x200 }, { "next", 0x400 }, { "", 0 } };
static const struct word backends[] = { { "mmap", false }, { "sbrk", true }, { "", 0 } };

static bool read_word(const struct word *words, const char *value, size_t length, size_t *read)
{
	for (; words->name[0] != '\0'; words++)
		if (strlen(words->name) == length && memcmp(words->name, value, length) == 0) {
			*read = words->value;
			return true;
		}
	return false;
}

// NULL, or why the value was not taken.
static const char *read_value(const struct item *item, const char *value, size_t length, size_t *read)
{
	if (item->form == ITEM_POLICY) // VM_INSTANTFIT, VM_BESTFIT, VM_FIRSTFIT, VM_NEXTFIT
		return read_word(policies, value, length, read) ? NULL : "is best, first, next or instant";
	if (item->form == ITEM_BACKEND)
		return read_word(backends, value, length, read) ? NULL : "is mmap or sbrk";
	return read_size(value, length, read) ? NULL : "not a size";
}

// NULL, or why not.
static const char *note_size(const struct item *item, size_t size)
{
	if (item->form != ITEM_CLEAR && (size == 0 || size > UMEM_SIZE_MOST))
		return "not from 1 to 128K";
	if (umem_size_changes_count == UMEM_SIZE_CHANGES)
		return "too many sizes";
	umem_size_changes[umem_size_changes_count++] = (struct umem_size_change){ (uint32_t)size, item->form == ITEM_ADD };
	return NULL;
}

// NULL, or why the item was not taken.
static const char *take_item(const struct item *items, const char *text, size_t length)
{
	const char *equals = memchr(text, '=', length), *why = NULL;
	size_t name_length = equals == NULL ? length : (size_t)(equals - text);
	const struct item *item = find_item(items, text, name_length);
	size_t size = item == NULL ? 0 : item->preset;

	if (item == NULL)
		return "no such item";
	if (item->form <= ITEM_CLEAR && equals != NULL)
		return "takes no value";
	if (item->form >= ITEM_SIZED && equals == NULL)
		return "needs a value";
	if (equals != NULL)
		why = read_value(item, equals + 1, length - name_length - 1, &size);
	if (why != NULL)
		return why;
	if (item->form == ITEM_ADD || item->form == ITEM_REMOVE || item->form == ITEM_CLEAR)
		return note_size(item, size);
	if (item->field != NO_FIELD)
		*(size_t *)(void *)((char *)&umem_options + item->field) = item->most != 0 ? min_size(size, item->most) : size;
	return NULL;
}

// "default" stands for the three that the manual recommends.
static COLD const char *take_debug_item(const char *text, size_t length)
{
	const char *why;

	if (length == 7 && memcmp(text, "default", 7) == 0) {
		umem_options.audit_frames = umem_options.audit_frames != 0 ? umem_options.audit_frames : FRAMES;
		umem_options.guards = 1;
		return NULL;
	}
	why = take_item(debug_items, text, length);
	if (why == NULL)
		umem_options.guards = 1;
	if ((umem_options.no_signal || umem_options.random) && umem_options.audit_frames == 0)
		umem_options.audit_frames = FRAMES;
	return why;
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

// An item without the blanks around it, which libumem passes over.
static const char *trimmed(const char *text, size_t end, size_t *length)
{
	size_t start = 0;

	while (start < end && is_blank(text[start]))
		start++;
	while (start < end && is_blank(text[end - 1]))
		end--;
	*length = end - start;
	return text + start;
}

static COLD void read_items(const char *variable, const char *list, const struct item *items)
{
	while (*list != '\0') {
		size_t end = strcspn(list, ","), length;
		const char *item = trimmed(list, end, &length);
		const char *why = length == 0 ? NULL :
				  items == debug_items ? take_debug_item(item, length) : take_item(items, item, length);

		if (why != NULL)
			complain(variable, item, length, why);
		list += end + (list[end] == ',');
	}
}

static const char *variable_or(const char *variable, const char *(*program)(void))
{
	const char *value = environment(variable);

	if (value != NULL && *value != '\0')
		return value;
	return program != NULL ? program() : NULL;
}

static void read_variable(const char *variable, const char *(*program)(void), const struct item *items)
{
	const char *list = variable_or(variable, program);

	if (list != NULL)
		read_items(variable, list, items);
}

void umem_options_read(void)
{
	read_variable("UMEM_DEBUG", _umem_debug_init, debug_items);
	read_variable("UMEM_LOGGING", _umem_logging_init, logging_items);
	read_variable("UMEM_OPTIONS", _umem_options_init, option_items);
}
