// The call stack on Linux, x86-64 and AArch64: both keep the caller's frame pointer and the return address side by side.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "util/bits.h"
#include "os/memory.h"
#include "os/symbol.h"
#include "util/format.h"

enum { PROBE_PAGE = 4096, FRAME_BYTES = 2 * sizeof(uintptr_t), FRAME_MOST = 4 * 1024 * 1024, RANGE_STEP = 1024 * 1024, FIRST_CODE = 4096 };
#define ADDRESS_BITS (((uintptr_t)1 << 48) - 1) // AArch64 signs return addresses above these

extern const char __ehdr_start[] HIDDEN; // made by the linker: the ELF header, and what is mapped behind it

#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetIP

// Where the library's code ends, by its own program headers. Linked into a program, the library has no range of its own.
static _Atomic uintptr_t code_end_known;

static __attribute__((noinline)) uintptr_t find_code_end(void)
{
	const ElfW(Ehdr) *file = (const void *)__ehdr_start;
	const ElfW(Phdr) *header = (const void *)(__ehdr_start + file->e_phoff);
	uintptr_t start = (uintptr_t)__ehdr_start, end = start;

	for (int i = 0; i < file->e_phnum; i++)
		if (header[i].p_type == PT_LOAD && (header[i].p_flags & PF_X) != 0)
			end = start + header[i].p_vaddr + header[i].p_memsz;
	if (getauxval(AT_PHDR) - start < end - start)
		end = start;
	atomic_store_explicit(&code_end_known, end, memory_order_relaxed);
	return end;
}

static inline uintptr_t code_end(void)
{
	uintptr_t end = atomic_load_explicit(&code_end_known, memory_order_relaxed);

	return LIKELY(end != 0) ? end : find_code_end();
}

static inline bool is_ours(uintptr_t address)
{
	return address >= (uintptr_t)__ehdr_start && address < code_end();
}

// The kernel reads the set before it looks at the nonsensical first argument: EFAULT or EINVAL, and nothing happens.
static bool page_is_readable(uintptr_t page)
{
	return syscall(SYS_rt_sigprocmask, ~0, page, NULL, 8) == 0 || errno != EFAULT;
}

// Whether two words can be read at `frame`; `*page` is the last page that was found readable.
static __attribute__((noinline)) bool is_readable(uintptr_t frame, uintptr_t *page)
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

// The kernel puts the program's arguments above the first thread's stack, the C library a thread's variables above another's.
static uintptr_t stack_top(void)
{
	return os_thread_number() == getpid() ? getauxval(AT_RANDOM) : (uintptr_t)__errno_location();
}

// Makes the range reach down to `frame`, if all between can be read and it is not too much; else it is as it was. A stack that is
// not the thread's own, of a coroutine, say, is not connected with it.
static __attribute__((noinline)) void range_extend(struct os_stack_range *range, uintptr_t frame)
{
	uintptr_t low = round_down(frame, PROBE_PAGE), top;

	if (range->top == 0) {
		range->top = stack_top();
		range->low = round_down(range->top, PROBE_PAGE);
	}
	top = range->low;
	if (low >= top || top - low > RANGE_STEP)
		return;
	for (uintptr_t page = low; page < top; page += PROBE_PAGE)
		if (!page_is_readable(page))
			return;
	range->low = low;
}

static inline bool is_in(const struct os_stack_range *range, uintptr_t frame)
{
	return frame - range->low < range->top - range->low && range->top - frame >= FRAME_BYTES;
}

static void note(struct os_walk *walk, uintptr_t next, uintptr_t code)
{
	if (walk->count == OS_WALK_MOST) {
		walk->first = 0;
		return;
	}
	walk->link[walk->count].next = next;
	walk->link[walk->count++].code = code;
}

// The chain's words may lie anywhere, also where a sanitizer sees no object. From the first that is not of this library on, all
// addresses are the program's.
__attribute__((no_sanitize("address"))) static inline size_t by_frames(uintptr_t *frames, size_t depth, uintptr_t frame,
								       struct os_stack_range *range, struct os_walk *walk)
{
	uintptr_t page = round_down((uintptr_t)__builtin_frame_address(0), PROBE_PAGE), next, code, readable;
	uintptr_t own = (uintptr_t)__ehdr_start, own_bytes = code_end() - own;
	size_t count = 0;

	if (UNLIKELY(frame < range->low || range->low == 0))
		range_extend(range, frame);
	while (count < depth) {
		if (LIKELY(is_in(range, frame)))
			readable = range->top - FRAME_BYTES;
		else if (is_readable(frame, &page)) {
			readable = frame;
			if (walk != NULL)
				walk->first = 0;
		} else
			break;
		do {
			next = ((const uintptr_t *)frame)[0];
			code = ((const uintptr_t *)frame)[1];
			if (walk != NULL && walk->first != 0)
				note(walk, next, code);
			code &= ADDRESS_BITS;
			own_bytes = code - own < own_bytes ? own_bytes : 0;
			frames[count] = code;
			count += own_bytes == 0 && code >= FIRST_CODE;
			if (code < FIRST_CODE || next <= frame || next - frame > FRAME_MOST || next % sizeof(uintptr_t) != 0)
				return count;
			frame = next;
		} while (count < depth && frame <= readable);
	}
	return count;
}

__attribute__((no_sanitize("address"))) uintptr_t os_stack_outside(uintptr_t frame)
{
	uintptr_t own = (uintptr_t)__ehdr_start, own_bytes = code_end() - own;

	while ((((const uintptr_t *)frame)[1] & ADDRESS_BITS) - own < own_bytes)
		frame = ((const uintptr_t *)frame)[0];
	return frame;
}

size_t os_stack_walk(uintptr_t *frames, size_t depth, uintptr_t frame, struct os_stack_range *range, struct os_walk *walk)
{
	int saved = errno;
	size_t count;

	walk->first = frame;
	walk->count = 0;
	count = by_frames(frames, depth, frame, range, walk);
	errno = saved;
	return count;
}

// Each frame is read only when those before it are as they were: so it was read before, in this thread's stack.
__attribute__((no_sanitize("address"))) bool os_walk_holds(const struct os_walk *walk, uintptr_t frame)
{
	if (walk->first != frame)
		return false;
	for (uint32_t i = 0; i < walk->count; i++) {
		const uintptr_t *at = (const uintptr_t *)frame;

		if (at[0] != walk->link[i].next || at[1] != walk->link[i].code)
			return false;
		frame = walk->link[i].next;
	}
	return true;
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

__attribute__((no_sanitize("address"))) size_t os_stack_capture(uintptr_t *frames, size_t depth, enum os_unwinder unwinder, struct os_stack_range *range)
{
	struct os_stack_range none = { UINTPTR_MAX, UINTPTR_MAX };
	struct walk walk = { frames, depth, 0 };
	int saved = errno;

	if (os_stack_by_tables(unwinder))
		_Unwind_Backtrace(step, &walk);
	else
		walk.count = by_frames(frames, depth, (uintptr_t)__builtin_frame_address(0), range != NULL ? range : &none, NULL);
	errno = saved;
	return walk.count;
}

unsigned os_stack_trace(uintptr_t *frames, unsigned most)
{
	return (unsigned)os_stack_capture(frames, most, OS_UNWIND_FRAMES, NULL);
}

// rt_sigreturn, as the C library or the kernel's own page has it there; debuggers know it by that, too.
#if defined(__x86_64__)
static const uint8_t handlers_return[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };
#else
static const uint32_t handlers_return[] = { 0xd2801168, 0xd4000001 };
#endif

bool os_stack_in_handler(unsigned depth)
{
	uintptr_t frames[OS_WALK_MOST];
	unsigned count = os_stack_trace(frames, depth < OS_WALK_MOST ? depth : OS_WALK_MOST);
	char code[sizeof handlers_return];

	for (unsigned i = 0; i < count; i++)
		if (os_memory_peek(code, (const void *)frames[i], sizeof code) && memcmp(code, handlers_return, sizeof code) == 0)
			return true;
	return false;
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
