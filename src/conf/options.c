// Options: defaults from the table, then the environment.
// SPDX-License-Identifier: BSD-2-Clause
#include "conf/options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "os/file.h"
#include "util/format.h"

extern char **environ;

struct options options = {
#define OPTION(name, type, value, least, most, meaning) .name = value,
#include "conf/options.def"
#undef OPTION
};

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

// A piece of the option string, not zero-terminated.
struct piece {
	const char *start;
	size_t length;
};

static bool piece_is(struct piece piece, const char *word)
{
	return strlen(word) == piece.length && memcmp(piece.start, word, piece.length) == 0;
}

static bool piece_number(struct piece piece, int64_t *number)
{
	size_t i = piece.length > 0 && piece.start[0] == '-';

	if (i == piece.length || piece.length > 18)
		return false;
	for (*number = 0; i < piece.length; i++) {
		if (piece.start[i] < '0' || piece.start[i] > '9')
			return false;
		*number = *number * 10 + (piece.start[i] - '0');
	}
	if (piece.start[0] == '-')
		*number = -*number;
	return true;
}

static bool piece_value(struct piece piece, int64_t *number)
{
	if (piece_is(piece, "true") || piece_is(piece, "false")) {
		*number = piece.length == 4;
		return true;
	}
	return piece_number(piece, number);
}

static void complain(const char *why, struct piece piece)
{
	char line[256];
	struct text text = text_into(line, sizeof line);

	text_add(&text, "vmag: VMAG_CONF: %s: ", why);
	for (size_t i = 0; i < piece.length && i < 80; i++)
		text_add(&text, "%c", piece.start[i]);
	text_add(&text, "\n");
	os_stderr_write(line, (size_t)(text.at - line));
}

// NULL, or why the pair was not taken.
static const char *option_set(struct piece name, struct piece value)
{
	int64_t number;

#define OPTION(option, type, preset, least, most, meaning)                                                 \
	if (piece_is(name, #option)) {                                                                     \
		if (!piece_value(value, &number) || number < (int64_t)(least) || number > (int64_t)(most)) \
			return "value not a number between " #least " and " #most " (or true, false)";     \
		options.option = (type)number;                                                             \
		return NULL;                                                                               \
	}
#include "conf/options.def"
#undef OPTION
	return "no such option";
}

static bool options_parse(const char *string)
{
	bool good = true;

	while (*string != '\0') {
		size_t length = strcspn(string, ",");
		struct piece pair = { string, length };
		const char *colon = memchr(string, ':', length);
		const char *why = "no ':' in";

		if (colon != NULL) {
			struct piece name = { string, (size_t)(colon - string) };
			struct piece value = { colon + 1, length - name.length - 1 };

			why = option_set(name, value);
		}
		if (why != NULL) {
			complain(why, pair);
			good = false;
		}
		string += length + (string[length] == ',');
	}
	return good;
}

void options_read(void)
{
	const char *string = environment("VMAG_CONF");

	if (string != NULL && !options_parse(string) && options.abort_conf)
		abort();
}
