// 24 MiB live at a time, 3 GiB in all, of ever other sizes: in a small memory cgroup this ends well only if freed memory is used again.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/resident.h"

enum { LIVE = 24 << 20, PHASES = 120, LEAST = 64, MOST = LIVE / LEAST };

int main(void) {
    static void *blocks[MOST];
    size_t size = LEAST;
    for (int phase = 0; phase < PHASES; phase++) {
        size_t count = LIVE / size;
        for (size_t i = 0; i < count; i++) {
            blocks[i] = malloc(size);
            CHECK(blocks[i] != NULL);
            pattern_fill_range(blocks[i], 0, size, (uintptr_t)blocks[i]);
        }
        for (size_t i = 0; i < count; i++) {
            pattern_verify(blocks[i], size, (uintptr_t)blocks[i]);
            free(blocks[i]);
        }
        size = size * 13 / 8 + 16;
        if (size > 5 << 20)
            size = LEAST + (size_t)phase;
    }
    say("peak %ld KiB", proc_kilobytes("/proc/self/status", "\nVmHWM:") / 1024);
    return 0;
}
