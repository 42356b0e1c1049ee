// The background thread: gives memory back while the process is idle.
//
// Started at the first garbage worth it, never from a constructor. When nothing is left to give back it is asleep without a timer, or, in a process of one
// thread, of which the C library knows no other (os/unseen.h), ends a quarter of a second later, until the next need; made again in a forked child at its first. Nothing depends on it: without it, threads that come by do its work.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

// From now on the thread may be started.
void background_allow(void);

// The C library's pthread_create, NULL: by that name. For a program, or a library before this one, may have one of its own, and allocate in it under
// locks of its own. Who says so also dismisses a thread that the C library does not know of before what such a one would keep is changed (api/identity.c):
// without, there is none (os/unseen.h) in a process that has anything to give up.
void background_create_by(void *pthread_create);

// Whether it lies in the C library or its loader.
bool background_in_c_library(const void *function);

// The parent's thread does not exist in the child.
void background_fork_child(void);
