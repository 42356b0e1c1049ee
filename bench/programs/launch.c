// Runs a command with an allocator preloaded and tells as one line of JSON what it cost: for all of its processes together.
//
//   launch [--preload FILE] [--cpu N] [--seconds N] [--no-huge-pages] RESULT COMMAND…
//
// Time and page faults are those of wait4, resident memory is the peak of the largest process. Cycles and instructions come from
// the kernel's counters where it has any: they are what other programs on the machine disturb least. A script cannot do this
// by itself: a process that it forks begins with the script's own peak.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <err.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNTERS = 2 };
static const uint64_t counted[COUNTERS] = {PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS};
static const char *const counted_names[COUNTERS] = {"user_cycles", "user_instructions"};

struct options {
    const char *preload, *result;
    int cpu, seconds, no_huge_pages;
    char **command;
};

static pid_t child;

static struct options read_options(char **word) {
    struct options options = {.cpu = -1, .seconds = 600};
    for (word++; *word != NULL && strncmp(*word, "--", 2) == 0; word++) {
        if (strcmp(*word, "--no-huge-pages") == 0) options.no_huge_pages = 1;
        else if (word[1] == NULL) break;
        else if (strcmp(*word, "--preload") == 0) options.preload = *++word;
        else if (strcmp(*word, "--cpu") == 0) options.cpu = atoi(*++word);
        else if (strcmp(*word, "--seconds") == 0) options.seconds = atoi(*++word);
    }
    if (word[0] == NULL || word[1] == NULL) errx(2, "usage: launch [--preload FILE] [--cpu N] [--seconds N] [--no-huge-pages] RESULT COMMAND…");
    options.result = word[0];
    options.command = word + 1;
    return options;
}

// Counts in user mode, in the process and all that it starts, from its exec on; -1 where there are no counters.
static int open_counter(pid_t process, uint64_t what) {
    struct perf_event_attr attributes = {.size = sizeof attributes, .type = PERF_TYPE_HARDWARE, .config = what, .disabled = 1, .inherit = 1, .exclude_kernel = 1, .exclude_hv = 1, .enable_on_exec = 1};
    attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return (int)syscall(SYS_perf_event_open, &attributes, process, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

// The count, or what it would have been had the counter not had to be shared; 0 when there is none.
static double read_counter(int counter) {
    uint64_t words[3];
    if (counter < 0 || read(counter, words, sizeof words) != sizeof words || words[2] == 0) return 0;
    return (double)words[0] * (double)words[1] / (double)words[2];
}

static void run_command(const struct options *options, int go) {
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL); // should this process be killed, which cannot end the command then
    if (read(go, &byte, 1) != 1) _exit(127);
    if (options->cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(options->cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    if (options->no_huge_pages) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (options->preload != NULL) setenv("LD_PRELOAD", options->preload, 1);
    execvp(options->command[0], options->command);
    warn("%s", options->command[0]);
    _exit(127);
}

static void end_command(int signal_number) {
    (void)signal_number;
    kill(-child, SIGKILL);
}

static double seconds_of(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec * 1e-6; }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int count, char **words) {
    (void)count;
    const struct options options = read_options(words);
    int go[2];
    if (pipe(go) != 0) err(2, "pipe");
    child = fork();
    if (child < 0) err(2, "fork");
    if (child == 0) {
        setpgid(0, 0);
        close(go[1]);
        run_command(&options, go[0]);
    }
    setpgid(child, child);
    int counters[COUNTERS];
    for (int i = 0; i < COUNTERS; i++) counters[i] = open_counter(child, counted[i]);
    signal(SIGALRM, end_command);
    signal(SIGTERM, end_command);
    signal(SIGINT, end_command);
    alarm((unsigned)options.seconds);
    const double began = now();
    if (write(go[1], "", 1) != 1) err(2, "write");
    struct rusage cost;
    int status;
    while (wait4(child, &status, 0, &cost) < 0) continue;
    const double wall = now() - began;

    FILE *const result = fopen(options.result, "w");
    if (result == NULL) err(2, "%s", options.result);
    fprintf(result, "{\"status\":%d,\"wall_seconds\":%.6f,\"user_seconds\":%.6f,\"system_seconds\":%.6f", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), wall, seconds_of(cost.ru_utime), seconds_of(cost.ru_stime));
    fprintf(result, ",\"peak_bytes\":%ld,\"minor_faults\":%ld,\"major_faults\":%ld", cost.ru_maxrss * 1024, cost.ru_minflt, cost.ru_majflt);
    for (int i = 0; i < COUNTERS; i++) fprintf(result, ",\"%s\":%.0f", counted_names[i], read_counter(counters[i]));
    fprintf(result, "}\n");
    return fclose(result) == 0 ? 0 : 2;
}
