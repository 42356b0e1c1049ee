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
#include <ucontext.h>
#include <unwind.h>

#include "os/module.h"
#include "os/rules.h"
#include "os/stack_range.h"
#include "os/symbol.h"
#include "os/walk.h"
#include "util/bits.h"
#include "util/format.h"

extern const char __ehdr_start[] HIDDEN; // made by the linker: the ELF header, and what is mapped behind it

#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetIP
#pragma weak os_unwinder_is_told

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

struct elsewhere {
	uintptr_t page; // the last that was found readable
	bool has_leapt;
	uintptr_t words[2];
	struct os_piece piece;
};

// Two words of a frame of a walk that did not begin where the stack is surely the thread's own; NULL: they cannot be read. They need be no frame but
// by chance, and another thread may take them away meanwhile, so the kernel copies them. `from`: the frame before it.
static __attribute__((noinline)) const uintptr_t *frame_elsewhere(uintptr_t frame, uintptr_t from, struct elsewhere *elsewhere)
{
	struct os_piece *piece = &elsewhere->piece;
	uintptr_t *words = elsewhere->words;

	elsewhere->has_leapt |= frame - from > FRAME_STEP;
	return os_word_copy(piece, frame, &elsewhere->page, &words[0]) && os_word_copy(piece, frame + sizeof frame, &elsewhere->page, &words[1]) ? words : NULL;
}

// A chain that leaves the thread's own stack is none any more: code without frame pointers had anything in that register, most
// often the address of some object, and asking for its page costs more than all the rest.
// The chain's words may lie anywhere, also where a sanitizer sees no object. From the first that is not of this library on, all
// addresses are the program's.
__attribute__((no_sanitize("address"))) static inline size_t by_frames(uintptr_t *frames, size_t depth, uintptr_t frame,
								       struct os_stack_range *range, struct os_walk *walk, size_t *kept)
{
	uintptr_t own = (uintptr_t)__ehdr_start, own_bytes = code_end() - own, began = frame, from = frame, readable, next, code;
	struct elsewhere elsewhere; // most walks do not need it: nothing is written there
	struct walking walking = { .walk = walk };
	bool met = false, ended = false, arrived = false, is_own;
	const uintptr_t *words;
	size_t count = 0;

	if (UNLIKELY(frame < range->own || range->low == 0))
		os_stack_range_extend(range, frame);
	is_own = os_stack_has(range->own, range->top, frame);
	if (walk != NULL)
		walking_begin(&walking, walk, 0, frame);
	walking.lost = !is_own;
	elsewhere.page = round_down((uintptr_t)__builtin_frame_address(0), PROBE_PAGE);
	elsewhere.has_leapt = false;
	elsewhere.piece.start = NO_PIECE;
	while (count < depth) {
		if (LIKELY(is_own)) {
			if (!os_stack_has(range->own, range->top, frame))
				break;
			words = (const uintptr_t *)frame;
			readable = range->top - FRAME_BYTES;
		} else {
			words = frame_elsewhere(frame, from, &elsewhere);
			if (words == NULL)
				break;
			arrived |= !elsewhere.has_leapt && os_stack_has(range->own, range->top, frame);
			readable = from = frame;
		}
		do {
			next = words[0];
			code = words[1];
			if (walk != NULL) {
				walking_note(&walking, frame + sizeof frame, code);
				if (os_code_address(code) >= FIRST_CODE && walking_meets(&walking, frame + sizeof frame, WORD_FRAME)) {
					met = true;
					break;
				}
				walking_note(&walking, frame, next);
			}
			code = os_code_address(code);
			own_bytes = code - own < own_bytes ? own_bytes : 0;
			frames[count] = code;
			count += own_bytes == 0 && code >= FIRST_CODE;
			if (code < FIRST_CODE || next <= frame || next - frame > FRAME_MOST || next % sizeof(uintptr_t) != 0) {
				ended = true;
				break;
			}
			frame = next;
			words = (const uintptr_t *)frame;
		} while (count < depth && frame <= readable);
		if (met || ended)
			break;
	}
	if (UNLIKELY(arrived))
		os_stack_range_arrived(range, began);
	walking.lost |= count == depth && !met;
	if (walk != NULL)
		*kept = walking_end(&walking, met);
	return count;
}

__attribute__((no_sanitize("address"))) uintptr_t os_stack_outside(uintptr_t frame)
{
	uintptr_t own = (uintptr_t)__ehdr_start, own_bytes = code_end() - own;

	while (os_code_address(((const uintptr_t *)frame)[1]) - own < own_bytes)
		frame = ((const uintptr_t *)frame)[0];
	return frame;
}

size_t os_stack_walk(uintptr_t *frames, size_t depth, uintptr_t frame, struct os_rules *rules, struct os_stack_range *range, struct os_walk *walk,
		     size_t *kept)
{
	int saved = errno;
	size_t count = rules == NULL ? by_frames(frames, depth, frame, range, walk, kept) :
				       os_rules_walk(rules, frames, depth, frame, range, walk, kept);

	errno = saved;
	return count;
}

// As a walk would read them: each word only where those before it are as they were.
__attribute__((no_sanitize("address"))) bool os_walk_holds(const struct os_walk *walk, uintptr_t frame)
{
	const struct os_walk_word *word = &walk->word[OS_WALK_MOST - walk->count], *end = &walk->word[OS_WALK_MOST];

	if (walk->taken != walk->begun || word->at != frame + sizeof frame) // the end's mark, if there are no words
		return false;
	if (walk->generation != 0 && walk->generation != atomic_load_explicit(&os_modules_generation, memory_order_relaxed))
		return false;
	while (word < end && word->at >= frame && *(const uintptr_t *)word->at == word->value)
		word++;
	return word == end;
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

bool os_stack_has_system(void)
{
	return (&os_unwinder_is_told == NULL || os_unwinder_is_told) && _Unwind_Backtrace != NULL && _Unwind_GetIP != NULL;
}

size_t os_stack_system(uintptr_t *frames, size_t depth)
{
	struct walk walk = { frames, depth, 0 };
	int saved = errno;

	_Unwind_Backtrace(step, &walk);
	errno = saved;
	return walk.count;
}

unsigned os_stack_trace(uintptr_t *frames, unsigned most)
{
	struct os_stack_range none = { .low = UINTPTR_MAX, .top = UINTPTR_MAX, .own = UINTPTR_MAX };
	int saved = errno;
	size_t count = by_frames(frames, most, (uintptr_t)__builtin_frame_address(0), &none, NULL, NULL);

	errno = saved;
	return (unsigned)count;
}

bool os_stack_in_handler(unsigned depth)
{
	uintptr_t frames[OS_WALK_MOST];
	unsigned count = os_stack_trace(frames, depth < OS_WALK_MOST ? depth : OS_WALK_MOST);

	for (unsigned i = 0; i < count; i++)
		if (os_returns_from_handler(frames[i]))
			return true;
	return false;
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
