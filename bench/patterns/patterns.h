// The values of `variant` in the pattern table, by pattern.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef BENCH_PATTERNS_H
#define BENCH_PATTERNS_H

// batch.c: the order in which a batch is freed.
enum order { order_first_first, order_last_first, order_random };

// replace.c: what a replacement does.
enum replacement {
    replace_plain,   // free without looking
    replace_using,   // read and write the object before freeing it
    replace_zeroed,  // calloc, and check that it is zero
    replace_log_size // sizes in equal shares for each doubling
};

// grow.c: the factor by which the one big vector grows, in halves.
enum growth { grow_half = 3, grow_double = 4 };

// lines.c: whether the threads begin with objects that one thread allocated side by side.
enum neighbours { neighbours_by_chance, neighbours_given };

// keep.c: which objects survive.
enum survivors { survivors_clustered, survivors_random };

#endif
