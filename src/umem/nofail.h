// UMEM_NOFAIL: what happens when there is no memory and the program said that this must not be.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

// After a failure: whether the allocation is to be tried again. With UMEM_NOFAIL it is, or this does not return: the
// program's callback says so, or the process exits, by one thread while the others stay here. No lock is held.
bool nofail_retry(int flags);
