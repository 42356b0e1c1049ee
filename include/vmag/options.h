// The options of the vmag library in this process.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_OPTIONS_H
#define VMAG_OPTIONS_H

#ifdef __cplusplus
extern "C" {
#endif

// Calls `put` with a line for each option: name, type, value, where the value comes from, limits, and meaning, separated by tabs and
// ended by a newline; the line is valid during the call. Does not allocate.
void vmag_options_print(void (*put)(void *argument, const char *line), void *argument);

#ifdef __cplusplus
}
#endif
#endif
