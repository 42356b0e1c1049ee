// Clocks, resident memory, and memory for the program itself; nothing here calls malloc.
// SPDX-License-Identifier: BSD-2-Clause
#include "bench.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void fail(const char *why) {
    const char *const parts[] = {"bench: ", why, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0) break;
    }
    _exit(3);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static struct measure measure_now(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (struct measure){
        .cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID),
        .faults = (uint64_t)usage.ru_minflt,
        .wall_ns = clock_ns(CLOCK_MONOTONIC),
    };
}

// The number behind `label` in a small file of /proc, in kilobytes there, in bytes here. 0: not found.
static uint64_t proc_bytes(const char *path, const char *label) {
    char text[8192];
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    size_t length = 0;
    for (ssize_t got; length < sizeof text - 1 && (got = read(file, text + length, sizeof text - 1 - length)) > 0;) length += (size_t)got;
    close(file);
    text[length] = '\0';
    const char *const found = strstr(text, label);
    return found == NULL ? 0 : strtoull(found + strlen(label), NULL, 10) * 1024;
}

// smaps_rollup counts page by page; statm and VmRSS are approximate on many kernels.
uint64_t resident_bytes(void) {
    const uint64_t exact = proc_bytes("/proc/self/smaps_rollup", "\nRss:");
    return exact != 0 ? exact : proc_bytes("/proc/self/status", "\nVmRSS:");
}

__attribute__((noinline)) void use_stack(void) {
    volatile char room[4 * page_bytes];
    for (size_t at = 0; at < sizeof room; at += line_bytes) room[at] = 1;
}

static void sleep_seconds(double seconds) {
    struct timespec rest = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&rest, &rest) != 0) {
    }
}

// Functions that only a counting build of vmag has (src/os/count.h).
static void *counting(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

void measure_begin(struct bench *bench) {
    void (*const reset)(void) = (void (*)(void))counting("vmag_count_reset");
    if (reset != NULL) reset();
    bench->begin = measure_now();
}

void measure_end(struct bench *bench) {
    const struct measure end = measure_now();
    void (*const json)(char *, size_t) = (void (*)(char *, size_t))counting("vmag_count_json");
    if (json != NULL) json(bench->counts, sizeof bench->counts);
    bench->work = (struct measure){
        .wall_ns = end.wall_ns - bench->begin.wall_ns,
        .cpu_ns = end.cpu_ns - bench->begin.cpu_ns,
        .faults = end.faults - bench->begin.faults,
    };
    bench->cpu_total_ns = end.cpu_ns;
    bench->rss_end = resident_bytes();
    bench->rss_peak = proc_bytes("/proc/self/status", "\nVmHWM:");
    if (bench->rss_peak < bench->rss_end) bench->rss_peak = bench->rss_end;
    if (bench->settle_seconds <= 0) return;
    // Tells run.py that from here on we only sleep.
    if (write(STDOUT_FILENO, "resting\n", 8) != 8) fail("cannot write");
    sleep_seconds(bench->settle_seconds);
    bench->rss_settle = resident_bytes();
}

void *own_memory(struct bench *bench, size_t bytes) {
    const size_t whole = (bytes + page_bytes - 1) / page_bytes * page_bytes;
    void *const memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for the bench's own tables");
    bench->own_bytes += whole;
    return memory;
}
