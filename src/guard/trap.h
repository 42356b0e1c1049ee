// Trap: what a touch beyond a firewall says before the process dies of it.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// Handles SIGSEGV, if the program left it alone so far and UMEM_DEBUG has a firewall. The signal stays deadly.
void guard_trap_init(void);
