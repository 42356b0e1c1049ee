// A thread that the C library does not know of, on Linux.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/unseen.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "os/clock.h"
#include "os/system_call.h"
#include "os/thread.h"
#include "util/bits.h"

// Stack and thread-local memory are one mapping, kept for the next one: a thread cannot take down what it runs on.
//
//   memory: [ guard ][ stack … ][ thread-local: before … | thread pointer | … behind ]
enum {
	GUARD_BYTES = 64 * 1024, // a page at least
	STACK_BYTES = 256 * 1024,
	BLOCK_BYTES = 4096, // what the C library's own block of a thread may have, before or behind the thread pointer
	MOST_BYTES = 1024 * 1024,
	ABORT_BEGIN_MS = 1000, // until a handler for SIGABRT begins
	ABORT_MS = 30000,      // and has told of it
	WAIT_MS = 1,           // between two looks at the latest
};

static struct {
	ptrdiff_t block;             // this library's, from the thread pointer
	const void *image;           // what it begins with; NULL: nothing is known
	size_t image_bytes, before, behind;
	char *memory;
	_Atomic uint32_t number;     // of the thread; the kernel clears it when it has ended
	_Atomic uint32_t last;       // the same, until it is known to be none of the process's any more
	void (*body)(void);
} unseen;

extern char __libc_single_threaded __attribute__((weak)); // glibc from 2.32

bool os_process_is_single(void)
{
	return &__libc_single_threaded != NULL && __libc_single_threaded != 0;
}

#if defined(__x86_64__)

static char *thread_pointer(void)
{
	char *pointer;

	__asm__("mov %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

// The ABI's: the pointer to itself, also as glibc's pthread_self, and the stack protector's word.
static void fill_block(char *pointer, const char *own)
{
	uint64_t itself = (uintptr_t)pointer;

	memcpy(pointer, &itself, sizeof itself);
	memcpy(pointer + 16, &itself, sizeof itself);
	memcpy(pointer + 40, own + 40, 2 * sizeof itself);
}

// The child goes on behind the call with the same registers but the stack's, and never comes back from here.
static long enter(unsigned long flags, char *stack, char *pointer, void (*body)(void))
{
	register _Atomic uint32_t *cleared __asm__("r10") = &unseen.number;
	register char *local __asm__("r8") = pointer;
	register void (*function)(void) __asm__("r9") = body;
	long answer;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "call *%%r9\n\t"
			 "mov %[exit], %%eax\n\t"
			 "xor %%edi, %%edi\n\t"
			 "syscall\n\t"
			 "1:"
			 : "=a"(answer)
			 : "a"((long)SYS_clone), "D"(flags), "S"(stack), "d"(&unseen.number), "r"(cleared), "r"(local), "r"(function), [exit] "i"(SYS_exit)
			 : "rcx", "r11", "memory");
	return answer;
}

#elif defined(__aarch64__)

static char *thread_pointer(void)
{
	char *pointer;

	__asm__("mrs %0, tpidr_el0" : "=r"(pointer));
	return pointer;
}

static void fill_block(char *pointer, const char *own)
{
	(void)pointer, (void)own;
}

static long enter(unsigned long flags, char *stack, char *pointer, void (*body)(void))
{
	register long call __asm__("x8") = SYS_clone;
	register unsigned long first __asm__("x0") = flags;
	register char *second __asm__("x1") = stack;
	register _Atomic uint32_t *third __asm__("x2") = &unseen.number;
	register char *fourth __asm__("x3") = pointer;
	register _Atomic uint32_t *fifth __asm__("x4") = &unseen.number;
	register void (*function)(void) __asm__("x9") = body;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, #0\n\t"
			 "mov x30, #0\n\t"
			 "blr x9\n\t"
			 "mov x0, #0\n\t"
			 "mov x8, %[exit]\n\t"
			 "svc 0\n\t"
			 "1:"
			 : "+r"(first)
			 : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(function), [exit] "i"(SYS_exit)
			 : "memory", "cc");
	return (long)first;
}

#else

static char *thread_pointer(void)
{
	return NULL;
}

static void fill_block(char *pointer, const char *own)
{
	(void)pointer, (void)own;
}

static long enter(unsigned long flags, char *stack, char *pointer, void (*body)(void))
{
	(void)flags, (void)stack, (void)pointer, (void)body;
	return -ENOSYS;
}

#endif

void os_unseen_learn(void *block, const void *image, size_t image_bytes, size_t bytes)
{
	char *pointer = thread_pointer();
	ptrdiff_t local_errno = (char *)&errno - pointer, start, end;

	if (pointer == NULL || unseen.memory != NULL)
		return;
	unseen.block = (char *)block - pointer;
	start = unseen.block < local_errno ? unseen.block : local_errno;
	end = unseen.block + (ptrdiff_t)bytes > local_errno ? unseen.block + (ptrdiff_t)bytes : local_errno + (ptrdiff_t)sizeof errno;
	unseen.before = round_up((size_t)(start < -BLOCK_BYTES ? -start : BLOCK_BYTES), BLOCK_BYTES);
	unseen.behind = round_up((size_t)(end > BLOCK_BYTES ? end : BLOCK_BYTES), BLOCK_BYTES);
	unseen.image_bytes = image_bytes;
	unseen.image = unseen.before + unseen.behind <= MOST_BYTES ? image : NULL;
}

// Its thread-local part all zero.
static bool map(void)
{
	size_t bytes = GUARD_BYTES + STACK_BYTES + unseen.before + unseen.behind;
	long address;

	if (unseen.memory != NULL) {
		memset(unseen.memory + GUARD_BYTES + STACK_BYTES, 0, unseen.before + unseen.behind);
		return true;
	}
	address = os_system_call(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (address == -1)
		return false;
	if (os_system_call(SYS_mprotect, address, (size_t)GUARD_BYTES, PROT_NONE) != 0) {
		os_system_call(SYS_munmap, address, bytes);
		return false;
	}
	unseen.memory = (char *)address;
	return true;
}

static void run(void)
{
	unseen.body();
}

// The kernel notes the number before the call returns, so that whoever waits sees it.
bool os_unseen_start(void (*body)(void))
{
	const unsigned long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
				    CLONE_CHILD_CLEARTID;
	uint64_t all = UINT64_MAX, before;
	char *stack, *pointer;
	long answer;

	if (unseen.image == NULL || atomic_load(&unseen.number) != 0 || !map())
		return false;
	stack = unseen.memory + GUARD_BYTES + STACK_BYTES;
	pointer = stack + unseen.before;
	memcpy(pointer + unseen.block, unseen.image, unseen.image_bytes);
	fill_block(pointer, thread_pointer());
	unseen.body = body;
	os_system_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
	answer = enter(flags, stack, pointer, run);
	os_system_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof all);
	if (answer < 0)
		errno = (int)-answer;
	else
		atomic_store(&unseen.last, (uint32_t)answer);
	return answer > 0;
}

// The kernel wakes who waits as if the memory were shared.
static void wait_for_kernel(uint32_t number)
{
	struct timespec most = { 0, (long)WAIT_MS * 1000000 };
	int saved = errno;

	os_system_call(SYS_futex, &unseen.number, FUTEX_WAIT, number, &most, NULL, 0);
	errno = saved;
}

// The number is cleared a moment before the thread is none of the process's any more, as who makes a user namespace has to have it; and nobody finds it any more
// while the kernel still takes it off its lists, which whoever asks for a priority of a group of processes waits for.
bool os_unseen_wait(uint64_t most_ms)
{
	uint64_t end = os_clock_ms() + most_ms;
	uint32_t number, last = atomic_load(&unseen.last);

	while ((number = atomic_load(&unseen.number)) != 0 && os_clock_ms() < end)
		wait_for_kernel(number);
	while (number == 0 && last != 0 && !os_thread_is_gone((int)last) && os_clock_ms() < end)
		os_system_call(SYS_sched_yield);
	if (number == 0 && last != 0) {
		os_system_call(SYS_getpriority, PRIO_PGRP, 0);
		atomic_compare_exchange_strong(&unseen.last, &last, 0);
	}
	return number == 0;
}

void os_unseen_fork_child(void)
{
	atomic_store(&unseen.number, 0);
	atomic_store(&unseen.last, 0);
}

static bool is_here(void)
{
	return unseen.memory != NULL && thread_pointer() == unseen.memory + GUARD_BYTES + STACK_BYTES + unseen.before;
}

// As the kernel has it.
struct action {
	void (*handler)(int);
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static struct action programs;
static _Atomic uint32_t aborting;

static bool set_action(const struct action *action, struct action *old)
{
	return os_system_call(SYS_rt_sigaction, SIGABRT, action, old, sizeof action->mask) == 0;
}

// On the process's first thread: from here on as if it had found what this one did.
static void abort_here(int number)
{
	(void)number;
	atomic_store(&aborting, 1);
	set_action(&programs, NULL);
	abort();
}

static bool abort_elsewhere(void)
{
	struct action ours;
	long process = os_system_call(SYS_getpid);

	if (!set_action(NULL, &programs) || programs.handler == SIG_DFL || programs.handler == SIG_IGN)
		return false;
	ours = programs;
	ours.handler = abort_here;
	return set_action(&ours, NULL) && os_system_call(SYS_tgkill, process, process, SIGABRT) == 0;
}

static void wait_for_abort(void)
{
	_Atomic uint32_t never = 0;

	for (int i = 0; i < ABORT_MS && (i < ABORT_BEGIN_MS || atomic_load(&aborting) != 0); i++)
		os_word_wait(&never, 0, WAIT_MS);
}

// Who has it blocked, or waits in its handler for what this thread holds, is not waited for for ever.
void os_abort(void)
{
	const struct action none = { SIG_DFL, 0, NULL, 0 };

	if (!is_here())
		abort();
	if (abort_elsewhere())
		wait_for_abort();
	set_action(&none, NULL);
	os_system_call(SYS_rt_sigprocmask, SIG_SETMASK, &none.mask, NULL, sizeof none.mask);
	os_system_call(SYS_tgkill, os_system_call(SYS_getpid), os_system_call(SYS_gettid), SIGABRT);
	for (;;)
		os_system_call(SYS_exit_group, 127);
}
