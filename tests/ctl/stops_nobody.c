// Reading statistics stops nobody: while one thread is held up in the middle of its report, or anywhere in a snapshot, others allocate, free,
// come and go, make arenas, read statistics themselves and fork.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../check.h"
#include "../support/child.h"
#include "jemalloc/jemalloc.h"

enum { SECONDS = 600, PIECES_BETWEEN = 3, INTERRUPTIONS = 200, PAIRS = 2000 };

static void count_piece(void *pieces, const char *piece) {
    *(unsigned *)pieces += piece[0] != '\0';
}

static void refresh(void) {
    uint64_t epoch = 1;

    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
}

static void allocate_all_sizes(void) {
    static const size_t sizes[] = { 1, 24, 100, 640, 3000, 14000, 50000, 100000, 3 << 20 };
    void *objects[9][20];

    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 20; j++)
            CHECK((objects[i][j] = malloc(sizes[i])) != NULL);
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 20; j++)
            free(objects[i][j]);
}

// What a thread may want of the allocator.
static void *want_everything(void *unused) {
    unsigned arena, pieces = 0;
    size_t size = sizeof arena;
    char name[64];
    pid_t child;

    allocate_all_sizes();
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    dallocx(mallocx(1000, MALLOCX_ARENA(arena)), 0);
    refresh();
    malloc_stats_print(count_piece, &pieces, "J");
    CHECK(pieces > 0);
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    snprintf(name, sizeof name, "arena.%u.destroy", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
    CHECK_EQ(mallctl("arena.4096.purge", NULL, NULL, NULL, 0), 0);
    child = fork();
    if (child == 0) {
        allocate_all_sizes();
        refresh();
        _exit(0);
    }
    expect_child(child);
    return unused;
}

static void hold_up(void *pieces, const char *piece) {
    pthread_t other;

    (void)piece;
    if ((*(unsigned *)pieces)++ % PIECES_BETWEEN != 0)
        return;
    CHECK_EQ(pthread_create(&other, NULL, want_everything, NULL), 0);
    CHECK_EQ(pthread_join(other, NULL), 0);
}

static void in_the_report(const char *letters) {
    unsigned pieces = 0;

    malloc_stats_print(hold_up, &pieces, letters);
    CHECK_SAY(pieces > PIECES_BETWEEN, "%u pieces", pieces);
}

/*
 * Wherever a reader is, in a lock or not, what magazines serve goes on.
 */

static atomic_bool done;
static atomic_uint held_up;
static sem_t wanted, served;

static void stay_here(int signal) {
    (void)signal;
    held_up++;
    sem_post(&wanted);
    while (sem_wait(&served) != 0)
        ;
}

static void *read_all_the_time(void *unused) {
    unsigned pieces = 0;

    while (!done) {
        refresh();
        malloc_stats_print(count_piece, &pieces, "J");
    }
    return unused;
}

static void pairs(void) {
    for (int i = 0; i < PAIRS; i++) {
        void *volatile object = malloc(64);
        free(object);
    }
}

static void anywhere(void) {
    struct sigaction action = { .sa_handler = stay_here };
    pthread_t reader;

    CHECK(sem_init(&wanted, 0, 0) == 0 && sem_init(&served, 0, 0) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    pairs();
    CHECK_EQ(pthread_create(&reader, NULL, read_all_the_time, NULL), 0);
    for (int i = 0; i < INTERRUPTIONS; i++) {
        CHECK_EQ(pthread_kill(reader, SIGUSR1), 0);
        while (sem_wait(&wanted) != 0)
            ;
        pairs();
        sem_post(&served);
        usleep(50 + (unsigned)i * 37 % 400);
    }
    done = true;
    pthread_join(reader, NULL);
    CHECK_EQ(held_up, INTERRUPTIONS);
}

int main(void) {
    alarm(SECONDS); // who is stopped never comes back
    in_the_report("J");
    in_the_report("");
    anywhere();
    return 0;
}
