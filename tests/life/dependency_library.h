// A library that a test program depends on and that is linked without this allocator; it allocates in its constructor.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_DEPENDENCY_LIBRARY_H
#define VMAG_TESTS_DEPENDENCY_LIBRARY_H

// Verifies what the constructor allocated.
void dependency_check(void);

#endif
