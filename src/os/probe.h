// Probes for observers outside (USDT): one nop in the code, and a note in the file that says where it is and in which
// registers its arguments are. Nobody pays for them but by that nop; eBPF programs, bpftrace and gdb find them.
//
// The note's layout is that of SystemTap's sdt: addresses of the nop and of a base, no semaphore, three strings.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdint.h>

#if defined(__x86_64__) || defined(__aarch64__)
#define OS_PROBE(provider, name, arguments, ...)                                                                   \
	__asm__ volatile("990: nop\n"                                                                              \
			 ".pushsection .note.stapsdt,\"?\",\"note\"\n"                                             \
			 ".balign 4\n"                                                                             \
			 ".4byte 992f-991f, 994f-993f, 3\n"                                                        \
			 "991: .asciz \"stapsdt\"\n"                                                               \
			 "992: .balign 4\n"                                                                        \
			 "993: .8byte 990b\n"                                                                      \
			 ".8byte _.stapsdt.base\n"                                                                 \
			 ".8byte 0\n"                                                                              \
			 ".asciz \"" provider "\"\n"                                                               \
			 ".asciz \"" name "\"\n"                                                                   \
			 ".asciz \"" arguments "\"\n"                                                              \
			 "994: .balign 4\n"                                                                        \
			 ".popsection\n"                                                                           \
			 ".ifndef _.stapsdt.base\n"                                                                \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                   \
			 ".weak _.stapsdt.base\n"                                                                  \
			 ".hidden _.stapsdt.base\n"                                                                \
			 "_.stapsdt.base: .space 1\n"                                                              \
			 ".size _.stapsdt.base, 1\n"                                                               \
			 ".popsection\n"                                                                           \
			 ".endif\n" ::__VA_ARGS__)
#else
#define OS_PROBE(provider, name, arguments, ...)
#endif

// OpenTelemetry's probes for memory profiling: sampled allocations, and the frees of sampled objects. The sum of
// `weighted_bytes` is on average the sum of all allocated bytes. The provider's name is still provisional there.
#define OS_PROBE_MEMORY "otel_memory"

static inline void os_probe_alloc(const void *object, uint64_t bytes, uint64_t weighted_bytes)
{
	(void)object, (void)bytes, (void)weighted_bytes;
	OS_PROBE(OS_PROBE_MEMORY, "alloc", "8@%0 8@%1 8@%2", "r"(object), "r"(bytes), "r"(weighted_bytes));
}

static inline void os_probe_free(const void *object)
{
	(void)object;
	OS_PROBE(OS_PROBE_MEMORY, "free", "8@%0", "r"(object));
}
