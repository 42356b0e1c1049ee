// Misuse told: one line on stderr (what, address, size, which call), then abort.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>

// Gets the line in place of stderr, when it is set (experimental.hooks.safety_check_abort); the process aborts when it returns.
extern void (*guard_told)(const char *line);

#define GUARD_NOWHERE ((const void *)&guard_told) // no address: what was asked for is not there. No program has this one

// `call`: the function of the program's fault, "free". `what`: the finding in words that may hold one %zu for `size`.
// No lock of the library may be held: a handler of SIGABRT may allocate.
_Noreturn void guard_report(const char *call, const void *address, const char *what, size_t size);

// The same about something that has a name; '%' is not one of its letters.
_Noreturn void guard_report_in(const char *call, const void *address, const char *name, const char *what, size_t size);

// The same line for a fault that was refused: the process goes on.
void guard_warn(const char *call, const void *address, const char *what, size_t size);
