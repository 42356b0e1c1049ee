// A loop of pairs of malloc and free: `counters PAIRS [counted]`, counted: with the exact counters of the thread, checked at the end.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);

int main(int count, char **arguments) {
    long pairs = count > 1 ? atol(arguments[1]) : 1000;
    uint64_t none = 0, *allocated = &none, before;
    size_t size = sizeof allocated;
    void *volatile object = malloc(64);

    free(object);
    if (count > 2 && mallctl("thread.allocatedp", &allocated, &size, NULL, 0) != 0)
        return 1;
    before = *allocated;
    for (long i = 0; i < pairs; i++) {
        object = malloc(64);
        free(object);
    }
    return count > 2 && *allocated - before != (uint64_t)pairs * 64;
}
