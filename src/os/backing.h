// Backing: memory that is a file, huge pages or a NUMA node's; mapped at addresses of our choice.
//
// Functions that return bool set errno when they return false.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// An open file: by path, to read and write, made if need be; in memory only; a duplicate. −1: errno says why.
int os_backing_open(const char *path);
int os_backing_create(const char *path); // a new file; what had the name before is removed
int os_backing_open_memory(const char *name);
int os_backing_duplicate(int file);

// Which file it is. False: none (EBADF), or not one that can be mapped and grow (ENODEV), which is told as well. The program may close a
// descriptor that it does not know, and the number may be another file's then: asked again before each use.
struct os_backing_identity {
	uint64_t device, number;
};
bool os_backing_identify(int file, struct os_backing_identity *identity);
bool os_backing_is(int file, const struct os_backing_identity *identity);

// Its size; 0 also when it cannot be told.
uint64_t os_backing_size(int file);

// Sees to it that the file has [offset, offset + size), on its device if that can be promised, so that no write to the mapping
// fails later.
bool os_backing_extend(int file, uint64_t offset, uint64_t size);

// Makes a hole that reads as zero and takes no space.
bool os_backing_punch(int file, uint64_t offset, uint64_t size);

// Maps a part of a file, shared; or huge pages of the system's pool. False: the place is taken, or there is none.
bool os_backing_map_at(void *address, size_t size, int file, uint64_t offset);
void *os_backing_map(size_t size, int file); // the beginning, wherever the kernel likes; NULL: not possible
bool os_backing_map_huge_at(void *address, size_t size);

// Children after fork do not get the mapping; touching it ends them.
void os_backing_keep_from_children(void *address, size_t size);

// Moves the end of the data segment up (sbrk), where the C library can. The old end; NULL: errno says why. Not for two threads at a
// time: the C library takes no lock.
void *os_backing_extend_break(size_t size);

// Wants the pages of a mapping from one node, by preference or strictly.
bool os_backing_bind(void *address, size_t size, unsigned node, bool strict);
