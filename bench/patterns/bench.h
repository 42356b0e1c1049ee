// What every pattern of the bench program may use: its description, measuring, its own memory, random numbers, touching.
//
// A pattern is one row of the table in table.c and one function. The function prepares, calls measure_begin, works,
// calls measure_end while it still holds what it means to keep, and then frees the rest. Only what lies between the
// two calls is timed; resident memory is that of the whole process.
//
// The program's own tables come from own_memory, never from malloc, and are filled in before the clock starts, so
// that each allocator meets exactly the same calls and the same foreign memory.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    page_bytes = 4096,
    line_bytes = 64,
    most_threads = 1024,
};

struct bench;

// One row of the table. `slots`, `smallest`, `largest` and `variant` mean what the pattern's function says.
struct pattern {
    const char *name;
    const char *group; // "speed": time matters most; "memory": what stays resident matters most
    void (*run)(struct bench *bench);
    unsigned threads;
    uint64_t operations; // default amount of work; 0: the pattern decides
    uint32_t slots;
    uint32_t smallest;
    uint32_t largest;
    int variant;
    const char *about;
};

extern const struct pattern patterns[];
const struct pattern *pattern_find(const char *name);

struct measure {
    uint64_t wall_ns;
    uint64_t cpu_ns; // of the whole process, user and system
    uint64_t faults; // minor page faults
};

struct bench {
    // Constant once the pattern runs.
    const struct pattern *pattern;
    uint64_t operations; // amount of work asked for
    uint64_t seed;
    double settle_seconds;

    // Written by the pattern.
    uint64_t operations_done;
    uint64_t live_peak; // bytes asked for and held, at most
    uint64_t live_end;  // bytes still held at measure_end
    int64_t per_thread; // bytes a thread costs; only the pattern for idle threads

    // Written by measure.c and where threads are started.
    uint64_t own_bytes;    // the program's own tables
    uint64_t thread_bytes; // what its threads have resident, stacks above all, before they allocate
    uint64_t rss_start;
    uint64_t rss_peak;
    uint64_t rss_end;
    uint64_t rss_settle;
    uint64_t cpu_total_ns; // since the process began
    struct measure begin;
    struct measure work;
    char counts[4096]; // JSON of a counting build between measure_begin and measure_end; else empty
};

// measure.c: clocks, resident memory, memory for the program itself.
void measure_begin(struct bench *bench);
// Stops the clocks, reads resident memory, then sleeps for settle_seconds and reads it again.
void measure_end(struct bench *bench);
uint64_t resident_bytes(void);
// Makes four pages of the calling thread's stack resident, as much as any malloc should need.
void use_stack(void);
// Zeroed, resident memory straight from the kernel, aligned to a page; stays until the program ends.
void *own_memory(struct bench *bench, size_t bytes);
_Noreturn void fail(const char *why);

// The patterns.
void run_pair(struct bench *bench);
void run_batch(struct bench *bench);
void run_replace(struct bench *bench);
void run_grow_many(struct bench *bench);
void run_grow_one(struct bench *bench);
void run_pass_queue(struct bench *bench);
void run_pass_around(struct bench *bench);
void run_swap(struct bench *bench);
void run_server(struct bench *bench);
void run_share_line(struct bench *bench);
void run_keep(struct bench *bench);
void run_phases(struct bench *bench);
void run_idle_threads(struct bench *bench);
void run_start_up(struct bench *bench);
void run_nothing(struct bench *bench);

// Random numbers: a counter in odd steps, mixed by one wide multiplication. Good enough to choose sizes and slots, and
// so short that it hides behind the allocator's own work.
struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random) {
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    const unsigned __int128 product = (unsigned __int128)random->state * UINT64_C(0xD6E8FEB86659FD93);
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

// A number below `limit`, from 32 random bits.
static inline uint32_t random_scale(uint32_t bits, uint32_t limit) {
    return (uint32_t)(((uint64_t)bits * limit) >> 32);
}

static inline uint32_t random_between(uint32_t bits, uint32_t smallest, uint32_t largest) {
    return smallest + random_scale(bits, largest - smallest + 1);
}

// Use an object as a program would that fills it in part: its first word, one word in every further page, its last
// word. Objects have at least 8 bytes.
static inline void touch(void *object, size_t bytes) {
    if (object == NULL) fail("out of memory");
    char *const bytes_of = object;
    *(volatile uint64_t *)object = bytes;
    for (size_t at = page_bytes; at + sizeof(uint64_t) <= bytes; at += page_bytes) *(volatile uint64_t *)(bytes_of + at) = at;
    if (bytes > line_bytes) bytes_of[bytes - 1] = (char)bytes;
}

#endif
