// RLIMIT_AS set by the program itself, below what the process has of address space already: it goes on allocating, small, medium and
// large, with threads and in a child, up to what the limit leaves beside what the program itself has; and maps what it likes at once.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "../check.h"
#include "../support/child.h"
#include "../support/forbid.h"

enum { MEBIBYTE = 1 << 20, ROUNDS = 3, THREADS = 4, HELD = 2000 };

struct link {
    struct link *next;
};

static size_t address_space(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// Until there is none; gives all back, and tells how much there was.
static size_t take_all(size_t size) {
    struct link *chain = NULL;
    size_t bytes = 0;
    for (;; bytes += size) {
        errno = 0;
        struct link *block = malloc(size);
        if (block == NULL)
            break;
        memset(block, 0x5a, sizeof *block + 1);
        block->next = chain;
        chain = block;
    }
    CHECK_EQ(errno, ENOMEM);
    while (chain != NULL) {
        struct link *next = chain->next;
        CHECK_EQ(((char *)chain)[sizeof *chain], 0x5a);
        free(chain);
        chain = next;
    }
    return bytes;
}

static void check_size(size_t size, size_t least) {
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = take_all(size);
        CHECK_SAY(bytes >= least, "round %d: only %zu KiB in blocks of %zu, wanted %zu", round, bytes >> 10, size, least >> 10);
    }
}

// Never refused: all that the threads have is less than the limit leaves. While one of them gives address space back the others free.
static void *work(void *unused) {
    char *held[HELD] = {NULL};
    (void)unused;
    for (size_t i = 0; i < 200000; i++) {
        size_t size = 16 + i * 7919 % 3000;
        char *block = malloc(size);
        CHECK(block != NULL);
        block[0] = block[size - 1] = (char)i;
        free(held[i % HELD]);
        held[i % HELD] = block;
    }
    for (size_t i = 0; i < HELD; i++)
        free(held[i]);
    return NULL;
}

static void in_a_child(size_t least) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        check_size(1000, least);
        _exit(0);
    }
    expect_child(child);
}

// A later, larger limit: memory beyond what was covered is covered then.
static void much(size_t most) {
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = address_space() + most;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    check_size(50 * MEBIBYTE, most / 10 * 8);
    check_size(100000, most / 10 * 8);
}

// Where the program has something mapped among the addresses of the heap nothing is given back, until it has not any more.
static void check_taken(size_t least) {
    char *object = malloc(1);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *beyond = (char *)(((uintptr_t)object & ~(page - 1)) + ((size_t)192 << 30));
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    CHECK(mmap(beyond, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == beyond);
    limit.rlim_cur = 2 * least;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    CHECK(malloc(least / 2) == NULL && errno == ENOMEM);
    CHECK_EQ(munmap(beyond, page), 0);
    check_size(1000, least);
    free(object);
}

// What the program maps itself, when the heap has not asked for anything yet.
static void check_own(size_t least) {
    void *own = mmap(NULL, least, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(own != MAP_FAILED);
    CHECK_EQ(munmap(own, least), 0);
}

// A child that has its parent's memory sets a limit of its own: nothing of the parent's goes.
static void in_shared_memory(struct rlimit limit) {
    size_t before = address_space();
    pid_t child = vfork();

    if (child == 0)
        _exit(setrlimit(RLIMIT_AS, &limit) != 0);
    CHECK(child > 0 && waitpid(child, NULL, 0) == child);
    CHECK_GE(address_space(), before);
}

// A child that the C library knows nothing of, as vsftpd makes one for each session, has memory of its own.
static void in_a_clone(struct rlimit limit, size_t least) {
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

    CHECK(child >= 0);
    if (child == 0) {
        CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
        check_own(least);
        _exit(0);
    }
    expect_child(child);
}

// Such a child in a sandbox asks the system only if the limit is too small, and goes on when it is not told.
static void in_a_sandbox(struct rlimit limit) {
    struct rlimit ample = {3 * address_space(), limit.rlim_max};
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

    CHECK(child >= 0);
    if (child == 0) {
        forbid_call(SYS_unshare, SECCOMP_RET_ERRNO | EPERM);
        CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
        forbid_call(SYS_unshare, SECCOMP_RET_KILL);
        CHECK_EQ(setrlimit(RLIMIT_AS, &ample), 0);
        _exit(0);
    }
    expect_child(child);
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    bool threaded = count > 2 && strcmp(arguments[2], "threads") == 0, by_prlimit = count > 2 && strcmp(arguments[2], "prlimit") == 0;
    CHECK(count >= 2);
    size_t given = strtoul(arguments[1], NULL, 10) * MEBIBYTE, least = given / 2;
    struct rlimit limit;
    alarm(300);
    free(malloc(1));
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    if (address_space() < (size_t)300 * MEBIBYTE)
        return SKIPPED; // nothing is reserved that could be given back
    if (count > 2 && !threaded && !by_prlimit) {
        check_taken(least);
        return 0;
    }
    limit.rlim_cur = given;
    in_shared_memory(limit);
    in_a_clone(limit, least);
    in_a_sandbox(limit);
    if (by_prlimit)
        CHECK_EQ(prlimit(0, RLIMIT_AS, &limit, NULL), 0);
    else
        CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    check_own(least);
    for (int i = 0; threaded && i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; threaded && i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    for (size_t size = 40; size < MEBIBYTE; size *= 9)
        check_size(size, least);
    CHECK(malloc((size_t)100 << 30) == NULL && errno == ENOMEM);
    CHECK_SAY(address_space() <= given, "%zu KiB of address space", address_space() >> 10);
    check_size(3000000, least);
    in_a_child(least);
    much((size_t)1 << 30);
    return 0;
}
