// Sized operator delete of a large block with a wrong size.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

#include <new>

int main() {
    void *block = ::operator new(1 << 20);
    announce("operator delete", block);
    ::operator delete(hidden(block), std::size_t{100});
    return unnoticed();
}
