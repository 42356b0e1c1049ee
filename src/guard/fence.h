// Fences: the memory of a guarded buffer, with a red zone behind it or a page that must not be touched.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "guard/guarded.h"

// Gets memory and fills in address, block and fence. False: no memory.
bool fence_raise(struct guarded *record, size_t align);

// Fresh data, and what lies behind them.
void fence_paint_fresh(const struct guarded *record);
void fence_paint_end(const struct guarded *record); // this alone
// Freed data; behind the firewall they become unreachable.
void fence_paint_freed(const struct guarded *record);

// The offset of the first byte behind live data, or in freed data, that is not as it was painted; PATTERN_WHOLE: all is well.
// `*should`: what it was.
long fence_broken_live(const struct guarded *record, uint8_t *should);
long fence_broken_freed(const struct guarded *record, uint8_t *should);

// Gives the memory back.
void fence_lower(const struct guarded *record);
