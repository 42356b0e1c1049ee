// The right option, or the right word, that is nearest to a mistyped one, by edit distance.
// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "conf/options.h"
#include "util/bits.h"

enum { LONGEST = 40 };

// How many characters to insert, delete or replace (Levenshtein 1966; one row of the table at a time). Beyond `most`: any number
// beyond it, for distances do not fall from row to row.
static unsigned distance(struct piece a, struct piece b, unsigned most)
{
	unsigned char row[LONGEST + 1];

	for (size_t j = 0; j <= b.length; j++)
		row[j] = (unsigned char)j;
	for (size_t i = 1; i <= a.length; i++) {
		unsigned diagonal = row[0], least = (unsigned)i;

		row[0] = (unsigned char)i;
		for (size_t j = 1; j <= b.length; j++) {
			unsigned replaced = diagonal + (a.start[i - 1] != b.start[j - 1]);
			unsigned shorter = 1u + (row[j] < row[j - 1] ? row[j] : row[j - 1]);

			diagonal = row[j];
			row[j] = (unsigned char)(replaced < shorter ? replaced : shorter);
			least = row[j] < least ? row[j] : least;
		}
		if (least > most)
			return least;
	}
	return row[b.length];
}

// The nearest so far, among what differs in at most a third of its characters and one more.
static bool look(struct piece written, struct piece candidate, unsigned *least, struct piece *nearest)
{
	size_t longer = written.length > candidate.length ? written.length - candidate.length : candidate.length - written.length;
	unsigned most = (unsigned)min_size(*least - 1, 1 + candidate.length / 3), far;

	if (written.length > LONGEST || candidate.length > LONGEST || *least == 0 || longer > most)
		return false;
	far = distance(written, candidate, most);
	if (far > most)
		return false;
	*least = far;
	*nearest = candidate;
	return true;
}

bool option_nearest(struct piece name, struct piece *nearest)
{
	unsigned least = LONGEST;
	bool found = false;

	for (size_t i = 0; i < option_count; i++)
		found |= look(name, (struct piece){ option_table[i].name, strlen(option_table[i].name) }, &least, nearest);
	return found;
}

bool option_nearest_word(const struct option *option, struct piece value, struct piece *nearest)
{
	unsigned least = LONGEST;
	bool found = false;

	for (const char *list = option->words; *list != '\0'; list += *list == '|') {
		size_t length = strcspn(list, "|");

		found |= look(value, (struct piece){ list, length }, &least, nearest);
		list += length;
	}
	return found;
}
