// The kernel's own library in each process: its clock is one without a system call, and nobody can interpose it.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// A function of it by name; NULL where there is no such library, or no such function.
void *os_vdso_function(const char *name);
