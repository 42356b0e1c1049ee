// Pages from the operating system: map, unmap, purge, move. Beside os/backing.h, os/map_count.h and os/unseen.h the only one that calls mmap and its family.
//
// All sizes and addresses are multiples of os_page_size(). No function takes a lock. What gives memory back and asks for huge pages (unmap, purge, huge) keeps
// errno, for malloc and free do so on the way to something else; of the others it is what the system call left.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The page size of the running kernel, 4 to 64 KiB; a run-time fact.
size_t os_page_size(void);

// New zeroed memory wherever the kernel likes. NULL when there is none.
void *os_pages_map(size_t size);

// The same, for what the program itself will hold: it is not noted as ours.
void *os_pages_map_for_program(size_t size);

// Whom os_pages_map asks for address space before it gives up: true, it is worth another try. It keeps errno.
void os_pages_when_short(bool (*give_back)(void));

// What os_pages_map gave and was not unmapped, for who must tell our memory from the program's: a zero start is no entry.
// Beyond OS_MAPPINGS_MOST mappings are not noted.
enum { OS_MAPPINGS_MOST = 4096 };
struct os_mapping {
	_Atomic uintptr_t start;
	_Atomic size_t size;
};
extern struct os_mapping os_mappings[OS_MAPPINGS_MOST];
extern _Atomic unsigned os_mappings_count; // entries in use lie below

// Notes a mapping that was made in another way.
void os_pages_note(void *start, size_t size);

// New zeroed memory exactly at `address`; false when the place is taken or there is no memory.
bool os_pages_map_at(void *address, size_t size);

// Read-only zero pages wherever the kernel likes: they cost neither memory nor commit charge.
void *os_pages_reserve(size_t size);

// The same exactly at `address`; false when the place is taken, does not exist, or there is no address space.
bool os_pages_reserve_at(void *address, size_t size);

// Whether the processor and the kernel know the address at all, or somebody is there, which shows the same. For the start of a process.
bool os_pages_exist(void *address);

// Makes part of a reservation writable.
bool os_pages_commit(void *address, size_t size);

// Whether they are in a core that a debugger writes, which asks the kernel what is in pages, not which are there. True at first.
void os_pages_dump(void *address, size_t size, bool wanted);

// Drops the contents and lets nobody touch the place, which stays taken. False: the kernel refused.
bool os_pages_close(void *address, size_t size);

// False: the kernel refused, as it does in the middle of a mapping when the process has all that it may have.
bool os_pages_unmap(void *address, size_t size);

// Gives the memory back and keeps the place mapped; what is read there afterwards is zero; locked pages (mlock) are locked no more.
// False when the kernel refused: a part of the contents may be gone.
bool os_pages_purge(void *address, size_t size);

// How many bytes of whole pages are resident; 0 when the system does not tell, as where there is no /proc, or in a process that gave up its privileges
// and is not to be looked into.
size_t os_pages_resident(void *address, size_t size);

// Asks for huge pages, or for none from now on, where the system leaves that to the program (THP "madvise"). Each wish may
// split a mapping: while the process has half of those that it may have, none is passed on.
void os_pages_huge(void *address, size_t size, bool wanted);

// Asks for small ones where the system gives huge ones unasked (THP "always").
void os_pages_small(void *address, size_t size);

// For a process that has all mappings that it may have: makes those of huge and of small pages one, and lets nothing split them, or what is mapped from now
// on, as long as mappings are scarce.
void os_pages_join(void *address, size_t size);

// Moves the pages of [from, from + size) to `to`, whose former pages are dropped; [from, from + size) is then mapped anew
// and zero. Pieces that the kernel refuses to move, because the program split the mapping, are copied, and all while mappings are scarce: each move makes
// one or two.
enum os_move { OS_MOVED, OS_NOT_MOVED, OS_TARGET_LOST }; // refused: of `to` nothing is to be kept; or it is not even mapped any more
enum os_move os_pages_move(void *from, void *to, size_t size);

// The machine's memory.
size_t os_memory_bytes(void);

// The bytes of address space this process may use (RLIMIT_AS), SIZE_MAX when unlimited.
size_t os_address_space_limit(void);

// The bytes of address space that it has; 0 when the kernel does not tell.
size_t os_address_space(void);

// Resident bytes of this process now, and at most so far; 0 when the kernel does not tell.
size_t os_resident_bytes(void);
size_t os_peak_resident_bytes(void);
