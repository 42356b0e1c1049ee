// System calls by the processor's own instruction. The C library's functions for them, syscall(2) itself among them, may be interposed by what
// allocates or locks: uid_wrapper's syscall opens a library at its first call, and would do so amid our first use.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// As syscall(2): up to six arguments, as wide as a register or as the kernel reads them; −1 and errno on failure. No point of cancellation.
long os_system_call(long number, ...);
