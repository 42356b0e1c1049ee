// A process that falls idle after a peak gives its memory back without another allocator call.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/resident.h"

#include <time.h>

enum { BLOCKS = 20000, SIZE = 4000, MEBIBYTE = 1 << 20, SECONDS = 60 };

int main(void) {
    static void *blocks[BLOCKS];
    long before = anonymous_bytes();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, SIZE);
    }
    CHECK_GE(anonymous_bytes() - before, (long)BLOCKS * SIZE);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    long left = 0;
    for (int second = 0; second < SECONDS; second++) {
        struct timespec pause = {1, 0};
        nanosleep(&pause, NULL);
        left = anonymous_bytes() - before;
        say("%2d s after the peak: %+ld KiB", second + 1, left / 1024);
        if (left < 2 * MEBIBYTE)
            return 0;
    }
    CHECK_LT(left, 2 * MEBIBYTE);
    return 0;
}
