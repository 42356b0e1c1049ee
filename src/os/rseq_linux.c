// Restartable sequences on Linux: finding glibc's area, the test of it, the fence.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/rseq.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/file.h"
#include "os/sandbox.h"
#include "os/system_call.h"
#include "os/unseen.h"

enum { AREA_BYTES = 20 }; // at least, of the kernel's first interface

// membarrier(2).
enum { QUERY = 0, PRIVATE_EXPEDITED_RSEQ = 1 << 7, REGISTER_PRIVATE_EXPEDITED_RSEQ = 1 << 8 };

enum { NUMBERS_MOST = 8192, LOOKS = 16 };
enum { FEATURE_SIZE = 27 }; // AT_RSEQ_FEATURE_SIZE, since Linux 6.3

ptrdiff_t os_rseq_area;

// glibc's, since 2.35; nobody else's.
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

static bool find_area(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
	if (&__rseq_offset == NULL || &__rseq_size == NULL || __rseq_size < AREA_BYTES)
		return false;
	os_rseq_area = __rseq_offset;
	return true;
#else
	return false;
#endif
}

// The kernel says the same as the area. The thread may be moved between the two questions.
static bool number_is_true(void)
{
	for (int look = 0; look < LOOKS; look++) {
		unsigned cpu = UINT32_MAX;

		if (os_system_call(SYS_getcpu, &cpu, NULL, NULL) == 0 && cpu == (unsigned)rseq_number())
			return true;
	}
	return false;
}

// Where the kernel reads rseq_cs when it puts the thread on a processor again, it clears it: the thread is not inside. By
// sleeping, since nothing else surely takes it off. From 6.19 on it reads only after an interrupt, as no sequence makes a system call; but
// a kernel that tells programs of the area's features is no emulator that accepts the registration and does nothing.
static bool kernel_reads_descriptors(void)
{
	static void **nothing[2] = { NULL, (void **)nothing };
	static void *const empty[2] = { NULL, (void *)UINTPTR_MAX };
	struct timespec moment = { 0, 1 };
	void **old;

	if (getauxval(FEATURE_SIZE) != 0)
		return true;
	nothing[1] = (void **)(uintptr_t)&empty[1];
	rseq_exchange(rseq_number(), &nothing[1], nothing[1], &old);
	for (int look = 0; look < LOOKS; look++) {
		os_system_call(SYS_nanosleep, &moment, NULL);
		if (*(volatile uint64_t *)rseq_field(os_rseq_area + RSEQ_CS) == 0)
			return true;
	}
	return false;
}

// As the linker left them, descriptors tell start and abort by their distance from themselves: addresses would be written into each
// process when it is loaded, and few use sequences. They lie in a section of our name, for in __rseq_cs of a static program other people's
// lie, which are complete.
struct descriptor {
	uint32_t version, flags;
	uint64_t start, length, abort;
} __attribute__((aligned(32)));

extern struct descriptor __start_vmag_rseq_cs[] HIDDEN, __stop_vmag_rseq_cs[] HIDDEN; // named by the linker

void os_rseq_complete(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
	for (struct descriptor *descriptor = __start_vmag_rseq_cs; descriptor < __stop_vmag_rseq_cs; descriptor++) {
		descriptor->start += (uintptr_t)descriptor;
		descriptor->abort += (uintptr_t)descriptor;
	}
#endif
}

static bool can_fence(void)
{
	long commands = os_system_call(SYS_membarrier, QUERY, 0, 0);

	return commands >= 0 && (commands & PRIVATE_EXPEDITED_RSEQ) != 0 &&
	       os_system_call(SYS_membarrier, REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0 && os_rseq_fence();
}

bool os_rseq_init(void)
{
	int saved = errno;
	bool good = find_area() && number_is_true() && can_fence();

	if (good) {
		os_rseq_complete();
		good = kernel_reads_descriptors();
	}
	errno = saved;
	return good;
}

bool os_rseq_may_fence(void)
{
	return !os_is_shut_in() || os_process_is_single();
}

// A thread that is the only one is not inside of a sequence.
bool os_rseq_fence(void)
{
	int saved = errno;
	bool done = os_is_shut_in() ? os_process_is_single() : os_system_call(SYS_membarrier, PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0;

	errno = saved;
	return done;
}

// The last number of a list such as "0-3,8-11".
unsigned os_rseq_numbers(void)
{
	char text[256];
	ssize_t length = os_file_read("/sys/devices/system/cpu/possible", text, sizeof text);
	unsigned last = 0;

	if (length <= 0 || length == sizeof text - 1)
		return NUMBERS_MOST;
	for (const char *at = text; *at != '\0'; at++)
		if (*at >= '0' && *at <= '9')
			last = last * 10 + (unsigned)(*at - '0');
		else if (at[0] != '\n')
			last = 0;
	return last < NUMBERS_MOST ? last + 1 : NUMBERS_MOST;
}
