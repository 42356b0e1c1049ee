// The call stack on Linux: frame records of x86-64 and AArch64, which are alike: the caller's record, the return address.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "util/format.h"

enum { STACK_MOST = 8 * 1024 * 1024, STEP_MOST = 1024 * 1024 };

struct record {
	uintptr_t caller; // its record
	uintptr_t address;
};

extern void *__libc_stack_end __attribute__((weak));

static struct {
	_Atomic bool known;
	uintptr_t start, end; // of this library's code; equal: it is part of the program
} own;

static int find_own_code(struct dl_phdr_info *object, size_t size, void *argument)
{
	uintptr_t here = (uintptr_t)(void *)find_own_code;

	(void)size;
	(void)argument;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		uintptr_t start = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;

		if (here - start >= object->dlpi_phdr[i].p_memsz || object->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		if (object->dlpi_name != NULL && object->dlpi_name[0] != '\0') {
			own.start = start;
			own.end = start + object->dlpi_phdr[i].p_memsz;
		}
		return 1;
	}
	return 0;
}

static bool is_own(uintptr_t address)
{
	if (!atomic_load_explicit(&own.known, memory_order_acquire)) {
		dl_iterate_phdr(find_own_code, NULL);
		atomic_store_explicit(&own.known, true, memory_order_release);
	}
	return address >= own.start && address < own.end;
}

int os_thread_number(void)
{
	return (int)syscall(SYS_gettid);
}

// The end of the stack that `here` lies on, when that can be known: the thread's control block lies above its stack, the
// first thread's stack ends where the C library says. Otherwise 0: an alternate stack, a coroutine.
static uintptr_t stack_end(uintptr_t here)
{
	static __thread uintptr_t end;

	if (end == 0 && os_thread_number() != (int)getpid())
		end = (uintptr_t)__builtin_thread_pointer();
	else if (end == 0)
		end = &__libc_stack_end != NULL ? (uintptr_t)__libc_stack_end : 1;
	return here < end && end - here < STACK_MOST ? end : 0;
}

static bool read_record(uintptr_t at, uintptr_t end, struct record *record)
{
	struct iovec to = { record, sizeof *record }, from = { (void *)at, sizeof *record };

	if (end != 0) {
		if (at > end - sizeof *record)
			return false;
		*record = *(const struct record *)at;
		return true;
	}
	return syscall(SYS_process_vm_readv, getpid(), &to, 1UL, &from, 1UL, 0UL) == (long)sizeof *record;
}

unsigned os_stack_trace(uintptr_t *frames, unsigned most)
{
	uintptr_t at = (uintptr_t)__builtin_frame_address(0), end = stack_end(at);
	struct record record;
	unsigned count = 0;

	while (count < most && read_record(at, end, &record) && record.address > 4096) {
		if (count > 0 || !is_own(record.address))
			frames[count++] = record.address;
		if (record.caller <= at || record.caller - at > STEP_MOST || record.caller % sizeof(uintptr_t) != 0)
			break;
		at = record.caller;
	}
	return count;
}

void os_stack_name(struct text *text, uintptr_t address)
{
	Dl_info info;

	// The address is that of the instruction behind the call, which may belong to the next function.
	if (dladdr((void *)(address - 1), &info) == 0 || info.dli_fname == NULL)
		text_add(text, "0x%lx", (unsigned long)address);
	else if (info.dli_sname != NULL)
		text_add(text, "%s+0x%lx (%s)", info.dli_sname, (unsigned long)(address - (uintptr_t)info.dli_saddr), info.dli_fname);
	else
		text_add(text, "%s+0x%lx", info.dli_fname, (unsigned long)(address - (uintptr_t)info.dli_fbase));
}

uintptr_t os_context_address(const void *context)
{
	const ucontext_t *at = context;

#if defined(__x86_64__)
	return (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)at->uc_mcontext.pc;
#else
	(void)at;
	return 0;
#endif
}
