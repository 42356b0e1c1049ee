// Tests conf/options.h: what a process makes of VMAG_CONF, seen in a child that prints its options.
// SPDX-License-Identifier: BSD-2-Clause
#include "conf/options.h"

#include <sys/wait.h>

#include "heap/heap.h"
#include "unit.h"

#define TEXT_MOST 8192

struct outcome {
    char options[TEXT_MOST]; // a line "name:value" each
    char errors[TEXT_MOST];
    int status;
};

static void print_options(void) {
    CHECK(heap_ready());
#define OPTION(name, type, value, least, most, meaning) printf(#name ":%lld\n", (long long)options.name);
#include "conf/options.def"
#undef OPTION
}

static void read_all(int fd, char text[TEXT_MOST]) {
    size_t length = 0;
    ssize_t got;

    while ((got = read(fd, text + length, TEXT_MOST - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    close(fd);
}

// NULL: VMAG_CONF is not set.
static struct outcome child(const char *conf) {
    static struct outcome outcome;
    int out[2], err[2];

    CHECK(pipe(out) == 0 && pipe(err) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        close(out[0]);
        close(err[0]);
        if (conf == NULL)
            unsetenv("VMAG_CONF");
        else
            setenv("VMAG_CONF", conf, 1);
        execl("/proc/self/exe", "options_test", "print", NULL);
        _exit(126);
    }
    close(out[1]);
    close(err[1]);
    read_all(out[0], outcome.options);
    read_all(err[0], outcome.errors);
    CHECK(waitpid(pid, &outcome.status, 0) == pid);
    return outcome;
}

static unsigned lines(const char *text) {
    unsigned count = 0;

    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

static void check_ended_well(const char *conf, const struct outcome *outcome) {
    CHECK_SAY(WIFEXITED(outcome->status) && WEXITSTATUS(outcome->status) == 0, "%s: status %d, %s", conf, outcome->status,
              outcome->errors);
}

// Whether "name:value" is one of the printed lines.
static bool has(const struct outcome *outcome, const char *line) {
    size_t length = strlen(line);

    for (const char *at = outcome->options; (at = strstr(at, line)) != NULL; at++)
        if ((at == outcome->options || at[-1] == '\n') && at[length] == '\n')
            return true;
    return false;
}

static char defaults[TEXT_MOST];

// Taken without a word; `wanted` are lines separated by commas.
static void good(const char *conf, const char *wanted) {
    struct outcome outcome = child(conf);
    char list[512];

    check_ended_well(conf, &outcome);
    CHECK_SAY(outcome.errors[0] == '\0', "%s: complaint %s", conf, outcome.errors);
    snprintf(list, sizeof list, "%s", wanted);
    for (char *line = strtok(list, ","); line != NULL; line = strtok(NULL, ","))
        CHECK_SAY(has(&outcome, line), "%s: no %s in:\n%s", conf, line, outcome.options);
}

// Told in one line that names the culprit, and skipped: all options are as they were but for `kept`.
static void bad(const char *conf, const char *culprit, const char *kept) {
    struct outcome outcome = child(conf);

    check_ended_well(conf, &outcome);
    CHECK_SAY(lines(outcome.errors) == 1, "%s: not one line: %s", conf, outcome.errors);
    CHECK_SAY(strncmp(outcome.errors, "vmag: ", 6) == 0 && strstr(outcome.errors, "VMAG_CONF") != NULL &&
                  strstr(outcome.errors, culprit) != NULL,
              "%s: the complaint does not name %s: %s", conf, culprit, outcome.errors);
    if (kept == NULL)
        CHECK_SAY(strcmp(outcome.options, defaults) == 0, "%s changed something:\n%s", conf, outcome.options);
    else
        CHECK_SAY(has(&outcome, kept), "%s: no %s in:\n%s", conf, kept, outcome.options);
}

static void aborts(const char *conf) {
    struct outcome outcome = child(conf);

    CHECK_SAY(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGABRT, "%s: status %d", conf, outcome.status);
    CHECK_GE(lines(outcome.errors), 1);
}

// The limits themselves are taken, and what lies just beyond is not.
static void check_limits(const char *name, long long least, long long most) {
    char conf[64], line[64];

    if (strcmp(name, "abort_conf") == 0)
        return;
    snprintf(line, sizeof line, "%s:%lld", name, least);
    good(line, line);
    snprintf(line, sizeof line, "%s:%lld", name, most);
    good(line, line);
    snprintf(conf, sizeof conf, "%s:%lld", name, least - 1);
    bad(conf, conf, NULL);
    snprintf(conf, sizeof conf, "%s:%lld", name, most + 1);
    bad(conf, conf, NULL);
}

static void every_limit(void) {
#define OPTION(name, type, value, least, most, meaning) check_limits(#name, least, most);
#include "conf/options.def"
#undef OPTION
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "print") == 0) {
        print_options();
        return 0;
    }
    struct outcome plain = child(NULL);
    check_ended_well("(unset)", &plain);
    CHECK_EQ(plain.errors[0], '\0');
    memcpy(defaults, plain.options, sizeof defaults);

    good("", "");
    good("narenas:3", "narenas:3");
    good("narenas:3,dirty_decay_ms:-1,magazine_bytes:128", "narenas:3,dirty_decay_ms:-1,magazine_bytes:128");
    good("background_thread:false", "background_thread:0");
    good("background_thread:true,narenas:007", "background_thread:1,narenas:7");
    good("background_thread:0,", "background_thread:0");
    good("narenas:3,narenas:5", "narenas:5"); // the last one counts
    every_limit();

    bad("no_such_option:1", "no_such_option:1", NULL);
    bad("narenas", "narenas", NULL);
    bad("narenas:", "narenas:", NULL);
    bad("narenas:-", "narenas:-", NULL);
    bad("narenas:two", "narenas:two", NULL);
    bad("narenas:2x", "narenas:2x", NULL);
    bad("narenas:2 ", "narenas:2 ", NULL);
    bad("narenas:+2", "narenas:+2", NULL);
    bad("narenas:0x2", "narenas:0x2", NULL);
    bad("narena:2", "narena:2", NULL);
    bad("narenass:2", "narenass:2", NULL);
    bad("NARENAS:2", "NARENAS:2", NULL);
    bad(":", ":", NULL);
    bad(":5", ":5", NULL);
    bad("narenas:1:2", "narenas:1:2", NULL);
    bad("background_thread:yes", "background_thread:yes", NULL);
    bad("narenas:18446744073709551618", "narenas:18446744073709551618", NULL); // 2 modulo 2^64
    bad("narenas:4294967298", "narenas:4294967298", NULL);                     // 2 modulo 2^32
    bad("no_such_option:1,narenas:9", "no_such_option:1", "narenas:9");        // the others are still taken
    bad("narenas:9,no_such_option:1", "no_such_option:1", "narenas:9");
    bad("narenas:9,,thp:0", "VMAG_CONF", "narenas:9");

    char endless[4000];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    bad(endless, "xxxxxxxx", NULL);

    aborts("abort_conf:true,no_such_option:1");
    aborts("narenas:many,abort_conf:1");
    good("abort_conf:true,narenas:2", "abort_conf:1,narenas:2");
    return 0;
}
