// What the programs of the experiments share: a clock, random numbers, resident memory, threads that begin together.
// Nothing here allocates. SPDX-License-Identifier: BSD-2-Clause
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static inline double program_seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static inline double program_now(void) { return program_seconds(CLOCK_MONOTONIC); }

static inline void program_sleep(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

// xorshift64*; the state is never 0.
static inline uint64_t program_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static inline uint64_t program_seed(uint64_t number) { return (number + 1) * UINT64_C(0x9E3779B97F4A7C15); }

// Private resident bytes, without the pages of files that others map, too: the anonymous ones.
static inline size_t program_resident(void) {
    char text[4096];
    const int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    const ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    const char *const line = strstr(text, "\nAnonymous:");
    return line == NULL ? 0 : strtoull(line + 11, NULL, 10) * 1024;
}

// Zeroed memory that no allocator sees; resident at once, so that it does not grow in between.
static inline void *program_table(size_t bytes) {
    void *const table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) err(2, "mmap");
    return table;
}

// A program writes what it allocates: the first word, the last byte, and a word a page.
static inline void *program_touch(void *object, size_t bytes) {
    if (object == NULL) errx(2, "no memory for %zu bytes", bytes);
    for (size_t at = 0; at < bytes; at += 4096) ((volatile char *)object)[at] = (char)at;
    ((volatile char *)object)[bytes - 1] = 1;
    return object;
}

static inline long program_number(char **words, int count, int index, long otherwise) { return index < count ? atol(words[index]) : otherwise; }

// Runs `work(number, argument)` in `threads` threads that begin together; returns the seconds from the first one's beginning to the last
// one's end, which the threads tell themselves: on a busy machine the starter is late to see either.
struct program_crew {
    pthread_barrier_t start;
    void (*work)(unsigned number, void *argument);
    void *argument;
};
struct program_member {
    struct program_crew *crew;
    unsigned number;
    double began, ended;
};

static inline void *program_member_run(void *argument) {
    struct program_member *const member = argument;
    pthread_barrier_wait(&member->crew->start);
    member->began = program_now();
    member->crew->work(member->number, member->crew->argument);
    member->ended = program_now();
    return NULL;
}

static inline double program_threads(unsigned threads, void (*work)(unsigned number, void *argument), void *argument) {
    struct program_crew crew = {.work = work, .argument = argument};
    pthread_t *const ids = program_table(threads * sizeof *ids);
    struct program_member *const members = program_table(threads * sizeof *members);
    pthread_attr_t attributes;
    pthread_barrier_init(&crew.start, NULL, threads);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (unsigned i = 0; i < threads; i++) {
        members[i] = (struct program_member){&crew, i, 0, 0};
        if (pthread_create(&ids[i], &attributes, program_member_run, &members[i]) != 0) errx(2, "thread %u could not start", i);
    }
    for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    double began = members[0].began, ended = members[0].ended;
    for (unsigned i = 1; i < threads; i++) {
        if (members[i].began < began) began = members[i].began;
        if (members[i].ended > ended) ended = members[i].ended;
    }
    munmap(ids, threads * sizeof *ids);
    munmap(members, threads * sizeof *members);
    return ended - began;
}

#endif
