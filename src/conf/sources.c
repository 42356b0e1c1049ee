// Where options come from: the sources in their order, and what is said about them.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "conf/options.h"
#include "os/file.h"
#include "util/bits.h"
#include "util/format.h"

#ifndef VMAG_MALLOC_CONF
#define VMAG_MALLOC_CONF ""
#endif
#define EXPORT_WEAK EXPORT __attribute__((weak))

extern char **environ;

const char *malloc_conf EXPORT_WEAK = NULL;
const char *malloc_conf_2_conf_harder EXPORT_WEAK = NULL;
const char *_malloc_options EXPORT_WEAK = NULL;

enum { SHOWN = 80 };

const char *option_sources[OPTIONS_MOST];

// glibc's loader knows where the stack began, and so where the environment is, before the C library sets environ.
extern void *__libc_stack_end __attribute__((weak));

static char **environment_start(void)
{
	char **arguments;

	if (environ != NULL || &__libc_stack_end == NULL)
		return environ;
	arguments = (char **)__libc_stack_end + 1;
	return arguments + *(long *)__libc_stack_end + 1;
}

// Not getenv: it may be called before the C library is ready, and must not be interposed.
const char *environment(const char *name)
{
	size_t length = strlen(name);
	char **at = environment_start();

	if (getauxval(AT_SECURE) != 0 || at == NULL)
		return NULL;
	for (; *at != NULL; at++)
		if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
			return *at + length + 1;
	return NULL;
}

static char shown(char c)
{
	return c >= ' ' && c < 127 ? c : '?';
}

static void add_piece(struct text *text, struct piece piece)
{
	for (size_t i = 0; i < piece.length && i < SHOWN; i++)
		text_add(text, "%c", shown(piece.start[i]));
}

static void explain_name(struct text *text, struct piece name)
{
	struct piece nearest;

	text_add(text, "no such option");
	if (option_nearest(name, &nearest)) {
		text_add(text, "; the nearest is ");
		add_piece(text, nearest);
	}
}

static void explain_words(struct text *text, const struct option *option, struct piece value)
{
	struct piece nearest;

	text_add(text, "not one of ");
	for (const char *c = option->words; *c != '\0'; c++)
		text_add(text, *c == '|' ? ", " : "%c", *c);
	if (option_nearest_word(option, value, &nearest)) {
		text_add(text, "; the nearest is ");
		add_piece(text, nearest);
	}
}

static void explain_value(struct text *text, const struct option *option, struct piece value)
{
	if (option == NULL)
		text_add(text, "not a number");
	else if (option->kind == OPTION_BOOL)
		text_add(text, "neither true nor false");
	else if (option->kind == OPTION_WORDS)
		explain_words(text, option, value);
	else if (option->kind == OPTION_TEXT)
		text_add(text, "longer than %ld characters", (long)option->most);
	else if (option->kind == OPTION_RATIO)
		text_add(text, "not a number such as 0.5, or larger than %ld", (long)(option->most >> 16));
	else
		text_add(text, "not a number between %ld and %ld (no suffixes)", (long)option->least, (long)option->most);
}

// One line: the source, what is wrong, and what would be right.
static void complain(const char *source, struct piece pair, enum option_result result, struct piece name, struct piece value)
{
	char line[512];
	struct text text = text_into(line, sizeof line - 1);

	text_add(&text, "vmag: %s: ", source);
	add_piece(&text, pair);
	text_add(&text, ": ");
	if (name.start == NULL && pair.length == 0)
		text_add(&text, "nothing between two commas");
	else if (name.start == NULL)
		text_add(&text, "no ':' between a name and a value");
	else if (result == OPTION_UNKNOWN)
		explain_name(&text, name);
	else
		explain_value(&text, option_find(name.start, name.length), value);
	*text.at++ = '\n';
	os_stderr_write(line, (size_t)(text.at - line));
}

static void note_source(struct piece name, const char *source)
{
	const struct option *option = option_find(name.start, name.length);

	if (name.length == 13 && memcmp(name.start, "lg_tcache_max", 13) == 0)
		option = option_find("tcache_max", 10);
	if (option != NULL && (size_t)(option - option_table) < OPTIONS_MOST)
		option_sources[option - option_table] = source;
}

const char *option_source(const struct option *option)
{
	size_t number = (size_t)(option - option_table);

	return number < OPTIONS_MOST && option_sources[number] != NULL ? option_sources[number] : "default";
}

static bool take_pair(const char *source, struct piece pair)
{
	const char *colon = memchr(pair.start, ':', pair.length);
	struct piece name = { NULL, 0 }, value = { NULL, 0 };
	enum option_result result = OPTION_UNKNOWN;

	if (colon != NULL) {
		name = (struct piece){ pair.start, (size_t)(colon - pair.start) };
		value = (struct piece){ colon + 1, pair.length - name.length - 1 };
		result = option_set(name, value);
	}
	if (result == OPTION_TAKEN)
		note_source(name, source);
	else
		complain(source, pair, result, name, value);
	return result == OPTION_TAKEN;
}

bool options_take_pairs(const char *source, const char *string)
{
	bool good = true;

	while (*string != '\0') {
		size_t length = strcspn(string, ",");

		good &= take_pair(source, (struct piece){ string, length });
		string += length + (string[length] == ',');
	}
	return good;
}

static void take(const char *source, const char *pair)
{
	take_pair(source, (struct piece){ pair, strlen(pair) });
}

// Twice or half as many arenas as there would be.
static void scale_arenas(const char *source, bool more)
{
	if (options.narenas != 0)
		options.narenas = more ? (options.narenas <= 88 ? options.narenas * 2 : 176) : (options.narenas + 1) / 2;
	else if (more ? options.narenas_ratio <= 120 << 16 : options.narenas_ratio > 1)
		options.narenas_ratio = more ? options.narenas_ratio * 2 : options.narenas_ratio / 2;
	note_source((struct piece){ "narenas_ratio", 13 }, source);
}

// Letters of malloc(3) of FreeBSD 6 and 7 that switch something: upper case on, lower case off.
static const struct {
	char letter, on[20], off[21]; // without a pointer, which the loader would have to relocate
} letters[] = {
	{ 'a', "abort:true", "abort:false" },
	{ 'h', "dirty_decay_ms:0", "dirty_decay_ms:-1" }, // hint: tell the system at once which pages are not used
	{ 'j', "junk:true", "junk:false" },
	{ 'p', "stats_print:true", "stats_print:false" },
	{ 'u', "utrace:true", "utrace:false" },
	{ 'v', "zero_size_null:true", "zero_size_null:false" },
	{ 'x', "xmalloc:true", "xmalloc:false" },
	{ 'z', "zero:true", "zero:false" },
};

// Or that scale the number of arenas, the size of chunks (k), the quantum (q), or the largest class that is a multiple of it (s). False: there is none.
static bool take_letter(const char *source, char letter)
{
	bool upper = letter >= 'A' && letter <= 'Z';

	letter |= 0x20;
	if (letter == 'n')
		scale_arenas(source, upper);
	for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++)
		if (letters[i].letter == letter) {
			take(source, upper ? letters[i].on : letters[i].off);
			return true;
		}
	return letter == 'n' || letter == 'k' || letter == 'q' || letter == 's';
}

bool options_take_letters(const char *source, const char *string)
{
	bool good = true;

	for (unsigned times = 0; *string != '\0'; string++) {
		bool known = true;

		if (*string >= '0' && *string <= '9') { // how often the next letter counts
			times = times * 10 + (unsigned)(*string - '0');
			times = times > 64 ? 64 : times;
			continue;
		}
		for (times = times == 0 ? 1 : times; times > 0; times--)
			known = take_letter(source, *string);
		good &= known;
		if (!known)
			os_stderr_say("vmag: %s: %c: no such letter; there are A H J K N P Q S U V X Z, and the same in lower case", source, shown(*string));
	}
	return good;
}

struct source {
	const char *name;
	const char *string; // NULL: not there
	bool letters;
};

enum { SOURCES = 9 };

static struct source sources[SOURCES]; // as they were at the start: the program may change its environment, and the link be another

// Also in its place, as who writes a title for ps does.
static COLD __attribute__((noinline)) void keep(struct source *source)
{
	static char texts[SOURCES * 512];
	static size_t used;
	size_t length = strnlen(source->string, sizeof texts - used);

	if (used + length >= sizeof texts)
		return;
	memcpy(&texts[used], source->string, length);
	source->string = &texts[used];
	used += length + 1;
}

static void find_sources(void)
{
	static char link_text[1024];
	const char *link = os_link_read("/etc/malloc.conf", link_text, sizeof link_text) > 0 ? link_text : NULL;
	bool link_has_pairs = link != NULL && strchr(link, ':') != NULL;
	const struct source all[SOURCES] = {
		{ "the build", sizeof VMAG_MALLOC_CONF > 1 ? VMAG_MALLOC_CONF : NULL, false },
		{ "/etc/malloc.conf", link_has_pairs ? NULL : link, true },
		{ "MALLOC_OPTIONS", environment("MALLOC_OPTIONS"), true },
		{ "_malloc_options", _malloc_options, true },
		{ "malloc_conf", malloc_conf, false },
		{ "/etc/malloc.conf", link_has_pairs ? link : NULL, false },
		{ "MALLOC_CONF", environment("MALLOC_CONF"), false },
		{ "malloc_conf_2_conf_harder", malloc_conf_2_conf_harder, false },
		{ "VMAG_CONF", environment("VMAG_CONF"), false },
	};

	memcpy(sources, all, sizeof all);
}

const char *options_source(unsigned place)
{
	return sources[place].string;
}

// Every setting that a source made, as it is now.
static COLD void confirm_settings(void)
{
	for (size_t i = 0; i < option_count; i++) {
		char line[512];
		struct text text = text_into(line, sizeof line - 1);

		if (option_sources[i] == NULL)
			continue;
		text_add(&text, "vmag: option %s:", option_table[i].name);
		option_print(&text, &option_table[i]);
		text_add(&text, " of %s", option_sources[i]);
		*text.at++ = '\n';
		os_stderr_write(line, (size_t)(text.at - line));
	}
}

static __attribute__((noinline)) void confirm(void)
{
	for (int i = 0; i < SOURCES; i++)
		os_stderr_say("vmag: options of %s: %s", sources[i].name, sources[i].string == NULL ? "none" : sources[i].string);
	confirm_settings();
}

void options_read(void)
{
	bool good = true;

	find_sources();
	for (int i = 0; i < SOURCES; i++) {
		struct source *source = &sources[i];

		if (source->string == NULL)
			continue;
		good &= source->letters ? options_take_letters(source->name, source->string) : options_take_pairs(source->name, source->string);
		keep(source);
	}
	if (options.confirm_conf)
		confirm();
	if (!good && options.abort_conf)
		abort();
}

static void add_limits(struct text *text, const struct option *option)
{
	if (option->kind == OPTION_TEXT)
		text_add(text, "at most %ld characters", (long)option->most);
	else if (option->kind == OPTION_RATIO)
		text_add(text, "0 to %ld", (long)(option->most >> 16));
	else if (option->kind == OPTION_WORDS)
		for (const char *c = option->words; *c != '\0'; c++)
			text_add(text, *c == '|' ? ", " : "%c", *c);
	else if (option->kind != OPTION_BOOL && option->most == INT64_MAX)
		text_add(text, "from %ld%s", (long)option->least, option->clipped ? ", clipped" : "");
	else if (option->kind != OPTION_BOOL)
		text_add(text, "%ld to %ld%s", (long)option->least, (long)option->most, option->clipped ? ", clipped" : "");
}

void options_print(void (*put)(void *argument, const char *line), void *argument)
{
	const char *meaning = option_meanings;

	for (size_t i = 0; i < option_count; i++, meaning += strlen(meaning) + 1) {
		const struct option *option = &option_table[i];
		char line[1024];
		struct text text = text_into(line, sizeof line - 2);

		text_add(&text, "%s\t%s\t", option->name, option->type);
		option_print(&text, option);
		text_add(&text, "\t%s\t", option_source(option));
		add_limits(&text, option);
		text_add(&text, "\t%s", meaning);
		*text.at++ = '\n';
		*text.at = '\0';
		put(argument, line);
	}
}
