// How a program under test tells inject.c where failures may begin and must end: a prctl that the kernel does not know.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_WINDOW_H
#define VMAG_TESTS_WINDOW_H

#include <sys/prctl.h>

enum { WINDOW_OPEN = 0x76010001, WINDOW_CLOSE = 0x76010002 };

#endif
