// Assertions in three tiers: ALWAYS (kept in every build), ASSERT (debug builds) and x_check() walks (debug builds, tests).
// A failed assertion is a bug of vmag itself, never of the program; the program's mistakes go to guard/report.h.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

#ifdef VMAG_DEBUG
static const bool config_debug = true;
#else
static const bool config_debug = false;
#endif

_Noreturn void assertion_failed(const char *what, const char *file, int line);

#define ALWAYS(condition)                                                   \
	do {                                                                \
		if (__builtin_expect(!(condition), 0))                      \
			assertion_failed(#condition, __FILE__, __LINE__);   \
	} while (0)

#define ASSERT(condition)                                                   \
	do {                                                                \
		if (config_debug)                                           \
			ALWAYS(condition);                                  \
	} while (0)
