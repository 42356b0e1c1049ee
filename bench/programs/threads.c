// One to a thousand threads: each replaces random objects of 16 to 1024 bytes in a table of its own, frees them all, and waits.
//
//   threads THREADS OPERATIONS     the operations are divided among the threads
//
// When all wait, nothing is live: what is resident beyond what was before the first malloc is what the allocator keeps cached.
// SPDX-License-Identifier: BSD-2-Clause
#include "program.h"

enum { TABLE = 64 };

static struct {
    pthread_barrier_t ready, done, measured;
    long operations;
    double began, ended;
    size_t before, after;
} shared;

static void replace(void **slot, uint64_t *random) {
    const size_t bytes = 16 + program_random(random) % 1009;
    free(*slot);
    *slot = program_touch(malloc(bytes), bytes);
}

static void work(unsigned number, void *argument) {
    (void)argument;
    void *table[TABLE] = {0};
    char stack[16 << 10]; // The stack is resident before the first measurement, not after it.
    memset(stack, 1, sizeof stack);
    __asm__ volatile("" : : "r"(stack) : "memory");
    uint64_t random = program_seed(number);
    if (pthread_barrier_wait(&shared.ready) == PTHREAD_BARRIER_SERIAL_THREAD) {
        shared.before = program_resident();
        shared.began = program_now();
    }
    pthread_barrier_wait(&shared.ready);
    for (long i = 0; i < shared.operations; i++) replace(&table[program_random(&random) % TABLE], &random);
    for (int i = 0; i < TABLE; i++) free(table[i]);
    if (pthread_barrier_wait(&shared.done) == PTHREAD_BARRIER_SERIAL_THREAD) {
        shared.ended = program_now();
        shared.after = program_resident();
    }
    pthread_barrier_wait(&shared.measured);
}

int main(int count, char **words) {
    const unsigned threads = (unsigned)program_number(words, count, 1, 1);
    shared.operations = program_number(words, count, 2, 4000000) / threads;
    pthread_barrier_init(&shared.ready, NULL, threads);
    pthread_barrier_init(&shared.done, NULL, threads);
    pthread_barrier_init(&shared.measured, NULL, threads);
    program_threads(threads, work, NULL);
    const double operations = (double)shared.operations * threads, cpu = program_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double cached = shared.after > shared.before ? (double)(shared.after - shared.before) : 0;
    printf("{\"per_second\":%.0f,\"cpu_ns\":%.2f,\"cached_bytes\":%.0f}\n", operations / (shared.ended - shared.began), cpu / operations * 1e9, cached);
}
