// Tests os/pages.h: a mapping that the kernel does not unmap stays noted as ours; which addresses exist, also to kernels that know no way to ask; whose
// memory tells what giving back does.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/pages.h"

#include <sys/mman.h>

#include "unit.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { PAGES = 3, LG_NOWHERE = 62 }; // no processor has such addresses (with tables of five levels on x86-64 up to 2^56)

// Before 4.17 the kernel passes over the flag.
static bool is_old;
static unsigned replaced; // mappings, by others
void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    replaced += (flags & MAP_FIXED) != 0;
    return __real_mmap(address, size, protection, is_old ? flags & ~MAP_FIXED_NOREPLACE : flags, file, offset);
}

static void check_existence(bool old) {
    char *pages = os_pages_map(os_page_size());

    is_old = old;
    CHECK(pages != NULL);
    CHECK(os_pages_exist(pages));
    CHECK(os_pages_unmap(pages, os_page_size()));
    CHECK(os_pages_exist(pages));
    CHECK(!os_pages_exist((void *)((uintptr_t)1 << LG_NOWHERE)));
    is_old = false;
}

// Shared memory, as hooks may give it, keeps its contents: that says nothing of ours, which is not to be replaced from then on.
static void check_purge(void) {
    char *shared = mmap(NULL, os_page_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *pages = os_pages_map(os_page_size());

    CHECK(shared != MAP_FAILED && pages != NULL);
    *shared = *pages = 1;
    CHECK(os_pages_purge(shared, os_page_size()));
    CHECK_EQ(*shared, 1);
    CHECK(os_pages_purge(pages, os_page_size()));
    CHECK_EQ(*pages, 0);
    CHECK_EQ(replaced, 0);
    CHECK(os_pages_unmap(pages, os_page_size()));
}

static size_t noted_bytes(const void *start) {
    for (unsigned i = 0; i < os_mappings_count; i++)
        if (os_mappings[i].start == (uintptr_t)start)
            return os_mappings[i].size;
    return 0;
}

int main(void) {
    size_t size = PAGES * os_page_size();
    char *pages;

    check_purge();
    pages = os_pages_map(size);
    CHECK(pages != NULL);
    CHECK_EQ(noted_bytes(pages), size);
    CHECK(!os_pages_unmap(pages, 0)); // the kernel refuses
    CHECK_EQ(noted_bytes(pages), size);
    CHECK(os_pages_unmap(pages, size));
    CHECK_EQ(noted_bytes(pages), 0);
    check_existence(false);
    check_existence(true);
    return 0;
}
