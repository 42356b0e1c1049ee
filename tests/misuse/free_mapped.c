// free of a page that the program mapped itself.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

#include <sys/mman.h>

int main(void) {
    void *page = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    announce("free", page);
    free(hidden(page));
    return unnoticed();
}
