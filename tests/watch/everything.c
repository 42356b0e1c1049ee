// Threads that allocate and end, forks, dlopen and dlclose, exceptions, signals, sampling switched off and on, and a profile written
// every few megabytes, all at once.  `everything [SECONDS]`.  Passes when it comes to an end: no deadlock, no crash, no dump fails.
// SPDX-License-Identifier: BSD-2-Clause
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "../check.h"

enum { WORKERS = 3, OBJECTS = 2000, LIBRARIES = 2 };

static _Atomic int stop;
static _Atomic long forks, loads, threads, throws;

int throw_and_catch(int depth);
int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

static void churn(unsigned seed, int rounds) {
    static _Thread_local void *kept[OBJECTS];

    for (int i = 0; i < rounds && !stop; i++) {
        seed = seed * 1664525u + 1013904223u;
        unsigned at = (seed >> 8) % OBJECTS, size = (seed >> 20) % 64 == 0 ? 100000 + seed % 300000 : seed % 3000;
        if (seed >> 31)
            kept[at] = realloc(kept[at], size + 1);
        else {
            free(kept[at]);
            kept[at] = seed >> 30 & 1 ? malloc(size) : calloc(1, size);
        }
    }
    for (int i = 0; i < OBJECTS; i++) {
        free(kept[i]);
        kept[i] = NULL;
    }
}

static void *short_life(void *seed) {
    churn((unsigned)(size_t)seed, 5000);
    return NULL;
}

static void *work(void *argument) {
    for (unsigned i = 0; !stop; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, short_life, (void *)(size_t)(i * 31 + (unsigned)(size_t)argument)), 0);
        churn(i, 20000);
        pthread_join(thread, NULL);
        threads++;
    }
    return NULL;
}

static void *fork_often(void *unused) {
    while (!stop) {
        pid_t child = fork();
        if (child == 0) {
            churn(7, 3000);
            if (fork() == 0) {
                churn(8, 1000);
                _exit(0);
            }
            int status;
            wait(&status);
            _exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1);
        }
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        forks++;
    }
    return unused;
}

static void *load_often(void *unused) {
    static const char *const names[LIBRARIES] = { "libm.so.6", "libresolv.so.2" };
    for (int i = 0; !stop; i++) {
        void *library = dlopen(names[i % LIBRARIES], RTLD_NOW);
        if (library != NULL)
            dlclose(library);
        loads++;
    }
    return unused;
}

static void *throw_often(void *unused) {
    for (int i = 0; !stop; i++, throws++)
        CHECK(throw_and_catch(i % 20));
    return unused;
}

// Only of a process that samples: no test shall find a profile that it did not ask for.
static void *switch_often(void *unused) {
    bool active = false, before;
    size_t length = sizeof before;

    if (mallctl == NULL || mallctl("prof.active", &before, &length, NULL, 0) != 0 || !before)
        return unused;
    for (; !stop; active = !active) {
        CHECK_EQ(mallctl("prof.active", NULL, NULL, &active, sizeof active), 0);
        nanosleep(&(struct timespec){ 0, active ? 10000000 : 1000000 }, NULL);
    }
    active = true;
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &active, sizeof active), 0);
    return unused;
}

static void on_signal(int number) {
    (void)number;
}

int main(int argc, char **argv) {
    int seconds = argc > 1 ? atoi(argv[1]) : 5;
    struct itimerval often = { { 0, 2000 }, { 0, 2000 } };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    pthread_t all[WORKERS + 4];

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(pthread_create(&all[i], NULL, work, (void *)(size_t)(i + 1)), 0);
    CHECK_EQ(pthread_create(&all[WORKERS], NULL, fork_often, NULL), 0);
    CHECK_EQ(pthread_create(&all[WORKERS + 1], NULL, load_often, NULL), 0);
    CHECK_EQ(pthread_create(&all[WORKERS + 2], NULL, throw_often, NULL), 0);
    CHECK_EQ(pthread_create(&all[WORKERS + 3], NULL, switch_often, NULL), 0);
    for (time_t end = time(NULL) + seconds; time(NULL) < end;)
        nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
    stop = 1;
    for (int i = 0; i < WORKERS + 4; i++)
        pthread_join(all[i], NULL);
    say("%ld forks, %ld loads, %ld threads, %ld exceptions", forks, loads, threads, throws);
    return 0;
}
