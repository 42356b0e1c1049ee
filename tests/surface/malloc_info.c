// malloc_info on stdout, for malloc_info.py to parse; unknown options are refused; a full disk is no crash.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"

int main(void) {
    void *blocks[1000];
    for (size_t i = 0; i < 1000; i++)
        blocks[i] = malloc(i * i);
    CHECK_NE(malloc_info(1, stdout), 0);
    FILE *full = fopen("/dev/full", "w");
    if (full != NULL) {
        malloc_info(0, full);
        fclose(full);
    }
    CHECK_EQ(malloc_info(0, stdout), 0);
    CHECK_EQ(fflush(stdout), 0);
    for (size_t i = 0; i < 1000; i++)
        free(blocks[i]);
    return 0;
}
