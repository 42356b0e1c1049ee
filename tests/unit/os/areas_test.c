// The lines of code: those that tell where the program's and the C library's functions are, each with its build behind it, and whole ones however little room
// there is.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/areas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

enum { LINE_MOST = 1024 }; // bytes of one and its build, here

static char text[64 * 1024], whole[64 * 1024];
static int builds;

static bool is_told(uintptr_t address) {
    unsigned long start, end, again;
    char access[5], id[200];

    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, "build ", 6) == 0) {
            CHECK(sscanf(line, "build %lx %199[0-9a-f]\n", &again, id) == 2 && again == start && strlen(id) % 2 == 0);
            builds++;
            continue;
        }
        CHECK_EQ(sscanf(line, "%lx-%lx %4s", &start, &end, access), 3);
        CHECK(access[2] == 'x' && memchr(line, '/', (size_t)(strchr(line, '\n') - line)) != NULL);
        if (address - start < end - start)
            return true;
    }
    return false;
}

int main(void) {
    uintptr_t from = 0;
    size_t all = os_areas_copy_code(&from, text, sizeof text - 1);

    CHECK_EQ(from, 0);
    CHECK(all > 0 && all < sizeof text - 1 && text[all - 1] == '\n');
    text[all] = '\0';
    memcpy(whole, text, all);
    CHECK(is_told((uintptr_t)main) && is_told((uintptr_t)&qsort) && !is_told((uintptr_t)text) && builds > 0);
    for (size_t room = 0; room <= all; room++) {
        memset(text, '#', sizeof text);
        from = 0;
        size_t bytes = os_areas_copy_code(&from, text, room);
        CHECK(bytes <= room && text[room] == '#' && (bytes == 0 || text[bytes - 1] == '\n'));
        CHECK(room < all || bytes == all);
        CHECK_EQ(from != 0, bytes < all);
        if (room % 101 == 0 && room >= LINE_MOST) { // in pieces it is the same
            while (from != 0)
                bytes += os_areas_copy_code(&from, text + bytes, room < sizeof text - bytes ? room : sizeof text - bytes);
            CHECK(bytes == all && memcmp(text, whole, all) == 0);
        }
    }
    return 0;
}
