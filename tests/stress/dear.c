// Holes where chunks begin, taken while huge pages are dear at one moment and not at the next (pages/dear.h): the clock that tells is this program's, and says
// anything. What lies behind a hole stays as it is. (The first version of 0062 touched it.)
// SPDX-License-Identifier: BSD-2-Clause
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { OBJECT = 20 * 1024, OBJECTS = 10000, CHUNK = 2 << 20, FILL = 0xa5 };

static unsigned char *objects[OBJECTS];

int malloc_trim(size_t pad); // which not every C library declares

uint64_t __wrap_os_clock_thread_ns(void);

uint64_t __wrap_os_clock_thread_ns(void) {
    static _Atomic uint64_t calls, now;
    uint64_t word = atomic_fetch_add(&calls, 1) * UINT64_C(0x9e3779b97f4a7c15);

    word ^= word >> 31;
    return atomic_fetch_add(&now, UINT64_C(1) << (word % 24)); // to 8 ms
}

static unsigned char *make(size_t size) {
    unsigned char *object = malloc(size);

    CHECK(object != NULL);
    return memset(object, FILL, size);
}

int main(void) {
    unsigned holes = 0;

    for (int i = 0; i < OBJECTS; i++)
        objects[i] = make(OBJECT);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < OBJECTS; i++)
            if ((uintptr_t)objects[i] % CHUNK == 0) {
                free(objects[i]);
                objects[i] = NULL;
                holes++;
            }
        malloc_trim(0); // what is taken there again counts as fresh
        for (int i = 0; i < OBJECTS; i++)
            if (objects[i] == NULL) {
                make(CHUNK); // stays, so that a fresh chunk tells what huge pages take
                objects[i] = make(OBJECT);
            }
        for (int i = 0; i < OBJECTS; i++)
            for (int at = 0; at < OBJECT; at++)
                CHECK_EQ(objects[i][at], FILL);
    }
    CHECK_LE(100, holes);
    return 0;
}
