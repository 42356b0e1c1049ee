// Names of functions that the loader does not know: those that are static, or of a program that was not linked for it.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The function of an ELF file in which the address lies; addresses are as the file has them, or from where it was loaded when
// it is loaded anywhere. Reads the file's symbol table, without allocation. `*offset`: in the function. False: not found.
bool os_symbol_find(const char *path, uintptr_t address, uintptr_t loaded_at, char *name, size_t size, uintptr_t *offset);
