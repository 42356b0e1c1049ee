// Rules of frames (os/frame_rule.h) that were found, by address, and walks by them.
//
// One table for all threads, without a lock: two words a place, the rule and the rule mixed with what it belongs to, so that a place that
// two threads write at once belongs to nothing. A rule is of a generation of modules; whose code was unloaded is not known any more.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "os/stack.h"

enum { LG_RULE_LINES = 12, LG_RULES_A_LINE = 2, RULES_A_LINE = 1 << LG_RULES_A_LINE };

// All zero at first. A rule is in any place of its line.
struct os_rules {
	struct os_rule_line {
		struct {
			_Atomic uint64_t rule, check;
		} place[RULES_A_LINE];
	} line[1 << LG_RULE_LINES];
};

// As os_stack_walk. Changes errno.
size_t os_rules_walk(struct os_rules *rules, uintptr_t *frames, size_t depth, uintptr_t frame, struct os_stack_range *range, struct os_walk *walk,
		     size_t *kept);
