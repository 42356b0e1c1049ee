// Whose malloc this is: every entry point comes from this library, and a C program has no libstdc++ in its map.
// The build defines EXPECTED_HOME: part of the path of the file that must contain the family.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/family.h"

#include <dlfcn.h>

static void check_home(const char *name) {
    void *entry = dlsym(RTLD_DEFAULT, name);
    CHECK_SAY(entry != NULL, "%s is not visible", name);
    Dl_info information;
    CHECK(dladdr(entry, &information) != 0 && information.dli_fname != NULL);
    CHECK_SAY(strstr(information.dli_fname, EXPECTED_HOME) != NULL, "%s comes from %s, not from %s", name,
              information.dli_fname, EXPECTED_HOME);
}

static void check_no_cxx_runtime(void) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        CHECK_SAY(strstr(line, "libstdc++") == NULL, "a C program has libstdc++ loaded: %s", line);
    fclose(maps);
}

int main(void) {
    static const char *const family[] = {"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "memalign",
                                         "valloc", "pvalloc", "malloc_usable_size", "reallocarray", "free_sized",
                                         "free_aligned_sized", "malloc_trim", "mallopt", "mallinfo", "mallinfo2",
                                         "malloc_info", "malloc_stats"};
    // Mentioning each makes the static variant link each.
    static void *volatile used[] = {(void *)malloc, (void *)calloc, (void *)realloc, (void *)free, (void *)aligned_alloc,
                                    (void *)posix_memalign, (void *)memalign, (void *)valloc, (void *)pvalloc,
                                    (void *)malloc_usable_size, (void *)reallocarray, (void *)free_sized,
                                    (void *)free_aligned_sized, (void *)malloc_trim, (void *)mallopt, (void *)mallinfo,
                                    (void *)mallinfo2, (void *)malloc_info, (void *)malloc_stats};
    for (size_t i = 0; i < sizeof family / sizeof *family; i++) {
        CHECK(used[i] != NULL);
        check_home(family[i]);
    }
    check_no_cxx_runtime();
    return 0;
}
