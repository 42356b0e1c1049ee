// Arenas of a file, a memory file, huge pages and a node: what is written is in the file, objects come and go, unused pages
// become holes, destroyed arenas leave nothing behind, and children see what their parents write.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <vmag/arenas.h>

#include "../check.h"
#include "../support/pattern.h"
#include "../support/sizes.h"

enum { OBJECTS = 600 };
static const char before[] = "what was in the file before";

static int control(const char *format, int arena) {
    char name[64];

    snprintf(name, sizeof name, format, arena);
    return mallctl(name, NULL, NULL, NULL, 0);
}

static size_t size_of(int i) {
    return 1 + (size_t)i * 37 % 2500 + (i % 60 == 0 ? 200000u : 0);
}

static void check_in_file(int file, const unsigned char *object, size_t size) {
    static unsigned char bytes[300000];
    long long offset = vmag_arena_file_offset(object);

    CHECK(offset >= 0 && pread(file, bytes, size, offset) == (ssize_t)size);
    CHECK(memcmp(bytes, object, size) == 0);
}

static void churn(int arena, int file) {
    static unsigned char *objects[OBJECTS];
    uint64_t random = 7;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            objects[i] = mallocx(size_of(i), MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE | (i % 3 ? MALLOCX_ZERO : 0));
            CHECK(objects[i] != NULL && (i % 3 == 0 || objects[i][size_of(i) - 1] == 0));
            pattern_fill(objects[i], size_of(i), (uintptr_t)objects[i]);
        }
        if (file >= 0)
            for (int i = 0; i < OBJECTS; i += 7)
                check_in_file(file, objects[i], size_of(i));
        for (int left = OBJECTS; left > 0; left--) {
            size_t at = random_below(&random, (size_t)left);
            unsigned char *object = objects[at];

            pattern_verify_range(object, 0, 1, (uintptr_t)object);
            free(object);
            objects[at] = objects[left - 1];
        }
        CHECK_EQ(control("arena.%d.purge", arena), 0);
    }
}

// The device's blocks of a file, in bytes.
static size_t blocks(int file) {
    struct stat status;

    CHECK_EQ(fstat(file, &status), 0);
    return (size_t)status.st_blocks * 512;
}

static void check_file_arena(int arena) {
    int file = vmag_arena_file((unsigned)arena);

    CHECK(arena > 0 && file >= 0);
    churn(arena, file);
    char *shared = mallocx(5 << 20, MALLOCX_ARENA(arena));
    CHECK(shared != NULL && vmag_arena_file_offset(shared + (3 << 20)) == vmag_arena_file_offset(shared) + (3 << 20));
    memset(shared, 'a', 5 << 20);
    CHECK_GE(blocks(file), 5 << 20);
    pid_t child = fork();
    if (child == 0) {
        shared[100] = 'c';
        _exit(shared[5 << 19] != 'a');
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0 && shared[100] == 'c');
    free(shared);
    CHECK_EQ(control("arena.%d.purge", arena), 0);
    for (int i = 0; i < 1000 && blocks(file) > 2 << 20; i++) // the background thread may be giving it back just now
        usleep(10 * 1000);
    CHECK_LE(blocks(file), 2 << 20);
    CHECK_EQ(vmag_arena_file_offset(&file), -1);
    CHECK_EQ(errno, EINVAL);
    int kept = dup(file);
    CHECK_EQ(control("arena.%d.destroy", arena), 0);
    CHECK(fcntl(file, F_GETFD) == -1 && errno == EBADF);
    CHECK_EQ(vmag_arena_file((unsigned)arena), -1);
    close(kept);
}

static void named_file(void) {
    char path[] = "/tmp/vmag-arena-XXXXXX", bytes[sizeof before];
    int fd = mkstemp(path), arena;

    CHECK(fd >= 0 && write(fd, before, sizeof before) == sizeof before);
    arena = vmag_arena_create_file(path);
    CHECK_SAY(arena >= 0, "%s: %s", path, strerror(errno));
    check_file_arena(arena);
    check_file_arena(vmag_arena_create_fd(fd));
    CHECK(pread(fd, bytes, sizeof bytes, 0) == sizeof bytes && memcmp(bytes, before, sizeof before) == 0);
    close(fd);
    unlink(path);
    CHECK_EQ(vmag_arena_create_file("/nonexistent/file"), -1);
    CHECK_EQ(errno, ENOENT);
    CHECK_EQ(vmag_arena_create_fd(-1), -1);
    CHECK_EQ(errno, EBADF);
}

// A file that cannot grow gives no memory, and no signal.
static void full(void) {
    int sealed = memfd_create("sealed", MFD_ALLOW_SEALING), device = open("/dev/null", O_RDWR), arena;

    CHECK_EQ(fcntl(sealed, F_ADD_SEALS, F_SEAL_GROW), 0);
    arena = vmag_arena_create_fd(sealed);
    CHECK_GE(arena, 0);
    CHECK(mallocx(100, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE) == NULL);
    CHECK_EQ(control("arena.%d.destroy", arena), 0);
    close(sealed);
    CHECK_EQ(vmag_arena_create_fd(device), -1);
    CHECK_EQ(errno, ENODEV);
    close(device);
}

static void thread_in_it(void) {
    int arena = vmag_arena_create_memory_file("thread");
    unsigned id = (unsigned)arena, old = 0;
    size_t size = sizeof id;

    CHECK_EQ(mallctl("thread.arena", &old, &size, &id, sizeof id), 0);
    char *object = malloc(1000), *large = malloc(100000);
    CHECK(vmag_arena_file_offset(object) >= 0 && vmag_arena_file_offset(large) >= 0);
    object = realloc(object, 3 << 20);
    object = realloc(object, 9 << 20);
    CHECK_GE(vmag_arena_file_offset(object), 0);
    free(object);
    free(large);
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &old, sizeof old), 0);
    CHECK_EQ(control("arena.%d.destroy", arena), 0);
}

// fork's handlers do not run.
static pid_t clone_alone(void) {
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

// What a child gives back of its own accord is its parent's by then.
static void purged_by_a_child(pid_t (*make_child)(void)) {
    enum { SIZE = 40000 };
    static unsigned char *objects[OBJECTS];
    int arena = vmag_arena_create_memory_file("parent"), go[2], status;
    char byte = 0, name[64];
    ssize_t never = -1;
    bool off = false;

    CHECK_EQ(mallctl("background_thread", NULL, NULL, &off, sizeof off), 0); // which may hold locks while a child is made without fork
    snprintf(name, sizeof name, "arena.%d.dirty_decay_ms", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, &never, sizeof never), 0); // so that the child has something to give back
    CHECK_EQ(pipe(go), 0);
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = mallocx(SIZE, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE)) != NULL);
    for (int i = 0; i < OBJECTS; i++)
        free(memset(objects[i], 1, SIZE));
    pid_t child = make_child();
    CHECK_GE(child, 0);
    if (child == 0) {
        close(go[1]);
        CHECK_EQ(read(go[0], &byte, 1), 1);
        malloc_trim(0);
        CHECK_EQ(control("arena.%d.purge", arena), 0);
        CHECK_EQ(control("arena.%d.destroy", arena), 0);
        _exit(0);
    }
    for (int i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = mallocx(SIZE, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE)) != NULL);
        pattern_fill(objects[i], SIZE, (uintptr_t)objects[i]);
    }
    CHECK_EQ(write(go[1], &byte, 1), 1);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    for (int i = 0; i < OBJECTS; i++) {
        pattern_verify_range(objects[i], 0, SIZE, (uintptr_t)objects[i]);
        free(objects[i]);
    }
    close(go[0]);
    close(go[1]);
    CHECK_EQ(control("arena.%d.destroy", arena), 0);
}

int main(void) {
    named_file();
    purged_by_a_child(fork);
    purged_by_a_child(clone_alone);
    for (int i = 0; i < 12; i++) // windows come back
        check_file_arena(vmag_arena_create_memory_file("vmag test"));
    full();
    thread_in_it();
    int huge = vmag_arena_create_huge();
    CHECK_GE(huge, 0);
    churn(huge, -1);
    CHECK_EQ(control("arena.%d.destroy", huge), 0);
    int node = vmag_arena_create_node(0, 1);
    if (node >= 0) {
        churn(node, -1);
        CHECK_EQ(control("arena.%d.destroy", node), 0);
    } else
        say("no NUMA here: %s", strerror(errno));
    CHECK(vmag_arena_create_node(900, 1) == -1 && vmag_arena_create_node(100000, 0) == -1);
    return 0;
}
