// Restartable sequences on x86-64: pop, push and exchange. Contracts and theory in os/rseq.h.
//
// Labels: 7 begins anew, 1 start, 2 first instruction after the commit, 3 descriptor, 4 abort. The kernel checks that the
// four bytes before the abort address are the signature that was registered; they are part of an undefined
// instruction, ud1 <signature>(%rip), %edi, so that nobody runs into it. The commits of pop and push read and write the word in one
// instruction, which nothing on this processor comes between. A jump out of a sequence (to `miss`) needs nothing
// undone.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// The descriptor in a section of the library's own, the thread's rseq_cs set to it, and the way back from an abort.
#define RSEQ_BEGIN(scratch)                                          \
	".pushsection vmag_rseq_cs, \"aw\"\n\t"                      \
	".balign 32\n"                                               \
	"3:\t.long 0, 0\n\t" /* version, flags */                    \
	".quad 1f - 3b, 2f - 1f, 4f - 3b\n\t" /* till os_rseq_init */ \
	".popsection\n"                                              \
	"7:\tleaq 3b(%%rip), " scratch "\n\t"                        \
	"movq " scratch ", %%fs:8(%[area])\n" /* rseq_cs */          \
	"1:\t"

#define RSEQ_END                                                     \
	"2:\n\t"                                                     \
	".pushsection __rseq_abort, \"ax\"\n\t"                      \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                 \
	".long 0x53053053\n"                                         \
	"4:\tjmp 7b\n\t"                                             \
	".popsection\n"

enum { RSEQ_READS_IN_ORDER = 1 };

#define RSEQ_INLINE static inline __attribute__((always_inline))

RSEQ_INLINE void *rseq_field(ptrdiff_t distance)
{
	char *thread;

	__asm__("movq %%fs:0, %0" : "=r"(thread));
	return thread + distance;
}

RSEQ_INLINE bool rseq_pop(void ***tops, size_t word, void **object)
{
	void *taken, *next, **top;

	__asm__ goto volatile(
		RSEQ_BEGIN("%[top]")
		"movl %%fs:4(%[area]), %k[top]\n\t"
		"cmpl %k[top], -8(%[tops])\n\t"
		"jne %l[miss]\n\t"
		"movq (%[tops], %[word], 8), %[top]\n\t"
		"movq -8(%[top]), %[taken]\n\t"
		"testq %[taken], %[taken]\n\t"
		"je %l[miss]\n\t"
		"movq -16(%[top]), %[next]\n\t"
		"subq $8, (%[tops], %[word], 8)\n" // commit
		RSEQ_END
		: [taken] "=&r"(taken), [next] "=&r"(next), [top] "=&r"(top)
		: [area] "r"(os_rseq_area), [tops] "r"(tops), [word] "r"(word)
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
	void **top;

	__asm__ goto volatile(
		RSEQ_BEGIN("%[top]")
		"movl %%fs:4(%[area]), %k[top]\n\t"
		"cmpl %k[top], -8(%[tops])\n\t"
		"jne %l[miss]\n\t"
		"movq (%[tops], %[word], 8), %[top]\n\t"
		"cmpq $-1, (%[top])\n\t"
		"je %l[miss]\n\t"
		"movq %[object], (%[top])\n\t"
		"addq $8, (%[tops], %[word], 8)\n" // commit
		RSEQ_END
		: [top] "=&r"(top)
		: [area] "r"(os_rseq_area), [tops] "r"(tops), [word] "r"(word), [object] "r"(object)
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
		"cmpl %[number], %%fs:4(%[area])\n\t"
		"jne %l[elsewhere]\n\t"
		"movq (%[at]), %[was]\n\t"
		"movq %[fresh], (%[at])\n" // commit
		RSEQ_END
		: [was] "=&r"(was)
		: [area] "r"(os_rseq_area), [number] "r"(number), [at] "r"(at), [fresh] "r"(fresh)
		: "memory", "cc"
		: elsewhere);
	*old = was;
	return true;
elsewhere:
	RSEQ_MISSED;
	return false;
}
