// The names of the controls of the vmag library; mallctl of jemalloc/jemalloc.h reads and writes them.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_CONTROLS_H
#define VMAG_CONTROLS_H

#ifdef __cplusplus
extern "C" {
#endif

// Calls `put` with a line for each control: name ("<>" is an index), type, access and meaning, separated by tabs and ended by a
// newline; the line is valid during the call. Does not allocate.
void vmag_controls_print(void (*put)(void *argument, const char *line), void *argument);

#ifdef __cplusplus
}
#endif
#endif
