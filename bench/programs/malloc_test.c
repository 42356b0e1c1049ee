// malloc-test (Lever and Boreham; 2006, Figure 6): threads that allocate and free one object at a time in a tight loop, and nothing else.
//
//   malloc_test THREADS CYCLES BYTES     the cycles are divided among the threads
//
// Also the measure of 2001, Figure 6.2, with another size. Written from the papers' descriptions.
// SPDX-License-Identifier: BSD-2-Clause
#include "program.h"

struct loop {
    long cycles;
    size_t bytes;
};

static void work(unsigned number, void *argument) {
    (void)number;
    const struct loop *const loop = argument;
    for (long i = 0; i < loop->cycles; i++) {
        char *const object = malloc(loop->bytes);
        if (object == NULL) errx(2, "no memory");
        *(volatile char *)object = 1;
        free(object);
    }
}

int main(int count, char **words) {
    const long threads = program_number(words, count, 1, 1), cycles = program_number(words, count, 2, 40000000);
    struct loop loop = {cycles / threads, (size_t)program_number(words, count, 3, 512)};
    const double seconds = program_threads((unsigned)threads, work, &loop), cpu = program_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double done = (double)(loop.cycles * threads);
    printf("{\"per_second\":%.0f,\"cpu_ns\":%.3f}\n", done / seconds, cpu / done * 1e9);
}
