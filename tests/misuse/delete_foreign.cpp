// operator delete of a static variable.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

#include <new>

static long long variable[8];

int main() {
    announce("operator delete", variable);
    ::operator delete(hidden(variable));
    return unnoticed();
}
