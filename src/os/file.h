// Small files read and lines written whole, without stdio and without allocation.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Reads up to size - 1 bytes and ends them with a zero; the number read, or −1. errno stays.
ssize_t os_file_read(const char *path, char *text, size_t size);

// The text of a symbolic link, ended with a zero and cut to size - 1 bytes; its length, or −1, and nothing written: there is no such link.
ssize_t os_link_read(const char *path, char *text, size_t size);

// A file open for reading, −1 when there is none; and a part of it: the number of bytes read, 0 at its end, or −1.
int os_file_open(const char *path);
int os_file_open_own(const char *name); // of the process, in /proc: by the thread's name where the process's is empty, its first thread having ended
ssize_t os_file_read_at(int file, void *bytes, size_t size, uint64_t offset);
ssize_t os_file_read_some(int file, char *bytes, size_t size); // from where the last one ended
void os_file_close(int file);

// Adds bytes at the end of a file by one write, creating it when it is missing (mode 0600).
void os_file_append(const char *path, const char *text, size_t length);

// The same file by a descriptor beyond those of standard input, output and error, for one that stays open: where the program has closed these, they are
// not to lead into a file of ours. −1, as it was given or when there is none: errno says why.
int os_file_above_standard(int file);

// A file to write (mode 0600); −1: errno says why.
int os_file_create_new(const char *path); // EEXIST: there is one already
int os_file_open_again(const char *path); // one that there is; no link is followed, and no reader of a pipe waited for

// As well; what is there already is cut, or added to. In a folder of all users somebody may have laid there what leads elsewhere, keeps us waiting, or
// stays open to others: no link is followed (ELOOP) and no reader of a pipe waited for (ENXIO); what is no device must be a file of one name or a pipe, and
// of the user that the process is (EACCES). But for names of open files: /dev/stderr, /dev/fd/3, /proc/self/fd/3.
int os_file_create(const char *path);
int os_file_add_to(const char *path);

// Writes all; false: errno says why.
bool os_file_write_at(int file, const char *bytes, size_t length, uint64_t offset);
bool os_file_write(int file, const char *bytes, size_t length);

void os_file_remove(const char *path);

// Around calls that write to a file or make it longer. At the process's limit of a file's size (RLIMIT_FSIZE), and where nobody reads a pipe any more, the
// kernel sends a signal that ends the program: it is blocked meanwhile, and taken back when the call failed so, with EFBIG or EPIPE, and that is all. One
// that the program has pending stays. errno stays. Where a filter of system calls was set up (os/sandbox.h) they are not blocked.
struct os_file_signals {
	uint64_t blocked, pending; // before
};
struct os_file_signals os_file_signals_hold(void);
void os_file_signals_release(struct os_file_signals before, bool failed);

// Writes all bytes to stderr; gives up at an error.
void os_stderr_write(const char *text, size_t length);

// One line, as text_add, at most 1 KiB of it; its end is put behind it.
__attribute__((format(printf, 1, 2))) void os_stderr_say(const char *format, ...);
