// Sources: extent hooks that come with the library, for arenas whose memory is a file, huge pages or a NUMA node's.
//
// A file's chunks lie in a window, a range of the heap region that is the file's alone:
//
//   window   base ─► [ chunk ][ chunk ][ … not mapped … ]          address − base + first = offset in the file
//   file     [ what was in it ] first ─► [ chunk ][ chunk ]
//
// so its contents are in the order of the addresses. The window bounds the file: an eighth of the region, or what is left.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct extent_hooks_s;

// Hooks that live until source_end. NULL: errno says why. `file`: the source's from now on, closed also when it fails.
struct extent_hooks_s *source_of_file(int file);
struct extent_hooks_s *source_of_huge_pages(void);
struct extent_hooks_s *source_of_node(unsigned node, bool strict);

// The data segment (sbrk), as UMEM_OPTIONS=backend=sbrk wants it; there is one, for ever. What it gave never goes back to the system but by
// purging. NULL: the C library has no sbrk.
struct extent_hooks_s *source_of_break(void);

// A source by its name: huge, sbrk, node=N, only_node=N, file=PATH, memory_file=NAME. NULL: there is none of that name, or it cannot be
// had; one line on stderr says so.
struct extent_hooks_s *source_of_words(const char *words);

// The heap itself comes from this source: children after fork do not get the memory of a file, which they could only destroy.
void source_of_heap(struct extent_hooks_s *hooks);

// Ends a source whose extents were all given back. Nothing when the hooks are not ours.
void source_end(struct extent_hooks_s *hooks);

// The file behind hooks, −1: not a file's.
int source_file(const struct extent_hooks_s *hooks);

// Where an address lies in the file that it is of; −1: of none.
int64_t sources_file_offset(const void *address);

void source_break_fork_prepare(void);
void source_break_fork_done(void);

void sources_fork_prepare(void);
void sources_fork_done(bool child);
