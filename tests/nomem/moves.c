// Large objects that realloc moves by mremap where the kernel refuses: for a part of the object that the program sealed or watches, or for want of
// mappings. Nothing of them is lost; and moved ones leave the program half of the mappings that it may have.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mapping_count.h"

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

enum { BYTES = 3 << 20, MORE_BYTES = 7 << 20, PART_AT = 1 << 20, PART_BYTES = 64 << 10, MANY = 26000, MANY_BYTES = 1200000 };

static char *part_of(char *object) {
    return object + PART_AT - (uintptr_t)object % 65536;
}

// The object is walled in, lest it grow where it is.
static char *object(char **wall) {
    char *made = malloc(BYTES);
    CHECK(made != NULL && (*wall = malloc(BYTES)) != NULL);
    memset(made, 7, BYTES);
    return made;
}

static void check_moved(char *made) {
    errno = 4711;
    char *moved = realloc(made, MORE_BYTES);
    size_t lost = 0;
    CHECK(moved != NULL);
    CHECK_EQ(errno, 4711);
    for (size_t i = 0; i < BYTES; i++)
        lost += moved[i] != 7;
    CHECK_EQ(lost, 0);
}

static void check_sealed(void) {
    char *wall, *made = object(&wall);
    if (syscall(SYS_mseal, part_of(made), PART_BYTES, 0) != 0)
        say("nothing can be sealed here: %s", strerror(errno));
    check_moved(made);
}

static void check_watched(void) {
    char *wall, *made = object(&wall);
    int watch = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = { .api = UFFD_API };
    struct uffdio_register part = { .range = { (uintptr_t)part_of(made), PART_BYTES }, .mode = UFFDIO_REGISTER_MODE_MISSING };
    if (watch < 0 || ioctl(watch, UFFDIO_API, &api) != 0 || ioctl(watch, UFFDIO_REGISTER, &part) != 0)
        say("nothing can be watched here: %s", strerror(errno));
    check_moved(made);
    close(watch);
}

// The program's own advice split the object; a few mappings are left.
static void check_split(int left) {
    char *wall, *made = object(&wall);
    for (int i = 1; i < 12; i += 2)
        CHECK_EQ(madvise(part_of(made) + i * PART_BYTES, PART_BYTES, MADV_DONTDUMP), 0);
    char *pages = use_up();
    CHECK_EQ(munmap(pages, (size_t)left * (size_t)sysconf(_SC_PAGESIZE)), 0);
    check_moved(made);
}

static void in_child(int left) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        check_split(left);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_SAY(status == 0, "with %d mappings left", left);
}

static void check_many(void) {
    static char *objects[MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK((objects[i] = malloc(MANY_BYTES)) != NULL);
        objects[i][0] = objects[i][MANY_BYTES - 1] = (char)i;
    }
    for (int i = 0; i < MANY; i++) {
        CHECK((objects[i] = realloc(objects[i], 2 * MANY_BYTES)) != NULL);
        CHECK(objects[i][0] == (char)i && objects[i][MANY_BYTES - 1] == (char)i);
    }
    say("%ld mappings of %ld", mappings(), allowed());
    CHECK_LT(mappings(), allowed() / 4 * 3);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (strcmp(what, "sealed") == 0)
        check_sealed();
    else if (strcmp(what, "watched") == 0)
        check_watched();
    else if (strcmp(what, "split") == 0)
        for (int left = 1; left <= 16; left++)
            in_child(left);
    else
        check_many();
    return 0;
}
