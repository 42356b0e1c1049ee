// Options: the table at run time, and setting a value.
// SPDX-License-Identifier: BSD-2-Clause
#include "conf/options.h"

#include <string.h>

#include "util/format.h"

struct options options = {
#define OPTION(name, type, value, least, most, meaning) .name = value,
#include "conf/options.def"
};

static const struct options presets = {
#define OPTION(name, type, value, least, most, meaning) .name = value,
#include "conf/options.def"
};

#define KIND(type)                                                                                                \
	_Generic((type)0, bool: OPTION_BOOL, int: OPTION_INT, unsigned: OPTION_UNSIGNED, long: OPTION_I64,         \
		 long long: OPTION_I64, unsigned long: OPTION_U64, unsigned long long: OPTION_U64)
#define PLACE(name) .offset = offsetof(struct options, name)

const struct option option_table[] = {
#define OPTION(n, t, value, low, high, say) \
	{ #n, #t, "", (int64_t)(low), (int64_t)(high), PLACE(n), .kind = KIND(t) },
#define CLIPPED(n, t, value, low, high, say) \
	{ #n, #t, "", (int64_t)(low), (int64_t)(high), PLACE(n), .kind = KIND(t), .clipped = true },
#define WORDS(n, value, list, say) { #n, "word", list, 0, 0, PLACE(n), .kind = OPTION_WORDS },
#define RATIO(n, value, high, say) { #n, "ratio", "", 0, high, PLACE(n), .kind = OPTION_RATIO },
#define TEXT(n, value, bytes, say) { #n, "text", "", 0, (bytes) - 1, PLACE(n), .kind = OPTION_TEXT },
#include "conf/options.def"
};

const size_t option_count = sizeof option_table / sizeof option_table[0];

const char option_meanings[] =
#define OPTION(name, type, value, least, most, meaning) meaning "\0"
#include "conf/options.def"
	"";

static bool piece_is(struct piece piece, const char *word)
{
	return strlen(word) == piece.length && memcmp(piece.start, word, piece.length) == 0;
}

const struct option *option_find(const char *name, size_t length)
{
	struct piece piece = { name, length };

	for (size_t i = 0; i < option_count; i++)
		if (piece_is(piece, option_table[i].name))
			return &option_table[i];
	return NULL;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

// C's notation, as strtol has it: blanks in front, a sign, 0x or 0. What is beyond the type is the nearest that it holds.
static bool piece_number(struct piece piece, int64_t *number)
{
	const char *at = piece.start, *end = piece.start + piece.length;
	bool minus, beyond = false;
	int base = 10;
	uint64_t value = 0;

	while (at < end && is_blank(*at))
		at++;
	minus = at < end && *at == '-';
	at += at < end && (*at == '-' || *at == '+');
	if (end - at > 1 && at[0] == '0') {
		base = (at[1] | 0x20) == 'x' ? 16 : 8;
		at += base == 16 ? 2 : 1;
	}
	if (at == end)
		return false;
	for (; at < end; at++) {
		int digit = digit_of(*at);

		if (digit >= base)
			return false;
		beyond |= value > ((uint64_t)INT64_MAX - (uint64_t)digit) / (uint64_t)base;
		if (!beyond)
			value = value * (uint64_t)base + (uint64_t)digit;
	}
	*number = beyond ? INT64_MAX : (int64_t)value;
	if (minus)
		*number = -*number;
	return true;
}

// A decimal number in 1/65536, which does not end at its point; −1 is the largest of all.
static bool piece_ratio(struct piece piece, int64_t *number)
{
	struct piece whole = piece;
	const char *point = memchr(piece.start, '.', piece.length);
	int64_t part = 0, unit = 1;

	if (piece_is(piece, "-1")) {
		*number = UINT32_MAX;
		return true;
	}
	if (point != NULL)
		whole.length = (size_t)(point - piece.start);
	if (whole.length > 5 || piece.length == 0 || point == piece.start + piece.length - 1)
		return false;
	*number = 0;
	for (size_t i = 0; i < whole.length; i++) {
		if (digit_of(whole.start[i]) > 9)
			return false;
		*number = *number * 10 + digit_of(whole.start[i]);
	}
	for (const char *at = point == NULL ? piece.start + piece.length : point + 1; at < piece.start + piece.length; at++) {
		if (digit_of(*at) > 9)
			return false;
		if (unit < 1000000000) {
			part = part * 10 + digit_of(*at);
			unit *= 10;
		}
	}
	*number = (*number << 16) + (part << 16) / unit;
	return true;
}

static bool piece_bool(struct piece piece, int64_t *number)
{
	*number = piece_is(piece, "true") || piece_is(piece, "1");
	return *number != 0 || piece_is(piece, "false") || piece_is(piece, "0");
}

// The next word of a list; the list moves behind it.
static bool next_word(const char **list, struct piece *word)
{
	if (**list == '\0')
		return false;
	*word = (struct piece){ *list, strcspn(*list, "|") };
	*list += word->length + ((*list)[word->length] == '|');
	return true;
}

static bool piece_word(const char *list, struct piece piece, int64_t *number)
{
	struct piece word;

	for (*number = 0; next_word(&list, &word); ++*number)
		if (word.length == piece.length && memcmp(word.start, piece.start, word.length) == 0)
			return true;
	return false;
}

static int64_t load(const struct option *option, const void *value)
{
	switch ((enum option_kind)option->kind) {
	case OPTION_BOOL:
		return *(const bool *)value;
	case OPTION_INT:
		return *(const int *)value;
	case OPTION_UNSIGNED:
	case OPTION_WORDS:
	case OPTION_RATIO:
		return *(const unsigned *)value;
	case OPTION_I64:
	case OPTION_U64:
		return *(const int64_t *)value;
	case OPTION_TEXT:
		break;
	}
	return 0;
}

static void store(const struct option *option, int64_t number)
{
	void *value = option_value(option);

	switch ((enum option_kind)option->kind) {
	case OPTION_BOOL:
		*(bool *)value = number != 0;
		break;
	case OPTION_INT:
	case OPTION_UNSIGNED:
	case OPTION_WORDS:
	case OPTION_RATIO:
		*(unsigned *)value = (unsigned)number;
		break;
	case OPTION_I64:
	case OPTION_U64:
		*(int64_t *)value = number;
		break;
	case OPTION_TEXT:
		break;
	}
}

int64_t option_number(const struct option *option)
{
	return load(option, option_value(option));
}

static bool read_as_kind(const struct option *option, struct piece value, int64_t *number)
{
	switch ((enum option_kind)option->kind) {
	case OPTION_BOOL:
		return piece_bool(value, number);
	case OPTION_WORDS:
		return piece_word(option->words, value, number);
	case OPTION_RATIO:
		return piece_ratio(value, number);
	default:
		return piece_number(value, number);
	}
}

// Some options have "default" among their words.
static bool read_number(const struct option *option, struct piece value, int64_t *number)
{
	if (read_as_kind(option, value, number))
		return true;
	*number = load(option, (const char *)&presets + option->offset);
	return piece_is(value, "default");
}

static bool set_number(const struct option *option, struct piece value)
{
	int64_t number;

	if (!read_number(option, value, &number))
		return false;
	if (option->kind != OPTION_WORDS && (number < option->least || number > option->most)) {
		if (!option->clipped)
			return false;
		number = number < option->least ? option->least : option->most;
	}
	store(option, number);
	return true;
}

static bool set_text(const struct option *option, struct piece value)
{
	char *text = option_value(option);

	if (value.length > (size_t)option->most)
		return false;
	memcpy(text, value.start, value.length);
	text[value.length] = '\0';
	return true;
}

static bool set_lg_tcache_max(struct piece value)
{
	int64_t lg;

	if (piece_is(value, "default")) {
		options.tcache_max = presets.tcache_max;
		return true;
	}
	if (!piece_number(value, &lg))
		return false;
	options.tcache_max = (size_t)1 << (lg < 3 ? 3 : lg > 23 ? 23 : lg);
	return true;
}

enum option_result option_set(struct piece name, struct piece value)
{
	const struct option *option = option_find(name.start, name.length);
	bool taken;

	if (option == NULL && !piece_is(name, "lg_tcache_max"))
		return OPTION_UNKNOWN;
	if (option == NULL)
		taken = set_lg_tcache_max(value);
	else
		taken = option->kind == OPTION_TEXT ? set_text(option, value) : set_number(option, value);
	return taken ? OPTION_TAKEN : OPTION_BAD_VALUE;
}

const char *option_word(const struct option *option, size_t *length)
{
	const char *list = option->words;
	struct piece word = { list, 0 };

	for (int64_t i = option_number(option); i >= 0 && next_word(&list, &word); i--)
		continue;
	*length = word.length;
	return word.start;
}

// Millionths of a ratio, without the zeroes at their end.
static void print_ratio(struct text *text, uint64_t ratio)
{
	char digits[8];
	struct text part = text_into(digits, sizeof digits);

	text_add(text, "%lu", (unsigned long)(ratio >> 16));
	text_add(&part, "%06lu", (unsigned long)(((ratio & 0xffff) * 1000000 + 0x8000) >> 16));
	while (part.at > digits && part.at[-1] == '0')
		part.at--;
	for (char *at = digits; at < part.at; at++)
		text_add(text, at == digits ? ".%c" : "%c", *at);
}

void option_print(struct text *text, const struct option *option)
{
	const char *word;
	size_t length;

	switch ((enum option_kind)option->kind) {
	case OPTION_BOOL:
		text_add(text, "%s", option_number(option) ? "true" : "false");
		break;
	case OPTION_WORDS:
		word = option_word(option, &length);
		for (size_t i = 0; i < length; i++)
			text_add(text, "%c", word[i]);
		break;
	case OPTION_RATIO:
		print_ratio(text, (uint64_t)option_number(option));
		break;
	case OPTION_TEXT:
		text_add(text, "%s", (const char *)option_value(option));
		break;
	default:
		text_add(text, "%ld", (long)option_number(option));
		break;
	}
}
