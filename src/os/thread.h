// The ends of threads: a value of this thread that a function gets when the thread ends.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

// Says once which function is called. False: the C library has no room; threads' ends then go unnoticed.
bool os_thread_exit_hook(void (*function)(void *value));

// Sets this thread's value; NULL: the function is not called. May allocate through malloc.
void os_thread_exit_value(void *value);
