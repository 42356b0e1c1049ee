/* Arenas whose memory is a file, a memory file, huge pages or that of a NUMA node: extent hooks that come with vmag.
 *
 * Each function returns an arena's number, to be used in MALLOCX_ARENA, mallctl("thread.arena") and mallctl("arena.<i>.destroy"),
 * or −1 with errno set. Memory comes in chunks of 2 MiB.
 * SPDX-License-Identifier: BSD-2-Clause
 */
#ifndef VMAG_ARENAS_H
#define VMAG_ARENAS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The file at `path`, made if need be, or the one that is open as `fd` (the arena keeps a duplicate). It grows by chunks;
 * unused pages become holes. What the program writes into objects is in the file. Children after fork share it: they may read
 * and write objects, but neither allocate nor free in this arena; they get no more of the file, give nothing of it back,
 * and destroying the arena only unmaps it in them. ENODEV: not a regular file.
 */
int vmag_arena_create_file(const char *path);
int vmag_arena_create_fd(int fd);

/* A file that exists only in memory (memfd_create), named `name` in /proc/PID/maps. */
int vmag_arena_create_memory_file(const char *name);

/* Huge pages of the system's pool (MAP_HUGETLB); when it is empty, pages that the kernel is asked to make huge. */
int vmag_arena_create_huge(void);

/* Memory of one NUMA node, by preference (`strict` 0) or from nowhere else. */
int vmag_arena_create_node(unsigned node, int strict);

/*
 * Where an address lies in the file of its arena; −1, errno EINVAL: it is in no arena of that kind. The descriptor of an
 * arena's file stays the arena's.
 */
long long vmag_arena_file_offset(const void *address);
int vmag_arena_file(unsigned arena);

#ifdef __cplusplus
}
#endif
#endif
