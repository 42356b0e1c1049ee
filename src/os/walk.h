// A walk that is under way, and where it meets the last one (os/stack.h). Of the walks alone.
//
//   word:  [ read by this walk │ … │ no longer as they were │ as they were, from `met` outwards │ end's mark ]
//
// What a walk reads from a frame on depends on where it is (`at`), on the frame pointer, if it is used before another one is found, and on the words
// themselves: so where all of these are as they were, it would read the same.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "os/stack.h"
#include "util/bits.h"

struct walking {
	struct os_walk *walk;
	uintptr_t frame; // from which it goes: what is below may be of a part of the stack that the program took away from itself
	uint32_t fresh; // words
	uint32_t met;   // the first of the last walk's words that may be met: it was not found that one further out has changed
	uint32_t since; // for the fresh return addresses from here on it is open whether the frame pointer matters
	bool lost;      // this walk cannot be kept
};

// A handler that interrupts this walk finds nothing kept.
static inline void walking_begin(struct walking *walking, struct os_walk *walk, uint32_t generation, uintptr_t frame)
{
	uint32_t met = walk->generation == generation ? OS_WALK_MOST - walk->count : OS_WALK_MOST;

	*walking = (struct walking){ .walk = walk, .frame = frame, .met = met };
	walk->word[OS_WALK_MOST].at = UINTPTR_MAX;
	walk->generation = generation;
	walk->count = 0;
}

static inline void walking_note(struct walking *walking, uintptr_t at, uintptr_t value)
{
	struct os_walk_word *word = &walking->walk->word[walking->fresh];

	if (UNLIKELY(walking->lost || walking->fresh == OS_WALK_MOST)) {
		walking->lost = true;
		return;
	}
	word->at = at;
	word->value = value;
	word->frame_at = WORD_OTHER;
	walking->fresh++;
	if (UNLIKELY(walking->met < walking->fresh))
		walking->met = walking->fresh;
}

// Whether what is further out than that word of the last walk is as it was. Compared outwards, each word only where those before it are as they were: this
// walk would read it next. The last walk may have been up another stack, a coroutine's, say, that is in the range and was taken away since: its words are
// not touched. No word is compared twice, for a walk that was here and found one changed meets the last one further out or nowhere.
__attribute__((no_sanitize("address"))) static inline bool walking_holds(struct walking *walking)
{
	const struct os_walk_word *word = walking->walk->word;
	uint32_t i = walking->met + 1;

	while (i < OS_WALK_MOST && word[i].at >= walking->frame && *(const uintptr_t *)word[i].at == word[i].value)
		i++;
	if (i == OS_WALK_MOST)
		return true;
	walking->met = i + 1;
	return false;
}

// The word that was noted last is a return address, as a rule at `at`. Whether the last walk was here: then what is further out need not be read.
static inline bool walking_meets(struct walking *walking, uintptr_t at, uintptr_t frame_at)
{
	struct os_walk_word *word = walking->walk->word, *own = &word[walking->fresh - 1];

	if (UNLIKELY(walking->lost))
		return false;
	own->frame_at = frame_at = own->at == at ? frame_at : WORD_FRAME_ALONE;
	while (word[walking->met].at < own->at)
		walking->met++;
	word += walking->met;
	if (word->at != own->at || word->value != own->value || word->frame_at < WORD_FRAME || frame_at < WORD_FRAME)
		return false;
	return (word->frame_at == WORD_FRAME || word->frame_at == frame_at) && walking_holds(walking);
}

// Another frame pointer was found, or there is no further frame, and the one before was not used: it does not matter.
static inline void walking_frame_unused(struct walking *walking)
{
	struct os_walk_word *word = walking->walk->word;

	for (; walking->since < walking->fresh; walking->since++)
		if (word[walking->since].frame_at > WORD_FRAME)
			word[walking->since].frame_at = WORD_FRAME;
}

static inline void walking_frame_used(struct walking *walking)
{
	walking->since = walking->fresh;
}

// What is kept: the fresh words before those of the last walk that are good still. Returns how many return addresses those are.
static inline size_t walking_end(struct walking *walking, bool met)
{
	struct os_walk *walk = walking->walk;
	uint32_t to = met ? walking->met : OS_WALK_MOST;
	uintptr_t kept = met ? walk->word[to].frames : 0, frames = kept;

	walking->fresh -= met; // which is there already
	if (!met || walk->word[to].frame_at == WORD_FRAME)
		walking_frame_unused(walking);
	for (uint32_t i = walking->fresh; i-- > 0;) {
		struct os_walk_word word = walk->word[i];

		word.frames = frames += word.frame_at != WORD_OTHER;
		walk->word[--to] = word;
	}
	walk->count = walking->lost ? 0 : OS_WALK_MOST - to;
	return kept;
}
