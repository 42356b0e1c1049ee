// Beyond the process's limit of a file's size nothing is written, nor to a pipe that nobody reads, and no signal is left: not where the program blocks it nor
// where it does not. What it has pending itself stays. A line to stderr ends as one. A write that a signal interrupts goes on.
// A file with a second name stays as it is.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/backing.h"
#include "unit.h"

enum { LIMIT = 3000, BYTES = 2000, PIPE_BYTES = 65536, INTERRUPTIONS = 20 };

static char bytes[BYTES];

static bool is_blocked(int signal) {
    sigset_t blocked;

    CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, &blocked), 0);
    return sigismember(&blocked, signal);
}

static bool is_pending(int signal) {
    sigset_t pending;

    CHECK_EQ(sigpending(&pending), 0);
    return sigismember(&pending, signal);
}

static void set(int how, int signal) {
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signal);
    CHECK_EQ(sigprocmask(how, &set, NULL), 0);
}

static void write_to_limit(int file) {
    errno = 0;
    CHECK(os_file_write_at(file, bytes, BYTES, 0));
    CHECK_EQ(errno, 0);
    CHECK(!os_file_write_at(file, bytes, BYTES, BYTES)); // the first half of it has room
    CHECK_EQ(errno, EFBIG);
    CHECK_EQ(os_backing_size(file), LIMIT);
    errno = 0;
    CHECK(!os_backing_extend(file, 0, LIMIT + 1));
    CHECK_EQ(errno, EFBIG);
    CHECK(os_backing_extend(file, 0, LIMIT));
}

static void write_to_nobody(int file) {
    errno = 0;
    CHECK(!os_file_write(file, bytes, BYTES));
    CHECK_EQ(errno, EPIPE);
}

static void check(void (*writes)(int), int file, int signal_number) {
    writes(file);
    CHECK(!is_blocked(SIGXFSZ) && !is_blocked(SIGPIPE));
    for (int pending = 0; pending < 4; pending++) {
        set(SIG_BLOCK, signal_number);
        if (pending & 1)
            raise(signal_number);
        if (pending & 2)
            kill(getpid(), signal_number);
        writes(file);
        CHECK(is_blocked(signal_number));
        CHECK_EQ(is_pending(signal_number), pending != 0);
        signal(signal_number, SIG_IGN); // takes it away
        writes(file);
        CHECK(!is_pending(signal_number));
        signal(signal_number, SIG_DFL);
        set(SIG_UNBLOCK, signal_number);
        writes(file);
        CHECK(!is_blocked(signal_number));
    }
    os_file_close(file);
}

// A line ends as one, also where it is cut.
static void check_line(void) {
    char words[3000], got[sizeof words];
    int ends[2], before = dup(STDERR_FILENO);

    memset(words, 'x', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    CHECK_EQ(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    os_stderr_say("%s", words);
    os_stderr_say("%d", 7);
    dup2(before, STDERR_FILENO);
    CHECK_EQ(read(ends[0], got, sizeof got), 1025 + 2);
    CHECK(got[1023] == 'x' && memcmp(got + 1024, "\n7\n", 3) == 0);
    close(before);
    close(ends[0]);
    close(ends[1]);
}

static void interrupted(int signal) {
    (void)signal;
}

// Interrupts the other thread, which waits for room in a pipe, and reads all that was written.
struct reader {
    pthread_t writer;
    int end;
    size_t got;
};

static void *interrupt_and_read(void *reader_) {
    struct reader *reader = reader_;
    ssize_t got;

    for (int i = 0; i < INTERRUPTIONS; i++) {
        usleep(5000);
        pthread_kill(reader->writer, SIGUSR1);
    }
    while ((got = read(reader->end, bytes, BYTES)) > 0)
        reader->got += (size_t)got;
    return NULL;
}

// A signal amid a write ends nothing: all bytes arrive.
static void check_interrupted(void) {
    static char filler[PIPE_BYTES];
    struct sigaction action = { .sa_handler = interrupted }; // without SA_RESTART
    struct reader reader = { .writer = pthread_self() };
    pthread_t thread;
    int ends[2];

    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES), PIPE_BYTES);
    CHECK_EQ(write(ends[1], filler, PIPE_BYTES), PIPE_BYTES); // full: the next one waits from its first byte on
    reader.end = ends[0];
    CHECK_EQ(pthread_create(&thread, NULL, interrupt_and_read, &reader), 0);
    CHECK(os_file_write(ends[1], filler, PIPE_BYTES));
    close(ends[1]);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(reader.got, 2 * PIPE_BYTES);
    close(ends[0]);
}

// What has a second name may be another's: it stays as it is.
static void check_second_name(void) {
    char path[] = "/tmp/vmag-file-XXXXXX", second[sizeof path + 2], got[8] = "";
    int file = mkstemp(path);

    CHECK(file >= 0);
    CHECK_EQ(write(file, "before", 6), 6);
    snprintf(second, sizeof second, "%s.2", path);
    CHECK_EQ(link(path, second), 0);
    errno = 0;
    CHECK(os_file_create(path) < 0 && errno == EACCES);
    errno = 0;
    CHECK(os_file_add_to(second) < 0 && errno == EACCES);
    CHECK_EQ(pread(file, got, sizeof got, 0), 6);
    CHECK_EQ(unlink(second), 0);
    close(file);
    CHECK((file = os_file_create(path)) >= 0); // with one it is begun anew
    CHECK_EQ(lseek(file, 0, SEEK_END), 0);
    close(file);
    CHECK_EQ(unlink(path), 0);
}

int main(void) {
    struct rlimit limit;
    FILE *named = tmpfile();
    int ends[2];

    check_line();
    check_interrupted();
    check_second_name();
    CHECK(named != NULL);
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = LIMIT;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    check(write_to_limit, dup(fileno(named)), SIGXFSZ);
    check(write_to_limit, os_backing_open_memory("limited"), SIGXFSZ);
    CHECK_EQ(pipe(ends), 0);
    close(ends[0]);
    check(write_to_nobody, ends[1], SIGPIPE);
    return 0;
}
