// Small files on Linux.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/sandbox.h"
#include "os/system_call.h"
#include "util/format.h"

// By system calls (os/system_call.h), not the C library's functions: those are also points where a thread can be cancelled, in the middle of
// malloc.
static int file_open(const char *path, int flags)
{
	return (int)os_system_call(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

ssize_t os_file_read_some(int fd, char *bytes, size_t size)
{
	return os_system_call(SYS_read, fd, bytes, size);
}

void os_file_close(int fd)
{
	os_system_call(SYS_close, fd);
}

ssize_t os_file_read(const char *path, char *text, size_t size)
{
	int saved = errno, fd = file_open(path, O_RDONLY);
	size_t length = 0;
	ssize_t got;

	if (fd >= 0) {
		while (length < size - 1 && (got = os_file_read_some(fd, text + length, size - 1 - length)) > 0)
			length += (size_t)got;
		os_file_close(fd);
		text[length] = '\0';
	}
	errno = saved; // malloc asks for what may not be there
	return fd >= 0 ? (ssize_t)length : -1;
}

ssize_t os_link_read(const char *path, char *text, size_t size)
{
	int saved = errno;
	ssize_t length = os_system_call(SYS_readlinkat, AT_FDCWD, path, text, size - 1);

	errno = saved;
	if (length >= 0)
		text[length] = '\0';
	return length;
}

int os_file_open(const char *path)
{
	return file_open(path, O_RDONLY);
}

int os_file_open_own(const char *name)
{
	char path[48], link[4];

	text_print(path, sizeof path, "/proc/%s/%s", os_link_read("/proc/self/exe", link, sizeof link) > 0 ? "self" : "thread-self", name);
	return os_file_open(path);
}

ssize_t os_file_read_at(int file, void *bytes, size_t size, uint64_t offset)
{
	return os_system_call(SYS_pread64, file, bytes, size, offset);
}

int os_file_above_standard(int file)
{
	int above, failure;

	if (file < 0 || file > STDERR_FILENO)
		return file;
	above = (int)os_system_call(SYS_fcntl, file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	failure = errno;
	os_file_close(file);
	errno = failure;
	return above;
}

int os_file_create_new(const char *path)
{
	return os_file_above_standard(file_open(path, O_WRONLY | O_CREAT | O_EXCL));
}

int os_file_open_again(const char *path)
{
	return os_file_above_standard(file_open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK));
}

// These are links, which only the system can lay there.
static bool names_open_file(const char *path)
{
	return strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/", 6) == 0;
}

// A second name would be somebody's way to have a file of ours overwritten that lies elsewhere.
static bool is_ours(const struct stat *status)
{
	return S_ISCHR(status->st_mode) || (status->st_uid == (uid_t)os_system_call(SYS_geteuid) &&
					    (S_ISFIFO(status->st_mode) || (S_ISREG(status->st_mode) && status->st_nlink == 1)));
}

// Not before the file is known to be ours is it changed. To open is not to wait; to write is, as ever.
static bool make_ready(int file, bool any, bool cut)
{
	struct stat status;

	if (os_system_call(SYS_fstat, file, &status) != 0)
		return false;
	errno = EACCES;
	if (!any && !is_ours(&status))
		return false;
	if (cut && S_ISREG(status.st_mode) && os_system_call(SYS_ftruncate, file, 0) != 0)
		return false;
	return os_system_call(SYS_fcntl, file, F_SETFL, cut ? 0 : O_APPEND) == 0;
}

static int open_to_write(const char *path, bool cut)
{
	bool any = names_open_file(path);
	int append = cut ? 0 : O_APPEND, saved = errno, failure;
	int file = file_open(path, O_WRONLY | O_CREAT | O_EXCL | append);

	if (file < 0 && errno == EEXIST) {
		file = file_open(path, O_WRONLY | O_NONBLOCK | append | (any ? 0 : O_NOFOLLOW));
		if (file >= 0 && !make_ready(file, any, cut)) {
			failure = errno;
			os_file_close(file);
			errno = failure;
			return -1;
		}
	}
	if (file >= 0)
		errno = saved;
	return os_file_above_standard(file);
}

int os_file_create(const char *path)
{
	return open_to_write(path, true);
}

int os_file_add_to(const char *path)
{
	return open_to_write(path, false);
}

enum { SIGNAL_SET_BYTES = 8, LINE_MOST = 1024 };

static uint64_t set_of(int signal)
{
	return (uint64_t)1 << (signal - 1);
}

// What the program does not block is not pending. A filter may end who blocks signals, and what is to be written with it: there the program takes them as it
// does when it writes itself.
struct os_file_signals os_file_signals_hold(void)
{
	struct os_file_signals before = { 0 };
	uint64_t held = set_of(SIGXFSZ) | set_of(SIGPIPE);
	int saved = errno;

	if (atomic_load_explicit(&os_is_filtered, memory_order_relaxed) != 0) {
		before.blocked = before.pending = ~(uint64_t)0; // nothing to take back
		return before;
	}
	os_system_call(SYS_rt_sigprocmask, SIG_BLOCK, &held, &before.blocked, SIGNAL_SET_BYTES);
	if (before.blocked & held)
		os_system_call(SYS_rt_sigpending, &before.pending, SIGNAL_SET_BYTES);
	errno = saved;
	return before;
}

void os_file_signals_release(struct os_file_signals before, bool failed)
{
	static const struct timespec at_once;
	int saved = errno;
	uint64_t sent = !failed ? 0 : saved == EFBIG ? set_of(SIGXFSZ) : saved == EPIPE ? set_of(SIGPIPE) : 0;
	uint64_t held = (set_of(SIGXFSZ) | set_of(SIGPIPE)) & ~before.blocked;

	sent &= ~before.pending;
	if (sent != 0)
		os_system_call(SYS_rt_sigtimedwait, &sent, NULL, &at_once, SIGNAL_SET_BYTES);
	if (held != 0)
		os_system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, &held, NULL, SIGNAL_SET_BYTES);
	errno = saved;
}

// Offset −1: where the last one ended.
static bool write_pieces(int fd, const char *bytes, size_t length, int64_t offset)
{
	while (length > 0) {
		ssize_t written = offset < 0 ? os_system_call(SYS_write, fd, bytes, length) : os_system_call(SYS_pwrite64, fd, bytes, length, offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return false;
		bytes += written;
		length -= (size_t)written;
		offset += offset < 0 ? 0 : written;
	}
	return true;
}

static bool write_all(int fd, const char *bytes, size_t length, int64_t offset)
{
	struct os_file_signals before = os_file_signals_hold();
	bool done = write_pieces(fd, bytes, length, offset);

	os_file_signals_release(before, !done);
	return done;
}

bool os_file_write_at(int fd, const char *bytes, size_t length, uint64_t offset)
{
	return write_all(fd, bytes, length, (int64_t)offset);
}

bool os_file_write(int fd, const char *bytes, size_t length)
{
	return write_all(fd, bytes, length, -1);
}

void os_file_append(const char *path, const char *text, size_t length)
{
	int fd = file_open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW);

	if (fd < 0)
		return;
	os_file_write(fd, text, length);
	os_file_close(fd);
}

void os_file_remove(const char *path)
{
	os_system_call(SYS_unlinkat, AT_FDCWD, path, 0);
}

void os_stderr_write(const char *text, size_t length)
{
	os_file_write(STDERR_FILENO, text, length);
}

void os_stderr_say(const char *format, ...)
{
	char line[LINE_MOST + 1];
	struct text text = text_into(line, LINE_MOST);
	va_list list;

	va_start(list, format);
	text_add_list(&text, format, list);
	va_end(list);
	*text.at++ = '\n';
	os_stderr_write(line, (size_t)(text.at - line));
}
