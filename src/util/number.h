// Unsigned numbers in text: as the kernel writes them in its files, and as people write addresses.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdint.h>

// The number that begins there, of digits and small letters; `*at` moves behind it. 0: none begins there.
static inline uint64_t number_take(const char **at, unsigned base)
{
	uint64_t value = 0;

	for (;; (*at)++) {
		unsigned digit = (unsigned)(**at >= 'a' ? **at - 'a' + 10 : **at <= '9' ? **at - '0' : -1);

		if (digit >= base)
			return value;
		value = value * base + digit;
	}
}
