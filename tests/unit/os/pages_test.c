// Tests os/pages.h: a mapping that the kernel does not unmap stays noted as ours.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/pages.h"

#include "unit.h"

enum { PAGES = 3 };

static size_t noted_bytes(const void *start) {
    for (unsigned i = 0; i < os_mappings_count; i++)
        if (os_mappings[i].start == (uintptr_t)start)
            return os_mappings[i].size;
    return 0;
}

int main(void) {
    size_t size = PAGES * os_page_size();
    char *pages = os_pages_map(size);

    CHECK(pages != NULL);
    CHECK_EQ(noted_bytes(pages), size);
    CHECK(!os_pages_unmap(pages, 0)); // the kernel refuses
    CHECK_EQ(noted_bytes(pages), size);
    CHECK(os_pages_unmap(pages, size));
    CHECK_EQ(noted_bytes(pages), 0);
    return 0;
}
