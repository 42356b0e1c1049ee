// A program that closes all descriptors, as daemons do, opens a file of its own, which then may have the number of the heap's file (option
// heap_source) or of the trace's: nothing is written to it, and no hole is made in it.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/pattern.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { EVENTS = 200000, OBJECTS = 3000, OBJECT_BYTES = 3000, OWN = 20, OWN_BYTES = 20 << 20, MOST_DESCRIPTORS = 256 };

static char content[OWN_BYTES];

static int open_own(void) {
    char name[] = "/tmp/vmag_heap_source_XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0);
    unlink(name);
    return file;
}

static void check_own(int file) {
    static char now[OWN_BYTES];
    struct stat status;
    CHECK_EQ(fstat(file, &status), 0);
    CHECK_EQ(status.st_size, OWN_BYTES);
    CHECK_EQ(pread(file, now, OWN_BYTES, 0), OWN_BYTES);
    CHECK(memcmp(now, content, OWN_BYTES) == 0);
}

int main(void) {
    static void *objects[OBJECTS];
    int own[OWN], count = 0;
    for (int i = 0; i < EVENTS; i++)
        free(malloc((size_t)i % OBJECT_BYTES));
    for (int i = 0; i < OBJECTS / 2; i++)
        CHECK((objects[count++] = malloc(OBJECT_BYTES)) != NULL);
    for (int file = STDERR_FILENO + 1; file < MOST_DESCRIPTORS; file++)
        close(file);
    pattern_fill(content, OWN_BYTES, 1);
    for (int i = 0; i < OWN; i++)
        own[i] = open_own();
    CHECK_EQ(write(own[0], content, OWN_BYTES), OWN_BYTES);
    for (; count < OBJECTS && (objects[count] = malloc(OBJECT_BYTES)) != NULL; count++)
        memset(objects[count], 1, OBJECT_BYTES);
    free(malloc(64 << 20));
    for (int i = 0; i < count; i++)
        free(objects[i]);
    check_own(own[0]);
    for (int i = 1; i < OWN; i++)
        CHECK_EQ(lseek(own[i], 0, SEEK_END), 0);
    return 0;
}
