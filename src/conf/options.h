// Options of the process: read once at first use; few change afterwards, by controls.
//
// Sources, the later ones win: the string given to the build; the letters of 2006 (the link text of /etc/malloc.conf when it
// has no ':', MALLOC_OPTIONS, _malloc_options); malloc_conf of the program; the link text of /etc/malloc.conf; MALLOC_CONF;
// malloc_conf_2_conf_harder of the program; VMAG_CONF. But for the letters each is "name:value,name:value". A bad name or
// value is told in one line and skipped. Programs that run with raised privileges (setuid, file capabilities) ignore the
// environment.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct options {
#define OPTION(name, type, value, least, most, meaning) type name;
#define TEXT(name, value, bytes, meaning) char name[bytes];
#include "conf/options.def"
};

extern struct options options;

// The numbers of words that the code asks for.
enum { JUNK_NEVER, JUNK_ALLOC, JUNK_FREE, JUNK_BOTH };
enum { THP_NEVER, THP_DEFAULT, THP_ALWAYS };
enum { FRONT_THREAD, FRONT_CPU };
enum { ZERO_REALLOC_ALLOC, ZERO_REALLOC_FREE, ZERO_REALLOC_ABORT };

// Set by the program, NULL otherwise: jemalloc's two strings of pairs, and FreeBSD's letters.
extern const char *malloc_conf;
extern const char *malloc_conf_2_conf_harder;
extern const char *_malloc_options;

// Called once, before a second thread can exist in the library. Does not allocate.
void options_read(void);

// What a row of the table says, for parsing, printing and controls.
enum option_kind { OPTION_BOOL, OPTION_INT, OPTION_UNSIGNED, OPTION_I64, OPTION_U64, OPTION_WORDS, OPTION_RATIO, OPTION_TEXT };

// Without pointers: each would cost every process a relocation in memory of its own.
struct option {
	char name[48];
	char type[16];     // as written in the table
	char words[64];    // of OPTION_WORDS, separated by '|'
	int64_t least, most; // of numbers; most + 1: bytes of OPTION_TEXT
	uint16_t offset;     // in struct options
	uint8_t kind;
	bool clipped;
};

enum { OPTIONS_MOST = 256 };

// Rows in the order of the table.
extern const struct option option_table[];
extern const size_t option_count;
extern const char option_meanings[]; // of all rows, one string behind the other

// NULL: no such option.
const struct option *option_find(const char *name, size_t length);

static inline void *option_value(const struct option *option)
{
	return (char *)&options + option->offset;
}

// The number of an option that is no text, and the word of one that is OPTION_WORDS, with its length.
int64_t option_number(const struct option *option);
const char *option_word(const struct option *option, size_t *length);

// A piece of an option string, not zero-terminated.
struct piece {
	const char *start;
	size_t length;
};

enum option_result { OPTION_TAKEN, OPTION_BAD_VALUE, OPTION_UNKNOWN };

// Sets an option. Names beyond the table: lg_tcache_max.
enum option_result option_set(struct piece name, struct piece value);

// The right name, or word of a name's values, that is nearest to what was written; false: nothing is near.
bool option_nearest(struct piece name, struct piece *nearest);
bool option_nearest_word(const struct option *option, struct piece value, struct piece *nearest);

struct text;

// The value as it is written in an option string.
void option_print(struct text *text, const struct option *option);

// A source of options; `name` is told in complaints. False: something was not understood.
bool options_take_pairs(const char *source, const char *string);
bool options_take_letters(const char *source, const char *string);

// The string of a source by its place in the order of reading (sources.c); NULL: it is not there.
const char *options_source(unsigned place);

// Where an option's value comes from; "default" when no source named it.
const char *option_source(const struct option *option);

// The same by the number of the option, NULL: no source named it; for readers in other processes.
extern const char *option_sources[OPTIONS_MOST];

// The variable of a process that is there to print the table (api/program.c).
#define OPTIONS_ON_STDIN "VMAG_OPTIONS_ON_STDIN"

// The table: a line of tab-separated fields for each option: name, type, value, source, limits, meaning.
void options_print(void (*put)(void *argument, const char *line), void *argument);

// The value of an environment variable, NULL when unset or when the process runs with raised privileges.
const char *environment(const char *name);
