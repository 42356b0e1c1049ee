// What every misuse program of umem shares: it names the call and the address that the report must name.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_UMEM_CRIME_H
#define VMAG_TESTS_UMEM_CRIME_H

#include <umem.h>

#include "../misuse/misuse.h"

enum { SIZE = 100 };

#endif
