// Restartable sequences on AArch64: pop, push and exchange. Contracts and theory in os/rseq.h.
//
// Labels: 7 begins anew, 1 start, 2 first instruction after the commit, 3 descriptor, 4 abort. The word before the abort
// address is the signature that was registered, an undefined instruction. No barriers: a processor sees its own stores in
// order, and the kernel puts one between two processors of a thread, and into os_rseq_fence. Loads through a pointer
// are ordered by it; the number and the top are not.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#define RSEQ_BEGIN(scratch)                                          \
	".pushsection vmag_rseq_cs, \"aw\"\n\t"                      \
	".balign 32\n"                                               \
	"3:\t.long 0, 0\n\t" /* version, flags */                    \
	".quad 1f - 3b, 2f - 1f, 4f - 3b\n\t" /* till os_rseq_init */ \
	".popsection\n"                                              \
	"7:\tadrp " scratch ", 3b\n\t"                               \
	"add " scratch ", " scratch ", :lo12:3b\n\t"                 \
	"str " scratch ", [%[area], #8]\n" /* rseq_cs */             \
	"1:\t"

#define RSEQ_END                                                     \
	"2:\n\t"                                                     \
	".pushsection __rseq_abort, \"ax\"\n\t"                      \
	".inst 0xd428bc00\n"                                         \
	"4:\tb 7b\n\t"                                               \
	".popsection\n"

enum { RSEQ_READS_IN_ORDER = 0 };

#define RSEQ_INLINE static inline __attribute__((always_inline))

RSEQ_INLINE void *rseq_field(ptrdiff_t distance)
{
	return (char *)__builtin_thread_pointer() + distance;
}

RSEQ_INLINE bool rseq_pop(void ***tops, size_t word, void **object)
{
	void *taken, *next, **top;

	__asm__ goto volatile(
		RSEQ_BEGIN("%[top]")
		"ldr %w[top], [%[area], #4]\n\t"
		"ldur %w[taken], [%[tops], #-8]\n\t"
		"cmp %w[top], %w[taken]\n\t"
		"b.ne %l[miss]\n\t"
		"ldr %[top], [%[tops], %[word], lsl #3]\n\t"
		"ldr %[taken], [%[top], #-8]\n\t"
		"cbz %[taken], %l[miss]\n\t"
		"ldr %[next], [%[top], #-16]\n\t"
		"sub %[top], %[top], #8\n\t"
		"str %[top], [%[tops], %[word], lsl #3]\n" // commit
		RSEQ_END
		: [taken] "=&r"(taken), [next] "=&r"(next), [top] "=&r"(top)
		: [area] "r"(rseq_field(os_rseq_area)), [tops] "r"(tops), [word] "r"(word)
		: "memory", "cc"
		: miss);
	__builtin_prefetch(next, 1); // it is to be written to soon; NULL below the last one
	*object = taken;
	if (taken == NULL)
		__builtin_unreachable(); // so that callers need not ask
	return true;
miss:
	RSEQ_MISSED;
	return false;
}

RSEQ_INLINE bool rseq_push(void ***tops, size_t word, void *object)
{
	void **top, *seen;

	__asm__ goto volatile(
		RSEQ_BEGIN("%[top]")
		"ldr %w[top], [%[area], #4]\n\t"
		"ldur %w[seen], [%[tops], #-8]\n\t"
		"cmp %w[top], %w[seen]\n\t"
		"b.ne %l[miss]\n\t"
		"ldr %[top], [%[tops], %[word], lsl #3]\n\t"
		"ldr %[seen], [%[top]]\n\t"
		"cmn %[seen], #1\n\t"
		"b.eq %l[miss]\n\t"
		"str %[object], [%[top]], #8\n\t"
		"str %[top], [%[tops], %[word], lsl #3]\n" // commit
		RSEQ_END
		: [top] "=&r"(top), [seen] "=&r"(seen)
		: [area] "r"(rseq_field(os_rseq_area)), [tops] "r"(tops), [word] "r"(word),
		  [object] "r"(object)
		: "memory", "cc"
		: miss);
	return true;
miss:
	RSEQ_MISSED;
	return false;
}

RSEQ_INLINE bool rseq_exchange(int number, void ***at, void **fresh, void ***old)
{
	void **was;

	__asm__ goto volatile(
		RSEQ_BEGIN("%[was]")
		"ldr %w[was], [%[area], #4]\n\t"
		"cmp %w[was], %w[number]\n\t"
		"b.ne %l[elsewhere]\n\t"
		"ldr %[was], [%[at]]\n\t"
		"str %[fresh], [%[at]]\n" // commit
		RSEQ_END
		: [was] "=&r"(was)
		: [area] "r"(rseq_field(os_rseq_area)), [number] "r"(number), [at] "r"(at),
		  [fresh] "r"(fresh)
		: "memory", "cc"
		: elsewhere);
	*old = was;
	return true;
elsewhere:
	RSEQ_MISSED;
	return false;
}
