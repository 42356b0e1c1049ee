// Memory after the peak: four threads build up LIVE_MIB of small and medium objects; of ten stretches of 2000 objects nine die; then the program does
// little: nothing at all ("idle"), or a thousand short-lived objects a second ("light"). Resident memory is told as time passes.
//
//   peak idle|light LIVE_MIB SECONDS
//
// SPDX-License-Identifier: BSD-2-Clause
#include "program.h"

enum { THREADS = 4, STRETCH = 2000, KEEP = 10 };

static struct {
    size_t target;
    void **tables[THREADS];
    size_t kept_bytes[THREADS];
    pthread_barrier_t built, thinned, measured;
    size_t peak;
} shared;

// What survives was made together, as the tables of a program are that it keeps: an allocator can have most of it side by side.
static void work(unsigned number, void *argument) {
    (void)argument;
    uint64_t random = program_seed(number);
    const size_t most = shared.target / THREADS / 64;
    void **const table = shared.tables[number] = program_table(most * sizeof *table);
    size_t *const sizes = program_table(most * sizeof *sizes);
    size_t count = 0;
    for (size_t live = 0; live < shared.target / THREADS && count < most; count++) {
        const uint64_t word = program_random(&random);
        sizes[count] = word % 50 == 0 ? 4096 + (word >> 8) % 60000 : 16 + (word >> 8) % 500;
        table[count] = program_touch(malloc(sizes[count]), sizes[count]);
        live += sizes[count];
    }
    if (pthread_barrier_wait(&shared.built) == PTHREAD_BARRIER_SERIAL_THREAD) shared.peak = program_resident();
    pthread_barrier_wait(&shared.thinned);
    for (size_t i = 0; i < count; i++) {
        if (i / STRETCH % KEEP == KEEP - 1) shared.kept_bytes[number] += sizes[i];
        else free(table[i]);
    }
    munmap(sizes, most * sizeof *sizes);
}

static void rest(int light, double seconds) {
    const double until = program_now() + seconds;
    uint64_t random = program_seed(99);
    while (program_now() < until) {
        program_sleep(light ? 0.01 : until - program_now());
        for (int i = 0; light && i < 10; i++) {
            const size_t bytes = 16 + program_random(&random) % 500;
            free(program_touch(malloc(bytes), bytes));
        }
    }
}

int main(int count, char **words) {
    const int light = count > 1 && strcmp(words[1], "light") == 0;
    shared.target = (size_t)program_number(words, count, 2, 256) << 20;
    const double seconds = (double)program_number(words, count, 3, 60);
    pthread_barrier_init(&shared.built, NULL, THREADS);
    pthread_barrier_init(&shared.thinned, NULL, THREADS);
    static char buffer[1 << 12];
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    free(malloc(1)); // The allocator's first steps are not what is measured.
    const size_t base = program_resident();
    program_threads(THREADS, work, NULL);
    const size_t tables = THREADS * (shared.target / THREADS / 64) * sizeof(void *);
    size_t kept = 0;
    for (int i = 0; i < THREADS; i++) kept += shared.kept_bytes[i];
    const double began = program_now();
    for (double at = 0; at <= seconds; at = at < 1 ? at + 1 : at * 2 > seconds && at < seconds ? seconds : at * 2) {
        rest(light, began + at - program_now());
        printf("{\"seconds\":%.1f,\"live_bytes\":%zu,\"resident_bytes\":%zu,\"peak_bytes\":%zu}\n", at, kept, program_resident() - tables - base, shared.peak);
    }
}
