// Holes of all arenas: free pages inside partial slabs go back to the system when they were not needed for a while.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

// One step of the background thread. True: a later step may find more.
bool holes_step(uint64_t now_ms);

// Gives all holes back, of one arena or of all (NULL), also those just used. Returns the bytes given.
size_t holes_give(const struct arena *arena);
