// What identity.c is to know from load on.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "util/bits.h"

// The setuid of the next library. Some have their own of all these functions, and say that the user is another (fakeroot, uid_wrapper): who is
// before them shall not make the system's call.
extern void *identity_next HIDDEN;
