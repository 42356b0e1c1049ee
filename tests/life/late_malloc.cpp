// A program of the static library whose code is made at the link (-flto): malloc and free are of the library, as mallocx and operator new are.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include <cstdlib>
#include <jemalloc/jemalloc.h>
#include <new>

// More than it was asked for, and no delete: that is the library's.
void *operator new(std::size_t size) { return std::malloc(size + 32); }

static void *volatile object;

int main() {
    object = mallocx(100, 0);
    std::free(object);
    object = ::operator new(100);
    ::operator delete(object);
    object = std::malloc(100);
    CHECK_GE(sallocx(object, 0), 100);
    dallocx(object, 0);
}
