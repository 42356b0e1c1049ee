// Exported: clone and syscall, for programs that copy their process by the system's call. The C library tells nobody of such a copy, in which the background
// thread that the C library does not know of (os/unseen.h) would be gone in the middle of what it is at, and the locks that it holds stay taken: so it is
// dismissed first. So it is for changes of what a thread has of its own, which are seen here as well (api/identity.c), as filters are (api/alone.h).
//
// All else, and what shares the process's memory, is the C library's few instructions without a frame: a child may return on another stack. So it is with one
// that gets a stack, and with clone3, whose arguments lie in memory that may not be there: but the thread goes first, and may come back once it is wanted again.
// Not in the static library, nor with other C libraries than glibc, where there is no such thread.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "api/alone.h"
#include "api/prctl.h"
#include "heap/reclaim.h"
#include "os/system_call.h"
#include "os/thread.h"
#include "util/bits.h"

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

enum { NUMBERS = 512, WORD = 64 };

#define BIT(number, word) ((number) / WORD == (word) ? (uint64_t)1 << (number) % WORD : 0)
#ifdef SYS_fork
#define FORK_BIT(word) BIT(SYS_fork, word)
#else
#define FORK_BIT(word) 0
#endif
#define BITS(word) \
	(FORK_BIT(word) | BIT(SYS_clone, word) | BIT(SYS_clone3, word) | BIT(SYS_exit, word) | BIT(SYS_prctl, word) | BIT(SYS_seccomp, word) | BIT(SYS_unshare, word) | \
	 BIT(SYS_setns, word) | BIT(SYS_capset, word) | BIT(SYS_setuid, word) | BIT(SYS_setgid, word) | BIT(SYS_setreuid, word) | BIT(SYS_setregid, word) | \
	 BIT(SYS_setresuid, word) | BIT(SYS_setresgid, word) | BIT(SYS_setgroups, word))

// The calls that are looked at, a bit each.
HIDDEN extern const uint64_t copies_looked_at[NUMBERS / WORD];
const uint64_t copies_looked_at[NUMBERS / WORD] = { BITS(0), BITS(1), BITS(2), BITS(3), BITS(4), BITS(5), BITS(6), BITS(7) };

HIDDEN long copies_failed(long error);
HIDDEN void copies_before(void);
HIDDEN long copies_syscall(long number, long a, long b, long c, long d, long e, long f);
HIDDEN long copies_clone(int (*function)(void *), void *stack, int flags, void *argument, int *parents, void *tls, int *childs);
// Calls run(argument, run, argument, function) on that stack: what lies in the registers of the first four arguments by then.
HIDDEN __attribute__((noreturn)) void copies_run(void *stack, int (*run)(void *, void *, void *, int (*)(void *)), void *argument, int (*function)(void *));

#define TEXT(number) #number
#define NUMBER(name) TEXT(name)

#ifdef __x86_64__
__asm__(".pushsection .text.copies,\"ax\",@progbits\n\t"
	".globl syscall\n\t.type syscall, @function\n"
	"syscall:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n\t"
	"cmp $511, %rdi\n\t"
	"ja 1f\n\t"
	"lea copies_looked_at(%rip), %rax\n\t"
	"bt %rdi, (%rax)\n\t"
	"jnc 1f\n\t"
	"cmp $" NUMBER(SYS_clone3) ", %rdi\n\t"
	"je 5f\n\t"
	"cmp $" NUMBER(SYS_clone) ", %rdi\n\t"
	"jne copies_syscall\n\t"
	"test $0x100, %esi\n\t" // CLONE_VM
	"jnz 1f\n\t"
	"test $0x80000, %esi\n\t" // CLONE_SETTLS
	"jnz 5f\n\t"
	"test %rdx, %rdx\n\t" // a stack
	"jz copies_syscall\n"
	"5:\n\t"
	"push %rdi\n\tpush %rsi\n\tpush %rdx\n\tpush %rcx\n\tpush %r8\n\tpush %r9\n\tsub $8, %rsp\n\t"
	".cfi_adjust_cfa_offset 56\n\t"
	"call copies_before\n\t"
	"add $8, %rsp\n\tpop %r9\n\tpop %r8\n\tpop %rcx\n\tpop %rdx\n\tpop %rsi\n\tpop %rdi\n\t"
	".cfi_adjust_cfa_offset -56\n"
	"1:\n\t"
	"mov %rdi, %rax\n\t"
	"mov %rsi, %rdi\n\t"
	"mov %rdx, %rsi\n\t"
	"mov %rcx, %rdx\n\t"
	"mov %r8, %r10\n\t"
	"mov %r9, %r8\n\t"
	"mov 8(%rsp), %r9\n\t"
	"syscall\n"
	"2:\n\t"
	"cmp $-4095, %rax\n\t"
	"jae 3f\n\t"
	"ret\n"
	"3:\n\t"
	"mov %rax, %rdi\n\t"
	"jmp copies_failed\n\t"
	".cfi_endproc\n\t"
	".size syscall, . - syscall\n\t"
	".globl clone\n\t.type clone, @function\n"
	"clone:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n\t"
	"test $0x80100, %edx\n\t"
	"jz copies_clone\n\t"
	"mov $-22, %rax\n\t" // EINVAL
	"test %rdi, %rdi\n\t"
	"jz 3b\n\t"
	"and $-16, %rsi\n\t"
	"jz 3b\n\t"
	"mov %rdi, -16(%rsi)\n\t"
	"mov %rcx, -8(%rsi)\n\t"
	"sub $16, %rsi\n\t"
	"mov %rdx, %rdi\n\t"
	"mov %r8, %rdx\n\t"
	"mov %r9, %r8\n\t"
	"mov 8(%rsp), %r10\n\t"
	"mov $" NUMBER(SYS_clone) ", %eax\n\t"
	".cfi_endproc\n\t"
	"syscall\n\t"
	"test %rax, %rax\n\t"
	"jnz 2b\n\t"
	"pop %rsi\n\t"
	"pop %rdx\n\t"
	"mov %rsp, %rdi\n"
	"4:\n\t"
	".cfi_startproc\n\t"
	".cfi_undefined rip\n\t" // where a stack ends
	"mov %rdi, %rsp\n\t"
	"xor %ebp, %ebp\n\t"
	"mov %rdx, %rdi\n\t"
	"call *%rsi\n\t"
	"mov %eax, %edi\n\t"
	"mov $" NUMBER(SYS_exit) ", %eax\n\t"
	"syscall\n\t"
	".cfi_endproc\n\t"
	".size clone, . - clone\n\t"
	".hidden copies_run\n\t.globl copies_run\n\t.type copies_run, @function\n"
	"copies_run:\n\t"
	"and $-16, %rdi\n\t"
	"jmp 4b\n\t"
	".size copies_run, . - copies_run\n\t"
	".popsection");
#else
__asm__(".pushsection .text.copies,\"ax\",@progbits\n\t"
	".globl syscall\n\t.type syscall, %function\n"
	"syscall:\n\t"
	".cfi_startproc\n\t"
	"hint #34\n\t" // bti c
	"cmp x0, #511\n\t"
	"b.hi 1f\n\t"
	"adrp x9, copies_looked_at\n\t"
	"add x9, x9, :lo12:copies_looked_at\n\t"
	"lsr x10, x0, #6\n\t"
	"ldr x9, [x9, x10, lsl #3]\n\t"
	"lsr x9, x9, x0\n\t"
	"tbz x9, #0, 1f\n\t"
	"cmp x0, #" NUMBER(SYS_clone3) "\n\t"
	"b.eq 5f\n\t"
	"cmp x0, #" NUMBER(SYS_clone) "\n\t"
	"b.ne copies_syscall\n\t"
	"tbnz w1, #8, 1f\n\t" // CLONE_VM
	"tbnz w1, #19, 5f\n\t" // CLONE_SETTLS
	"cbz x2, copies_syscall\n" // no stack
	"5:\n\t"
	"stp x29, x30, [sp, #-80]!\n\t"
	".cfi_adjust_cfa_offset 80\n\t.cfi_rel_offset x30, 8\n\t"
	"stp x0, x1, [sp, #16]\n\tstp x2, x3, [sp, #32]\n\tstp x4, x5, [sp, #48]\n\tstr x6, [sp, #64]\n\t"
	"bl copies_before\n\t"
	"ldp x0, x1, [sp, #16]\n\tldp x2, x3, [sp, #32]\n\tldp x4, x5, [sp, #48]\n\tldr x6, [sp, #64]\n\t"
	"ldp x29, x30, [sp], #80\n\t"
	".cfi_adjust_cfa_offset -80\n\t.cfi_restore x30\n"
	"1:\n\t"
	"mov x8, x0\n\t"
	"mov x0, x1\n\t"
	"mov x1, x2\n\t"
	"mov x2, x3\n\t"
	"mov x3, x4\n\t"
	"mov x4, x5\n\t"
	"mov x5, x6\n\t"
	"svc 0\n"
	"2:\n\t"
	"cmn x0, #4095\n\t"
	"b.hs copies_failed\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size syscall, . - syscall\n\t"
	".globl clone\n\t.type clone, %function\n"
	"clone:\n\t"
	".cfi_startproc\n\t"
	"hint #34\n\t"
	"mov w9, #0x100\n\t"
	"movk w9, #0x8, lsl #16\n\t"
	"tst w2, w9\n\t"
	"b.eq copies_clone\n\t"
	"mov x9, x0\n\t"
	"mov x10, x3\n\t"
	"and x1, x1, #-16\n\t"
	"mov x0, #-22\n\t" // EINVAL
	"cbz x9, copies_failed\n\t"
	"cbz x1, copies_failed\n\t"
	"mov w0, w2\n\t"
	"mov x2, x4\n\t"
	"mov x3, x5\n\t"
	"mov x4, x6\n\t"
	"mov x8, #" NUMBER(SYS_clone) "\n\t"
	"svc 0\n\t"
	"cbnz x0, 2b\n\t"
	".cfi_endproc\n\t"
	"mov x0, sp\n\t"
	"mov x1, x9\n\t"
	"mov x2, x10\n"
	"4:\n\t"
	".cfi_startproc\n\t"
	".cfi_undefined x30\n\t" // where a stack ends
	"and x9, x0, #-16\n\t"
	"mov sp, x9\n\t"
	"mov x29, #0\n\t"
	"mov x30, #0\n\t"
	"mov x0, x2\n\t"
	"blr x1\n\t"
	"mov x8, #" NUMBER(SYS_exit) "\n\t"
	"svc 0\n\t"
	".cfi_endproc\n\t"
	".size clone, . - clone\n\t"
	".hidden copies_run\n\t.globl copies_run\n\t.type copies_run, %function\n"
	"copies_run:\n\t"
	"b 4b\n\t"
	".size copies_run, . - copies_run\n\t"
	".popsection");
#endif

long copies_failed(long error)
{
	errno = (int)-error;
	return -1;
}

// Nobody but a handler is there to wake it before the call.
void copies_before(void)
{
	int saved = errno;

	if (reclaim_is_unseen)
		reclaim_send_away();
	errno = saved;
}

// The first thread ends by itself, which ends the process if no other is left.
static void first_ends(void)
{
	if (reclaim_is_unseen && os_thread_number() == os_process_number())
		reclaim_dismiss();
}

static bool is_filter(long operation)
{
	return operation == SECCOMP_SET_MODE_STRICT || operation == SECCOMP_SET_MODE_FILTER;
}

long copies_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	(void)f;
	switch (number) {
	case SYS_prctl:
		return prctl_wide((int)a, b, c, d, e);
	case SYS_exit:
		first_ends();
		return os_system_call(number, a);
	case SYS_seccomp:
		return is_filter(a) ? call_shut_in(number, a, b, c, d, e) : os_system_call(number, a, b, c, d, e);
	default:
		return call_alone(number, a, b, c, d, e);
	}
}

// By the processor's order of the last two arguments.
#ifdef __x86_64__
#define TLS_AND_CHILDS(tls, childs) (long)(childs), (long)(tls)
#else
#define TLS_AND_CHILDS(tls, childs) (long)(tls), (long)(childs)
#endif

// By the child's registers: what lies on the old stack may be below the new one.
static int run(void *argument, void *self, void *again, int (*function)(void *))
{
	int result;

	(void)self;
	(void)again;
	result = function(argument);
	first_ends();
	return result;
}

long copies_clone(int (*function)(void *), void *stack, int flags, void *argument, int *parents, void *tls, int *childs)
{
	long answer;

	if (function == NULL || stack == NULL)
		return copies_failed(-EINVAL);
	answer = call_alone(SYS_clone, (unsigned)flags, 0, (long)parents, TLS_AND_CHILDS(tls, childs));
	if (answer == 0)
		copies_run(stack, run, argument, function);
	return answer;
}

#endif
