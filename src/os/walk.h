// A walk that is under way, and where it meets the last one (os/stack.h). Of the walks alone.
//
//   word:  [ read by this walk │ … │ no longer as they were │ as they were, from `met` outwards │ end's mark ]
//                               ↑ fresh
//
// What a walk reads from a frame on depends on where it is (`at`), on the frame pointer, if it is used before another one is found, and on the words
// themselves: so where all of these are as they were, it would read the same.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "os/stack.h"
#include "util/bits.h"

struct walking {
	struct os_walk *walk;
	uintptr_t frame; // from which it goes: what is below may be of a part of the stack that the program took away from itself
	struct os_walk_word *fresh; // behind what it read
	struct os_walk_word *full;  // where that may go on only if words of the last walk are given up
	struct os_walk_word *met;   // the first of the last walk's words that may be met: it was not found that one further out has changed
	struct os_walk_word *since; // for the fresh return addresses from here on it is open whether the frame pointer matters
	bool lost;                  // this walk cannot be kept
};

// A handler that interrupts this walk finds nothing kept.
static inline void walking_begin(struct walking *walking, struct os_walk *walk, uint32_t generation, uintptr_t frame)
{
	walking->walk = walk;
	walking->frame = frame;
	walking->fresh = walking->since = walk->word;
	walking->met = walking->full = &walk->word[walk->generation == generation && walk->taken == walk->begun ? OS_WALK_MOST - walk->count : OS_WALK_MOST];
	walking->lost = false;
	walk->word[OS_WALK_MOST].at = UINTPTR_MAX;
	walk->generation = generation;
	walk->count = 0;
	walk->begun++;
	atomic_signal_fence(memory_order_seq_cst);
}

// Of the last walk's words those are given up that this one has come to. False: this walk is too long.
static __attribute__((noinline)) bool walking_make_room(struct walking *walking)
{
	walking->lost |= walking->fresh == &walking->walk->word[OS_WALK_MOST];
	if (walking->met == walking->fresh && !walking->lost)
		walking->met++;
	walking->full = walking->met;
	return !walking->lost;
}

static inline void walking_note(struct walking *walking, uintptr_t at, uintptr_t value)
{
	struct os_walk_word *word = walking->fresh;

	if (UNLIKELY(word == walking->full) && !walking_make_room(walking))
		return;
	word->at = at;
	word->value = value;
	word->frame_at = WORD_OTHER;
	walking->fresh = word + 1;
}

// Whether what is further out than that word of the last walk is as it was. Compared outwards, each word only where those before it are as they were: this
// walk would read it next. The last walk may have been up another stack, a coroutine's, say, that is in the range and was taken away since: its words are
// not touched. No word is compared twice, for a walk that was here and found one changed meets the last one further out or nowhere.
__attribute__((no_sanitize("address"))) static inline bool walking_holds(struct walking *walking)
{
	const struct os_walk_word *end = &walking->walk->word[OS_WALK_MOST];
	struct os_walk_word *word = walking->met + 1;
	uintptr_t frame = walking->frame;

	while ((intptr_t)(word->at - frame) >= 0 && *(const uintptr_t *)word->at == word->value) // the end's mark is none above the frame
		word++;
	if (word == end)
		return true;
	walking->met = word + 1;
	return false;
}

// The word that was noted last is a return address, as a rule at `at`. Whether the last walk was here: then what is further out need not be read.
static inline bool walking_meets(struct walking *walking, uintptr_t at, uintptr_t frame_at)
{
	struct os_walk_word *word = walking->met, *own = walking->fresh - 1;

	if (UNLIKELY(walking->lost))
		return false;
	own->frame_at = frame_at = own->at == at ? frame_at : WORD_FRAME_ALONE;
	while (word->at < own->at)
		word++;
	walking->met = word;
	if (word->at != own->at || word->value != own->value || frame_at < WORD_FRAME)
		return false;
	return (word->frame_at == WORD_FRAME || word->frame_at == frame_at) && walking_holds(walking);
}

// Another frame pointer was found, or there is no further frame, and the one before was not used: it does not matter.
static inline void walking_frame_unused(struct walking *walking)
{
	struct os_walk_word *word = walking->since, *end = walking->fresh;

	for (; word < end; word++)
		if (word->frame_at > WORD_FRAME)
			word->frame_at = WORD_FRAME;
	walking->since = end;
}

static inline void walking_frame_used(struct walking *walking)
{
	walking->since = walking->fresh;
}

// What is kept: the fresh words before those of the last walk that are good still. Returns how many return addresses those are.
static inline size_t walking_end(struct walking *walking, bool met)
{
	struct os_walk *walk = walking->walk;
	struct os_walk_word *end = &walk->word[OS_WALK_MOST], *to = met ? walking->met : end, *word;
	uintptr_t kept = met ? to->frames : 0, frames = kept;

	walking->fresh -= met; // which is there already
	if (!met || to->frame_at == WORD_FRAME)
		walking_frame_unused(walking);
	for (word = walking->fresh; word-- > walk->word;) {
		*--to = *word;
		to->frames = frames += word->frame_at != WORD_OTHER;
	}
	walk->count = walking->lost ? 0 : (uint32_t)(end - to);
	return kept;
}
