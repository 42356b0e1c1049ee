// Backing on Linux: shared mappings, memfd_create, MAP_HUGETLB, mbind.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/file.h"
#include "os/system_call.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#endif

enum { READ_WRITE = PROT_READ | PROT_WRITE };
enum { NODES_MOST = 1024, BITS = sizeof(unsigned long) * 8 };
enum { POLICY_PREFERRED = 1, POLICY_BIND = 2 }; // of linux/mempolicy.h

int os_backing_open(const char *path)
{
	return os_file_above_standard((int)os_system_call(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

int os_backing_create(const char *path)
{
	os_system_call(SYS_unlinkat, AT_FDCWD, path, 0);
	return (int)os_system_call(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int os_backing_open_memory(const char *name)
{
	return os_file_above_standard((int)os_system_call(SYS_memfd_create, name, MFD_CLOEXEC));
}

int os_backing_duplicate(int file)
{
	return (int)os_system_call(SYS_fcntl, file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

bool os_backing_identify(int file, struct os_backing_identity *identity)
{
	struct stat status;

	*identity = (struct os_backing_identity){ 0 };
	if (os_system_call(SYS_fstat, file, &status) != 0)
		return false;
	*identity = (struct os_backing_identity){ status.st_dev, status.st_ino };
	if (!S_ISREG(status.st_mode))
		errno = ENODEV;
	return S_ISREG(status.st_mode);
}

bool os_backing_is(int file, const struct os_backing_identity *identity)
{
	struct os_backing_identity now;

	os_backing_identify(file, &now);
	return now.number != 0 && now.device == identity->device && now.number == identity->number;
}

uint64_t os_backing_size(int file)
{
	struct stat status;

	return os_system_call(SYS_fstat, file, &status) == 0 && status.st_size > 0 ? (uint64_t)status.st_size : 0;
}

// By the system's call: the C library's fallocate is a point where a thread can be cancelled, in the middle of malloc.
static bool extend(int file, uint64_t offset, uint64_t size)
{
	if (os_system_call(SYS_fallocate, file, 0, offset, size) == 0)
		return true;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return false;
	return os_backing_size(file) >= offset + size || ftruncate(file, (off_t)(offset + size)) == 0;
}

bool os_backing_extend(int file, uint64_t offset, uint64_t size)
{
	struct os_file_signals before = os_file_signals_hold();
	bool done = extend(file, offset, size);

	os_file_signals_release(before, !done);
	return done;
}

bool os_backing_punch(int file, uint64_t offset, uint64_t size)
{
	return os_system_call(SYS_fallocate, file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size) == 0;
}

static bool map_at(void *address, size_t size, int flags, int file, uint64_t offset)
{
	void *p = mmap(address, size, READ_WRITE, flags | MAP_FIXED_NOREPLACE, file, (off_t)offset);

	if (p != MAP_FAILED && p != address) { // kernels before 4.17
		munmap(p, size);
		errno = EEXIST;
		return false;
	}
	return p != MAP_FAILED;
}

bool os_backing_map_at(void *address, size_t size, int file, uint64_t offset)
{
	return map_at(address, size, MAP_SHARED, file, offset);
}

void *os_backing_map(size_t size, int file)
{
	void *p = mmap(NULL, size, READ_WRITE, MAP_SHARED, file, 0);

	return p == MAP_FAILED ? NULL : p;
}

void os_backing_keep_from_children(void *address, size_t size)
{
	madvise(address, size, MADV_DONTFORK);
}

bool os_backing_map_huge_at(void *address, size_t size)
{
	return map_at(address, size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
}

void *os_backing_extend_break(size_t size)
{
	void *old = size <= PTRDIFF_MAX ? sbrk((intptr_t)size) : (errno = ENOMEM, (void *)-1);

	return old == (void *)-1 ? NULL : old;
}

bool os_backing_bind(void *address, size_t size, unsigned node, bool strict)
{
	unsigned long nodes[NODES_MOST / BITS] = { 0 };

	if (node >= NODES_MOST) {
		errno = EINVAL;
		return false;
	}
	nodes[node / BITS] |= 1ul << node % BITS;
	return os_system_call(SYS_mbind, address, size, strict ? POLICY_BIND : POLICY_PREFERRED, nodes, (unsigned long)NODES_MOST + 1, 0) == 0;
}
