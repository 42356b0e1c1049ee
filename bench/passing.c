// Objects that one thread allocates and another frees, and what it costs that the other one reads or writes them first.
//
//   cc -O2 -pthread -o passing bench/passing.c
//   LD_PRELOAD=build/lib/libvmag.so ./passing read [MESSAGES]     the consumer reads each object before it frees it, as in `prodcons` of the bench
//   LD_PRELOAD=build/lib/libvmag.so ./passing write [MESSAGES]    it writes to it
//   LD_PRELOAD=build/lib/libvmag.so ./passing leave [MESSAGES]    it leaves it alone
//   ./passing lines                                               without malloc: stores to lines that another processor has read or written
//
// Each of the two threads has a processor, the first two that the process may use. In nanoseconds an object or line: all; the producer's mallocs and first stores; the consumer's reads or
// stores and frees. What neither has is waiting for the other and the ring. Results: docs/experiments.md.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 64, OBJECTS = 16, SMALLEST = 16, LARGEST = 512, LINES = 1024, ROUNDS = 40, LIMIT_SECONDS = 60 };
enum use { READ, WRITE, LEAVE };

struct side {
    _Alignas(128) _Atomic uint64_t done; // messages
    uint64_t seen;                       // of the other side's
    uint64_t worked;                     // ns
};

static uint64_t *ring[SLOTS][OBJECTS] __attribute__((aligned(128)));
static struct side sender, receiver;
static uint64_t messages = 200000;
static enum use use;

static struct { _Alignas(128) volatile uint64_t word; } lines[LINES];
static _Alignas(128) _Atomic int turn; // 0: the storing thread's, 1: the other's, 2: the end

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Until the other side has done more than `needed`.
static void await(struct side *mine, const struct side *other, uint64_t needed) {
    for (unsigned waited = 1; mine->seen <= needed; waited++) {
        mine->seen = atomic_load_explicit(&other->done, memory_order_acquire);
        if (waited % 64 == 0) sched_yield();
    }
}

static void *produce(void *unused) {
    uint64_t random = 88172645463325252u;
    sender.seen = 0;
    for (uint64_t i = 0; i < messages; i++) {
        if (i >= SLOTS) await(&sender, &receiver, i - SLOTS);
        const uint64_t begun = now();
        for (int k = 0; k < OBJECTS; k++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            const size_t bytes = SMALLEST + random % (LARGEST - SMALLEST + 1);
            uint64_t *const object = malloc(bytes);
            if (object == NULL) abort();
            *(volatile uint64_t *)object = bytes;
            if (bytes > 64) ((volatile char *)object)[bytes - 1] = 1;
            ring[i % SLOTS][k] = object;
        }
        sender.worked += now() - begun;
        atomic_store_explicit(&sender.done, i + 1, memory_order_release);
    }
    return unused;
}

static void *consume(void *unused) {
    for (uint64_t i = 0; i < messages; i++) {
        await(&receiver, &sender, i);
        const uint64_t begun = now();
        for (int k = 0; k < OBJECTS; k++) {
            volatile uint64_t *const object = ring[i % SLOTS][k];
            if (use == WRITE) *object = 1;
            if (use == READ && *object == 0) abort();
            free((void *)object);
        }
        receiver.worked += now() - begun;
        atomic_store_explicit(&receiver.done, i + 1, memory_order_release);
    }
    return unused;
}

static void *use_lines(void *unused) {
    for (int whose; (whose = atomic_load(&turn)) != 2;) {
        if (whose == 0) continue;
        for (int i = 0; i < LINES && use != LEAVE; i++) {
            if (use == WRITE) lines[i].word = 1;
            if (use == READ && lines[i].word == UINT64_MAX) abort();
        }
        atomic_store(&turn, 0);
    }
    return unused;
}

// The least of some rounds; stores alone, and with each line asked for, in order to write, sixteen lines ahead.
static void *store_lines(void *unused) {
    static const char *const said[] = {"read", "written", "left alone"};
    for (int kind = 0; kind < 6; kind++) {
        uint64_t least = UINT64_MAX;
        use = (enum use)(kind / 2);
        for (int round = 0; round < ROUNDS; round++) {
            atomic_store(&turn, 1);
            while (atomic_load(&turn) != 0) continue;
            const uint64_t begun = now();
            for (int i = 0; i < LINES; i++) {
#ifdef __x86_64__
                if (kind % 2 == 1) __asm__ volatile("prefetchw %0" : : "m"(lines[(i + 16) % LINES].word));
#endif
                lines[i].word = (uint64_t)i;
            }
            atomic_thread_fence(memory_order_seq_cst);
            const uint64_t took = now() - begun;
            least = took < least ? took : least;
        }
        printf("%s by the other%s: %.1f ns a line\n", said[use], kind % 2 == 1 ? ", asked for" : "", (double)least / LINES);
    }
    atomic_store(&turn, 2);
    return unused;
}

// The number of the `which`th processor that this process may use; CPU_SETSIZE when there are fewer.
static int allowed(int which) {
    cpu_set_t all;
    int processor = 0;
    CPU_ZERO(&all);
    sched_getaffinity(0, sizeof all, &all);
    while (processor < CPU_SETSIZE && (!CPU_ISSET(processor, &all) || which-- > 0)) processor++;
    return processor;
}

static pthread_t start(int processor, void *(*work)(void *)) {
    pthread_attr_t attributes;
    pthread_t thread;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    pthread_attr_init(&attributes);
    if (pthread_attr_setaffinity_np(&attributes, sizeof one, &one) != 0 || pthread_create(&thread, &attributes, work, NULL) != 0) {
        fputs("passing: two processors are needed\n", stderr);
        exit(2);
    }
    return thread;
}

int main(int count, char **words) {
    const char *const what = count > 1 ? words[1] : "read";
    const int only_lines = strcmp(what, "lines") == 0;
    use = strcmp(what, "write") == 0 ? WRITE : strcmp(what, "leave") == 0 ? LEAVE : READ;
    if (count > 2) messages = strtoull(words[2], NULL, 10);
    alarm(LIMIT_SECONDS);
    const uint64_t begun = now();
    const pthread_t one = start(allowed(0), only_lines ? store_lines : produce), other = start(allowed(1), only_lines ? use_lines : consume);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    const double objects = (double)messages * OBJECTS;
    if (!only_lines) {
        printf("%s: %.1f, producer %.1f, consumer %.1f\n", what, (double)(now() - begun) / objects, (double)sender.worked / objects, (double)receiver.worked / objects);
    }
    return 0;
}
