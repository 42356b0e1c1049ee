// The background thread of a process of one thread is one that the C library does not know of: that goes on leaving out locks. It is gone before the process's
// identity changes, gives way to one by pthread_create when the program has threads, and calls nothing of the program's.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"
#include "../support/family.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jemalloc/jemalloc.h"
#include "vmag/cache.h"

extern char __libc_single_threaded __attribute__((weak));

enum { MIB = 1 << 20, GARBAGE = 16 * MIB, LITTLE_MS = 20, LONG_MS = 30000, ROUNDS = 50, NOBODY = 65534, FORKS = 300, OBJECTS = 4000 };

static void pause_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};

    while (nanosleep(&left, &left) != 0)
        CHECK_EQ(errno, EINTR);
}

// Without an allocation, which might start one.
static int threads(void) {
    char entries[4096];
    int directory = open("/proc/self/task", O_RDONLY | O_DIRECTORY), count = 0;
    long bytes;

    CHECK_GE(directory, 0);
    while ((bytes = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0)
        for (long at = 0; at < bytes; at += *(unsigned short *)(void *)(entries + at + 16)) // struct linux_dirent64
            count += entries[at + 19] != '.';
    close(directory);
    return count;
}

// The one that is not the first, 0: there is none.
static pid_t second(void) {
    DIR *tasks = opendir("/proc/self/task");
    pid_t found = 0;

    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        if (atoi(task->d_name) > 0 && atoi(task->d_name) != getpid())
            found = atoi(task->d_name);
    closedir(tasks);
    return found;
}

static size_t resident(void) {
    FILE *statm = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    CHECK(statm != NULL && fscanf(statm, "%*u %zu", &pages) == 1);
    fclose(statm);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void leave_garbage(size_t bytes) {
    free(memset(malloc(bytes), 1, bytes));
    free(malloc(64));
}

static void wait_for_threads(int count) {
    for (int ms = 0; threads() != count; ms += LITTLE_MS) {
        CHECK_SAY(ms < LONG_MS, "%d threads, not %d", threads(), count);
        leave_garbage(2 * MIB);
        pause_ms(LITTLE_MS);
    }
}

// It gives back what an idle process left, and is gone then; errno and signals are none of its business.
static void handle(int number) {
    (void)number;
    CHECK_EQ(syscall(SYS_gettid), getpid());
}

static void gives_back(void) {
    size_t before, peak;
    int ms = 0;

    signal(SIGUSR1, handle);
    before = resident();
    leave_garbage(4 * GARBAGE);
    wait_for_threads(2);
    peak = resident();
    CHECK_LE(before + GARBAGE, peak);
    errno = EDOM;
    for (; resident() > before + GARBAGE / 4; ms += LITTLE_MS) {
        CHECK_LE(ms, LONG_MS);
        kill(getpid(), SIGUSR1);
        pause_ms(LITTLE_MS);
    }
    CHECK_EQ(__libc_single_threaded, 1);
    for (; threads() > 1; ms += LITTLE_MS) { // nothing is left, and nobody is to find a second thread
        CHECK_LE(ms, LONG_MS);
        pause_ms(LITTLE_MS);
    }
    wait_for_threads(2);
}

// Of all threads in the kernel: the same in each.
static void users_are(long user, long group) {
    DIR *tasks = opendir("/proc/self/task");
    char path[300], line[256];

    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        long ids[4], seen = 0;
        FILE *status;

        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        status = fopen(path, "r");
        CHECK(status != NULL);
        while (fgets(line, sizeof line, status) != NULL)
            for (int which = 0; which < 2; which++)
                if (sscanf(line, which == 0 ? "Uid: %ld %ld %ld %ld" : "Gid: %ld %ld %ld %ld", &ids[0], &ids[1], &ids[2], &ids[3]) == 4) {
                    seen++;
                    for (int i = 0; i < 3; i++)
                        CHECK_EQ(ids[i], which == 0 ? user : group);
                }
        CHECK_EQ(seen, 2);
        fclose(status);
    }
    closedir(tasks);
}

enum change { SETUID, SETGID, SETEUID, SETEGID, SETREUID, SETREGID, SETRESUID, SETRESGID, SETGROUPS, INITGROUPS, AMBIENT, UNSHARE, CHANGES };

static int make(enum change change, uid_t user, gid_t group) {
    switch (change) {
    case SETUID: return setuid(user);
    case SETGID: return setgid(group);
    case SETEUID: return seteuid(user);
    case SETEGID: return setegid(group);
    case SETREUID: return setreuid(user, user);
    case SETREGID: return setregid(group, group);
    case SETRESUID: return setresuid(user, user, user);
    case SETRESGID: return setresgid(group, group, group);
    case SETGROUPS: return setgroups(0, NULL);
    case INITGROUPS: return initgroups("root", group);
    case AMBIENT: return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    default: return unshare(0);
    }
}

static pid_t begin(void (*function)(void)) {
    pid_t child = fork();

    CHECK_GE(child, 0);
    if (child == 0) {
        function();
        _exit(0);
    }
    return child;
}

static void end(pid_t child) {
    int status;

    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void in_child(void (*function)(void)) {
    end(begin(function));
}

// Whoever we are, what changes nothing is allowed, but for groups.
static void gone_before_changes(void) {
    for (enum change change = 0; change < CHANGES; change++) {
        pid_t before;
        int result;

        wait_for_threads(2);
        before = second();
        result = make(change, getuid(), getgid());
        CHECK_NE(second(), before);
        CHECK_SAY(result == 0 || ((change == SETGROUPS || change == INITGROUPS) && errno == EPERM), "change %d: errno %d", change, errno);
    }
    CHECK(seteuid((uid_t)-1) == -1 && errno == EINVAL);
    CHECK(setegid((gid_t)-1) == -1 && errno == EINVAL);
}

// What is refused shuts nobody in: so programs ask whether there are filters of system calls. Nor does what a child does that shares the memory.
static void asks_for_filters(void) {
    struct { unsigned short instructions; void *filter; } none = {0, NULL};
    pid_t child;

    leave_garbage(4 * GARBAGE);
    CHECK_EQ(threads(), 2);
    CHECK_EQ(prctl(PR_SET_SECCOMP, 2 /* SECCOMP_MODE_FILTER */, NULL, 0, 0), -1);
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), -1);
    CHECK_EQ(threads(), 2);
    CHECK_EQ(prctl(PR_SET_SECCOMP, 2, &none, 0, 0), -1); // refused: what was left is not kept
    CHECK_EQ(threads(), 2);
    child = vfork();
    if (child == 0)
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK_GE(child, 0);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    wait_for_threads(2);
}

// It is, and its children are, once it has what a filter needs.
static void shuts_itself_in(void) {
    wait_for_threads(2);
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(threads(), 1);
    for (int i = 0; i < 20; i++) {
        leave_garbage(2 * MIB);
        pause_ms(LITTLE_MS);
    }
    CHECK_EQ(threads(), 1);
    CHECK_EQ(malloc_trim(0), 1);
}

// Nor is there one with what the process gave up.
static void becomes_nobody(void) {
    wait_for_threads(2);
    CHECK_EQ(setgroups(0, NULL), 0);
    CHECK_EQ(setgid(NOBODY), 0);
    CHECK_EQ(setuid(NOBODY), 0);
    users_are(NOBODY, NOBODY);
    wait_for_threads(2);
    users_are(NOBODY, NOBODY);
    CHECK(setuid(0) == -1 && errno == EPERM);
}

static void has_user_namespace(void) {
    if (unshare(CLONE_NEWUSER) != 0)
        _exit(SKIPPED);
}

static void has_user_namespace_with_garbage(void) {
    wait_for_threads(2);
    CHECK_EQ(unshare(CLONE_NEWUSER), 0);
}

static void user_namespace(void) {
    int status;
    pid_t child = fork();

    if (child == 0) {
        has_user_namespace();
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status == 0)
        in_child(has_user_namespace_with_garbage);
    else
        say("no user namespaces here");
}

// Which thread it is to the C library: in one that it does not know of, not the kernel's.
static void known_to_c_library(void) {
    clockid_t clock;

    CHECK_EQ(pthread_getcpuclockid(pthread_self(), &clock), 0);
    CHECK_EQ(~(clock >> 3), syscall(SYS_gettid));
}

// What was left when it was dismissed goes, too.
static void gives_back_after_change(void) {
    size_t before = resident();

    leave_garbage(4 * GARBAGE);
    CHECK_EQ(setuid(getuid()), 0);
    for (int ms = 0; resident() > before + GARBAGE; ms += LITTLE_MS) {
        CHECK_LE(ms, LONG_MS);
        pause_ms(LITTLE_MS);
    }
    CHECK_EQ(__libc_single_threaded, 1);
}

static void aborted(int number) {
    (void)number;
    known_to_c_library();
    _exit(strcmp(strerror(EINVAL), "Invalid argument"));
}

// A handler for SIGABRT finds its own thread's memory when that thread notices misuse.
static void aborts_elsewhere(void) {
    static void *objects[OBJECTS];

    wait_for_threads(2);
    signal(SIGABRT, aborted);
    for (int i = 0; i < OBJECTS; i++)
        objects[i] = malloc(64);
    for (int i = 0; i < OBJECTS; i++) {
        free(objects[i]);
        if (i == OBJECTS / 2)
            free(objects[i - 200]);
    }
    pause_ms(LONG_MS);
    _exit(1);
}

static int lines_of_maps(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0;

    for (int c; (c = fgetc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

static void again_and_again(void) {
    int before = 0;

    for (int i = 0; i < ROUNDS; i++) {
        wait_for_threads(2);
        if (i == ROUNDS / 2)
            before = lines_of_maps();
        pid_t thread = second();

        CHECK_EQ(unshare(0), 0);
        CHECK_NE(second(), thread);
    }
    CHECK_LE(lines_of_maps(), before + 8);
}

static void uses_heap(void) {
    void *objects[100];

    for (int i = 0; i < 100; i++)
        CHECK((objects[i] = malloc((size_t)i * 500)) != NULL);
    for (int i = 0; i < 100; i++)
        free(objects[i]);
    malloc_trim(0);
}

static void has_one_again(void) {
    CHECK_EQ(threads(), 1);
    wait_for_threads(2);
    uses_heap();
}

// In a process of one thread glibc's fork takes no lock, and may be interrupted by another.
static volatile sig_atomic_t amid, forks; // those in handlers amid a fork

// Some time after the last one is over: where a fork takes longer than from one to the next the program would not come on.
static void alarm_soon(void) {
    static volatile unsigned alarms;
    struct itimerval soon = {{0, 0}, {0, 50 + alarms++ * 37 % 500}};

    setitimer(ITIMER_REAL, &soon, NULL);
}

static void fork_in_handler(int number) {
    int saved = errno;
    pid_t child = fork();

    (void)number;
    if (child == 0)
        _exit(0);
    CHECK(child > 0 && waitpid(child, NULL, 0) == child);
    forks += amid;
    alarm_soon();
    errno = saved;
}

static void fork_amid_fork(void) {
    struct itimerval never = {{0, 0}, {0, 0}};

    wait_for_threads(2);
    signal(SIGALRM, fork_in_handler);
    alarm_soon();
    for (int i = 0; i < 2000 || forks < 200; i++) {
        pid_t child;

        leave_garbage(70000);
        amid = 1;
        child = fork();
        if (child == 0)
            _exit(0);
        amid = 0;
        while (child > 0 && waitpid(child, NULL, 0) != child)
            CHECK_EQ(errno, EINTR);
    }
    signal(SIGALRM, SIG_IGN); // first: a handler would set the timer again
    setitimer(ITIMER_REAL, &never, NULL);
    CHECK_EQ(__libc_single_threaded, 1);
}

// While it is at work, by a process that holds none of its locks.
static void forks_amid_steps(void) {
    for (int i = 0; i < FORKS; i++) {
        leave_garbage(MIB * (1 + i % 8));
        in_child(i % 10 == 0 ? has_one_again : uses_heap);
        pause_ms(i % 3);
    }
    gives_back();
}

static _Atomic int by_others;

static void called(void) {
    known_to_c_library();
    if (syscall(SYS_gettid) != getpid())
        by_others++;
}

static void wait_for_calls(void) {
    for (int ms = 0; by_others == 0; ms += LITTLE_MS) {
        CHECK_LE(ms, LONG_MS);
        pause_ms(LITTLE_MS);
    }
}

static int construct(void *object, void *argument, int flags) {
    (void)object, (void)argument, (void)flags;
    called();
    return 0;
}

static void destruct(void *object, void *argument) {
    (void)object, (void)argument;
    called();
}

static void fill(vmag_cache_t *cache) {
    static void *objects[OBJECTS];

    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = vmag_cache_alloc(cache, VMAG_NOSLEEP)) != NULL);
    for (int i = 0; i < OBJECTS; i++)
        vmag_cache_free(cache, objects[i]);
}

// Destructors run on a thread by pthread_create, also when one that the C library does not know of was there before.
static void calls_nothing(void) {
    vmag_cache_t *cache;

    wait_for_threads(2);
    cache = vmag_cache_create("unseen", 1000, 0, construct, destruct, NULL, NULL, NULL, 0);
    CHECK(cache != NULL);
    fill(cache);
    wait_for_calls();
    CHECK_EQ(__libc_single_threaded, 0);
}

static extent_hooks_t hooks, *defaults;

static bool purge(extent_hooks_t *hooks_, void *address, size_t size, size_t offset, size_t length, unsigned arena) {
    (void)hooks_;
    called();
    return defaults->purge_forced(defaults, address, size, offset, length, arena);
}

static void calls_no_hooks(void) {
    size_t size = sizeof defaults;
    extent_hooks_t *ours = &hooks;

    wait_for_threads(2);
    CHECK_EQ(mallctl("arena.0.extent_hooks", &defaults, &size, NULL, 0), 0);
    hooks = *defaults;
    hooks.purge_lazy = NULL;
    hooks.purge_forced = purge;
    CHECK_EQ(mallctl("arena.0.extent_hooks", NULL, NULL, &ours, sizeof ours), 0);
    leave_garbage(GARBAGE);
    wait_for_calls();
    CHECK_EQ(__libc_single_threaded, 0);
}

static void *allocate(void *unused) {
    for (int i = 0; i < 200; i++) {
        leave_garbage(2 * MIB);
        pause_ms(1);
    }
    return unused;
}

// With threads of the program's there is one by pthread_create, and no other.
static void gives_way(void) {
    pthread_t thread;

    wait_for_threads(2);
    CHECK_EQ(pthread_create(&thread, NULL, allocate, NULL), 0);
    allocate(NULL);
    pthread_join(thread, NULL);
    wait_for_threads(2);
    users_are(getuid(), getgid());
    CHECK_EQ(setuid(getuid()), 0); // by the C library, which asks all that it knows of
    CHECK_EQ(threads(), 2);
}

// With the static library, which nobody dismisses it in, only a process that has nothing to give up has one.
static void be_nobody(void) {
    if (getuid() == 0)
        CHECK(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

static void (*const everywhere[])(void) = {aborts_elsewhere, fork_amid_fork, forks_amid_steps, calls_nothing, calls_no_hooks, gives_way, NULL};
static void (*const dismissed[])(void) = {gone_before_changes, asks_for_filters, shuts_itself_in, gives_back_after_change, again_and_again, NULL};

// Most of the time they wait.
static void side_by_side(void (*const *functions)(void)) {
    pid_t children[sizeof everywhere / sizeof everywhere[0]];
    int begun = 0;

    for (; functions[begun] != NULL; begun++)
        children[begun] = begin(functions[begun]);
    while (begun > 0)
        end(children[--begun]);
}

int main(int count, char **arguments) {
    bool is_static = count > 1 && strcmp(arguments[1], "static") == 0;

    if (&__libc_single_threaded == NULL || access("/proc/self/task", R_OK) != 0) {
        say("this C library does not tell whether there is one thread");
        return SKIPPED;
    }
    CHECK_EQ(__libc_single_threaded, 1);
    if (is_static)
        be_nobody();
    CHECK_EQ(threads(), 1);
    gives_back();
    side_by_side(everywhere);
    if (!is_static) {
        if (getuid() == 0)
            in_child(becomes_nobody);
        user_namespace();
        side_by_side(dismissed);
    }
    CHECK_EQ(__libc_single_threaded, 1);
    gives_back();
    return 0;
}
