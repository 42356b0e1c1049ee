// The call stack on Linux, x86-64 and AArch64: both keep the caller's frame pointer and the return address side by side.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "util/bits.h"
#include "os/symbol.h"
#include "util/format.h"

enum { PROBE_PAGE = 4096, FRAME_MOST = 4 * 1024 * 1024, FIRST_CODE = 4096 };
#define ADDRESS_BITS (((uintptr_t)1 << 48) - 1) // AArch64 signs return addresses above these

extern const char __ehdr_start[] HIDDEN; // made by the linker: the ELF header, and what is mapped behind it

#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetIP

// Where the library's code ends, by its own program headers.
static uintptr_t code_end(void)
{
	static _Atomic uintptr_t known;
	const ElfW(Ehdr) *file = (const void *)__ehdr_start;
	const ElfW(Phdr) *header = (const void *)(__ehdr_start + file->e_phoff);
	uintptr_t end = atomic_load_explicit(&known, memory_order_relaxed);

	for (int i = 0; end == 0 && i < file->e_phnum; i++)
		if (header[i].p_type == PT_LOAD && (header[i].p_flags & PF_X) != 0)
			end = (uintptr_t)__ehdr_start + header[i].p_vaddr + header[i].p_memsz;
	atomic_store_explicit(&known, end, memory_order_relaxed);
	return end;
}

// Linked into a program, the library has no range of its own.
static bool is_ours(uintptr_t address)
{
	uintptr_t start = (uintptr_t)__ehdr_start, end = code_end(), program = getauxval(AT_PHDR);

	return address - start < end - start && !(program - start < end - start);
}

// The kernel reads the set before it looks at the nonsensical first argument: EFAULT or EINVAL, and nothing happens.
static bool page_is_readable(uintptr_t page)
{
	return syscall(SYS_rt_sigprocmask, ~0, page, NULL, 8) == 0 || errno != EFAULT;
}

// Whether two words can be read at `frame`; `*page` is the last page that was found readable.
static bool is_readable(uintptr_t frame, uintptr_t *page)
{
	for (uintptr_t at = frame; at <= frame + sizeof(uintptr_t); at += sizeof(uintptr_t)) {
		uintptr_t wanted = round_down(at, PROBE_PAGE);

		if (wanted == *page)
			continue;
		if (!page_is_readable(wanted))
			return false;
		*page = wanted;
	}
	return true;
}

// The chain's words may lie anywhere, also where a sanitizer sees no object.
__attribute__((noinline, no_sanitize("address"))) static size_t by_frames(uintptr_t *frames, size_t depth)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0), page = round_down(frame, PROBE_PAGE), next, code;
	size_t count = 0;

	while (count < depth && is_readable(frame, &page)) {
		next = ((const uintptr_t *)frame)[0];
		code = ((const uintptr_t *)frame)[1] & ADDRESS_BITS;
		if (code < FIRST_CODE)
			break;
		if (count > 0 || !is_ours(code))
			frames[count++] = code;
		if (next <= frame || next - frame > FRAME_MOST || next % sizeof(uintptr_t) != 0)
			break;
		frame = next;
	}
	return count;
}

struct walk {
	uintptr_t *frames;
	size_t depth, count;
};

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;
	uintptr_t code = _Unwind_GetIP(context);

	if (code < FIRST_CODE)
		return _URC_END_OF_STACK;
	if (walk->count > 0 || !is_ours(code))
		walk->frames[walk->count++] = code;
	return walk->count < walk->depth ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool os_stack_has_tables(void)
{
	return _Unwind_Backtrace != NULL && _Unwind_GetIP != NULL;
}

size_t os_stack_capture(uintptr_t *frames, size_t depth, enum os_unwinder unwinder)
{
	struct walk walk = { frames, depth, 0 };
	int saved = errno;

	if (unwinder == OS_UNWIND_TABLES && os_stack_has_tables())
		_Unwind_Backtrace(step, &walk);
	else
		walk.count = by_frames(frames, depth);
	errno = saved;
	return walk.count;
}

unsigned os_stack_trace(uintptr_t *frames, unsigned most)
{
	return (unsigned)os_stack_capture(frames, most, OS_UNWIND_FRAMES);
}

int os_thread_number(void)
{
	return (int)syscall(SYS_gettid);
}

void os_stack_name(struct text *text, uintptr_t address)
{
	char name[128];
	uintptr_t offset;
	Dl_info info;

	// The address is that of the instruction behind the call, which may belong to the next function.
	if (dladdr((void *)(address - 1), &info) == 0 || info.dli_fname == NULL)
		text_add(text, "0x%lx", (unsigned long)address);
	else if (info.dli_sname != NULL)
		text_add(text, "%s+0x%lx (%s)", info.dli_sname, (unsigned long)(address - (uintptr_t)info.dli_saddr), info.dli_fname);
	else if (os_symbol_find(info.dli_fname, address - 1, (uintptr_t)info.dli_fbase, name, sizeof name, &offset))
		text_add(text, "%s+0x%lx (%s)", name, (unsigned long)offset + 1, info.dli_fname);
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
