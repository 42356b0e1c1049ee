// A process that shuts itself in with what memory, threads and time need and nothing else: no question who it is, no file, no signals. It ends as with any
// other malloc, and where there is no memory it is told so.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void malloc_stats(void); // musl does not declare it

#if defined(__GLIBC__)
#define ALLOW_FORK ALLOW(NONE)
#elif defined(SYS_fork) // musl's fork asks for its child's number
#define ALLOW_FORK ALLOW_THREADS(SYS_fork), ALLOW_THREADS(SYS_gettid)
#else
#define ALLOW_FORK ALLOW_THREADS(SYS_gettid)
#endif
#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

enum { REFUSED = 3, WELL = 7, NONE = 0xffff, MIB = 1 << 20, MOST = 1 << 20 };

static unsigned allowed_too = NONE;

// `refused`: what answers ENOMEM. `threads`: for all threads, and with what is needed to begin and to end one, or a child. No child leaves here that the
// system has no filters for.
static void set_filter(unsigned refused, bool threads) {
#define ALLOW_THREADS(number) ALLOW(threads ? (unsigned)(number) : (unsigned)NONE)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        ALLOW(SYS_brk), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap), ALLOW(SYS_mprotect), ALLOW(SYS_madvise), ALLOW(SYS_getrandom), ALLOW(SYS_futex),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_close), ALLOW(SYS_clock_gettime), ALLOW(SYS_nanosleep), ALLOW(SYS_clock_nanosleep), ALLOW(SYS_exit),
        ALLOW(SYS_exit_group), ALLOW(allowed_too),
        ALLOW_THREADS(SYS_clone), ALLOW_THREADS(SYS_clone3), ALLOW_THREADS(SYS_set_robust_list), ALLOW_THREADS(SYS_rseq), ALLOW_THREADS(SYS_rt_sigprocmask),
        ALLOW_THREADS(SYS_sched_yield), ALLOW_THREADS(SYS_wait4), ALLOW_FORK,
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        (threads ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) != 0)
        _exit(REFUSED);
}

static void shut_in(unsigned refused) {
    set_filter(refused, false);
}

static void shut_all_in(void) {
    set_filter(NONE, true);
}

static void expect(pid_t child, const char *what) {
    int status;

    CHECK_GE(child, 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED)
        SKIP("the system has no filters of system calls");
    CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == WELL, "%s: status %#x", what, (unsigned)status);
}

static void use(size_t bytes) {
    char *objects[40];

    for (int i = 0; i < 40; i++)
        memset(objects[i] = malloc(bytes), 1, bytes);
    for (int i = 0; i < 40; i++)
        free(objects[i]);
}

// By exit, with the destructors.
static void ends(void) {
    pid_t child = fork();

    if (child == 0) {
        use(500);
        shut_in(NONE);
        use(50000);
        exit(WELL);
    }
    expect(child, "exit");
}

static void limit(int resource, size_t bytes) {
    struct rlimit most = {bytes, bytes};

    if (bytes > 0)
        CHECK_EQ(syscall(SYS_prlimit64, 0, resource, &most, NULL), 0); // the library is not told
}

// Until there is no more, and all of it back; `data`, `space`: limits, 0: none.
static void all_there_is(unsigned refused, size_t data, size_t space, size_t bytes) {
    pid_t child = fork();
    void **last = NULL, **next;
    int objects = 0;

    if (child == 0) {
        limit(RLIMIT_DATA, data);
        limit(RLIMIT_AS, space);
        shut_in(refused);
        errno = 0;
        for (; objects < MOST && (next = malloc(bytes)) != NULL; objects++, last = next)
            *next = last;
        if (objects == MOST || errno != ENOMEM)
            _exit(0);
        for (; last != NULL; last = next) {
            next = *last;
            free(last);
        }
        use(50);
        _exit(WELL);
    }
    expect(child, "no memory");
}

static void no_memory(void) {
    free(malloc(1));
    for (size_t bytes = 500; bytes < MIB; bytes *= 200) {
        all_there_is(NONE, 200 * MIB, 0, bytes);
        all_there_is(NONE, 0, (size_t)600 * MIB, bytes);
        all_there_is(SYS_mmap, 0, 0, bytes);
    }
}

// A limit of address space that it gives itself then.
static void limits(void) {
    const struct rlimit least = {(size_t)600 * MIB, (size_t)600 * MIB};
    pid_t child = fork();

    if (child == 0) {
        free(malloc(1));
        allowed_too = SYS_prlimit64;
        shut_in(NONE);
        CHECK_EQ(setrlimit(RLIMIT_AS, &least), 0);
        _exit(WELL);
    }
    expect(child, "setrlimit");
}

// Children that the C library tells nobody of, the parent's memory their own.
extern pid_t _Fork(void) __attribute__((weak)); // glibc 2.34

static int in_copy(void *unused) {
    (void)unused;
    shut_in(NONE);
    for (int i = 0; i < 4; i++)
        use(i % 2 == 0 ? 500 : 2 * MIB);
    _exit(WELL);
}

static void copies(void) {
    static char stack[256 << 10] __attribute__((aligned(16)));
    pid_t child;

    free(malloc(1));
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        in_copy(NULL);
    expect(child, "syscall(SYS_clone)");
    expect(clone(in_copy, stack + sizeof stack, SIGCHLD, NULL), "clone");
    if (_Fork == NULL)
        return;
    child = _Fork();
    if (child == 0)
        in_copy(NULL);
    expect(child, "_Fork");
}

// What the library tells is told: figures, and misuse, whatever becomes of the process then.
static void prints_figures(void) {
    malloc_stats();
    _exit(WELL);
}

static void frees_twice(void) {
    void *volatile object = malloc(3 << 20);

    free(object);
    free(object);
    _exit(0);
}

static int told(void (*tell)(void), const char *expected) {
    char text[4096];
    size_t length = 0;
    ssize_t got;
    int ends[2], status;
    pid_t child;

    CHECK_EQ(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        use(500);
        dup2(ends[1], STDERR_FILENO);
        close(ends[1]);
        shut_in(NONE);
        tell();
    }
    close(ends[1]);
    while (length < sizeof text - 1 && (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED)
        SKIP("the system has no filters of system calls");
    CHECK_SAY(strstr(text, expected) != NULL, "told: \"%s\", status %#x", text, (unsigned)status);
    return status;
}

static void tells(void) {
    int status = told(prints_figures, "metadata");

    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == WELL);
    CHECK(WIFSIGNALED(told(frees_twice, "vmag: free")));
}

// Threads, and then a filter for all of them: with the background thread, which is one by pthread_create then, and without.
enum { THREADS = 3, GARBAGE = 64 * MIB, STEP_US = 10000, LONG_US = 20000000, STILL_US = 1500000 };
static _Atomic bool may_go_on;
static _Atomic int begun;

static void *work(void *unused) {
    use(500);
    begun++;
    while (!may_go_on)
        usleep(STEP_US);
    use(3000);
    usleep(STILL_US); // long enough for a thread that sleeps
    use(500);
    return unused;
}

static int tasks(void) {
    DIR *folder = opendir("/proc/self/task");
    int count = -2; // . and ..

    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void wait_for_background(void) {
    for (int us = 0; tasks() != THREADS + 2; us += STEP_US) {
        CHECK_LE(us, LONG_US);
        free(memset(malloc(GARBAGE), 1, GARBAGE));
        usleep(STEP_US);
    }
}

static void in_threads(bool background) {
    pthread_t threads[THREADS], later;
    pid_t child;

    if (tasks() != 1)
        _exit(REFUSED); // an emulator with threads of its own
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, NULL), 0);
    use(500);
    while (begun < THREADS) // what a first allocation asks the system for is not to be asked for amid the filter's coming
        usleep(STEP_US);
    if (background)
        wait_for_background();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        _exit(REFUSED);
    CHECK_EQ(tasks(), THREADS + 1);
    shut_all_in();
    may_go_on = true;
    use(50000);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(pthread_create(&later, NULL, work, NULL), 0);
    CHECK_EQ(pthread_join(later, NULL), 0);
    child = fork();
    if (child == 0) {
        use(500);
        child = fork();
        if (child == 0)
            exit(WELL);
    }
    expect(child, "a fork");
    exit(WELL);
}

static void run_threads(bool background) {
    pid_t child = fork();

    if (child == 0)
        in_threads(background);
    expect(child, "threads");
}

static void with_background(void) {
    run_threads(true);
}

static void without_background(void) {
    run_threads(false);
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } cases[] = {
        {"exit", ends}, {"no_memory", no_memory}, {"limits", limits}, {"copies", copies}, {"tells", tells}, {"threads", with_background}, {"threads_alone", without_background},
    };

    alarm(120);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (count == 2 && strcmp(arguments[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    return 2;
}
#else
int main(void) {
    SKIP("no headers for filters of system calls");
}
#endif
