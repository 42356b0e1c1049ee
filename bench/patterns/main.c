// The bench program: runs one pattern of malloc calls and prints what it cost as one line of JSON.
//
//   bench PATTERN [--operations N] [--scale FACTOR] [--threads N] [--seed N] [--settle SECONDS]
//   bench --list
//
// Only the malloc interface is used, and never by the program for itself: whichever allocator is preloaded does the
// work, and "malloc_from" names the file it came from.
// SPDX-License-Identifier: BSD-2-Clause
#include "bench.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: bench PATTERN [--operations N] [--scale FACTOR] [--threads N] [--seed N] [--settle SECONDS]\n"
    "       bench --list\n"
    "Runs one pattern of malloc calls and prints its cost as one line of JSON.\n"
    "  --operations N    amount of work instead of the pattern's own\n"
    "  --scale FACTOR    amount of work, as a multiple of the pattern's own\n"
    "  --threads N       threads instead of the pattern's own; each has its share of the work\n"
    "  --seed N          another sequence of random numbers (default 1)\n"
    "  --settle SECONDS  sleep at the end, holding what is live, and read resident memory again\n"
    "Examples:\n"
    "  bench rnd1k\n"
    "  LD_PRELOAD=build/lib/libvmag.so bench keep64 --settle 5\n";

// The file that provides every one of the functions we use, or a text that says they come from several.
static const char *malloc_from(void) {
    static const char *const names[] = {"malloc", "free", "calloc", "realloc", "aligned_alloc", "posix_memalign"};
    const char *file = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        Dl_info info;
        void *const function = dlsym(RTLD_DEFAULT, names[i]);
        if (function == NULL || dladdr(function, &info) == 0) return "unknown";
        if (file != NULL && strcmp(file, info.dli_fname) != 0) return "several files";
        file = info.dli_fname;
    }
    return file;
}

static void print_list(void) {
    for (const struct pattern *pattern = patterns; pattern->name != NULL; pattern++) {
        printf("{\"pattern\":\"%s\",\"group\":\"%s\",\"threads\":%u,\"about\":\"%s\"}\n", pattern->name, pattern->group, pattern->threads, pattern->about);
    }
}

static void print_result(const struct bench *bench) {
    const double operations = bench->operations_done > 0 ? (double)bench->operations_done : 1;
    printf("{\"pattern\":\"%s\",\"group\":\"%s\",\"threads\":%u,\"seed\":%" PRIu64 ",\"malloc_from\":\"%s\"", bench->pattern->name, bench->pattern->group, bench->pattern->threads, bench->seed, malloc_from());
    printf(",\"operations\":%" PRIu64 ",\"wall_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64, bench->operations_done, bench->work.wall_ns, bench->work.cpu_ns);
    printf(",\"ns_per_operation\":%.3f,\"cpu_ns_per_operation\":%.3f", (double)bench->work.wall_ns / operations, (double)bench->work.cpu_ns / operations);
    printf(",\"cpu_total_ns\":%" PRIu64 ",\"minor_faults\":%" PRIu64, bench->cpu_total_ns, bench->work.faults);
    printf(",\"live_peak\":%" PRIu64 ",\"live_end\":%" PRIu64 ",\"own_bytes\":%" PRIu64 ",\"thread_bytes\":%" PRIu64, bench->live_peak, bench->live_end, bench->own_bytes, bench->thread_bytes);
    printf(",\"rss_start\":%" PRIu64 ",\"rss_peak\":%" PRIu64 ",\"rss_end\":%" PRIu64, bench->rss_start, bench->rss_peak, bench->rss_end);
    if (bench->settle_seconds > 0) printf(",\"settle_seconds\":%g,\"rss_settle\":%" PRIu64, bench->settle_seconds, bench->rss_settle);
    if (bench->pattern->run == run_idle_threads) printf(",\"per_thread\":%" PRId64, bench->per_thread);
    if (bench->counts[0] != 0) printf(",\"counts\":%s", bench->counts);
    printf("}\n");
}

static void refuse(const char *what) {
    fprintf(stderr, "bench: %s\n%s", what, usage);
    exit(2);
}

static double number(const char *text) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || value < 0) refuse("a number of 0 or more is needed");
    return value;
}

// The pattern with another number of threads.
static const struct pattern *with_threads(const struct pattern *pattern, double threads) {
    static struct pattern changed;
    if (threads < 1 || threads > most_threads) refuse("so many threads cannot be");
    changed = *pattern;
    changed.threads = (unsigned)threads;
    return &changed;
}

static void read_option(struct bench *bench, const char *name, const char *value) {
    if (value == NULL) refuse("an option lacks its value");
    const double given = number(value);
    if (strcmp(name, "--operations") == 0) {
        bench->operations = (uint64_t)given;
    } else if (strcmp(name, "--scale") == 0) {
        bench->operations = (uint64_t)((double)bench->pattern->operations * given);
    } else if (strcmp(name, "--threads") == 0) {
        bench->pattern = with_threads(bench->pattern, given);
    } else if (strcmp(name, "--seed") == 0) {
        bench->seed = (uint64_t)given;
    } else if (strcmp(name, "--settle") == 0) {
        bench->settle_seconds = given;
    } else {
        refuse("no such option");
    }
}

int main(int count, char **arguments) {
    if (count < 2) refuse("which pattern?");
    if (strcmp(arguments[1], "--help") == 0) return fputs(usage, stdout) < 0;
    if (strcmp(arguments[1], "--list") == 0) {
        print_list();
        return 0;
    }
    struct bench bench = {.pattern = pattern_find(arguments[1]), .seed = 1};
    if (bench.pattern == NULL) refuse("no such pattern; see bench --list");
    bench.operations = bench.pattern->operations;
    for (int i = 2; i < count; i += 2) read_option(&bench, arguments[i], i + 1 < count ? arguments[i + 1] : NULL);
    bench.rss_start = resident_bytes();
    bench.pattern->run(&bench);
    print_result(&bench);
    return 0;
}
