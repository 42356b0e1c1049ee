// Tests conf/options.h: what a process makes of VMAG_CONF, seen in a child that prints its options.
// SPDX-License-Identifier: BSD-2-Clause
#include "conf/options.h"

#include <glob.h>
#include <sys/wait.h>

#include "heap/heap.h"
#include "unit.h"
#include "util/format.h"

#define TEXT_BYTES 16384

struct outcome {
    char options[TEXT_BYTES]; // a line "name:value" each
    char errors[TEXT_BYTES];
    int status;
};

static void print_options(void) {
    CHECK(heap_ready());
    for (size_t i = 0; i < option_count; i++) {
        char line[512];
        struct text text = text_into(line, sizeof line - 1);

        option_print(&text, &option_table[i]);
        *text.at = '\0';
        printf("%s:%s\n", option_table[i].name, line);
    }
}

static void read_all(int fd, char text[TEXT_BYTES]) {
    size_t length = 0;
    ssize_t got;

    while ((got = read(fd, text + length, TEXT_BYTES - 1 - length)) > 0)
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

static char defaults[TEXT_BYTES];

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

// The limits themselves are taken, and what lies just beyond is not, or is pulled in.
static void check_limit(const struct option *option, int64_t limit, int64_t beyond) {
    char conf[128], line[128];

    snprintf(line, sizeof line, "%s:%lld", option->name, (long long)limit);
    good(line, line);
    if (limit == INT64_MAX)
        return;
    snprintf(conf, sizeof conf, "%s:%lld", option->name, (long long)beyond);
    if (option->clipped)
        good(conf, line);
    else
        bad(conf, conf, NULL);
}

static void every_word(const struct option *option) {
    const char *list = option->words;

    while (*list != '\0') {
        char conf[128];
        int length = (int)strcspn(list, "|");

        snprintf(conf, sizeof conf, "%s:%.*s", option->name, length, list);
        good(conf, conf);
        list += length + (list[length] == '|');
    }
}

static void every_option(void) {
    for (size_t i = 0; i < option_count; i++) {
        const struct option *option = &option_table[i];
        char conf[512];

        if (strcmp(option->name, "confirm_conf") == 0 || strcmp(option->name, "stats_print") == 0 || strncmp(option->name, "prof_leak", 9) == 0) // they print
            continue;
        switch (option->kind) {
        case OPTION_BOOL:
            snprintf(conf, sizeof conf, "%s:true", option->name);
            good(conf, conf);
            snprintf(conf, sizeof conf, "%s:false", option->name);
            good(conf, conf);
            break;
        case OPTION_WORDS:
            every_word(option);
            break;
        case OPTION_TEXT:
            snprintf(conf, sizeof conf, "%s:%.*s", option->name, (int)option->most,
                     strcmp(option->name, "heap_source") == 0 ? "memory_file=heap" : "0123456789abcdefghijklmnopqrstuvwxyz");
            good(conf, conf);
            snprintf(conf, sizeof conf, "%s:%0*d", option->name, (int)option->most + 1, 0);
            bad(conf, option->name, NULL);
            break;
        case OPTION_RATIO:
            snprintf(conf, sizeof conf, "%s:0.5", option->name);
            good(conf, conf);
            break;
        default:
            check_limit(option, option->least, (int64_t)((uint64_t)option->least - 1));
            check_limit(option, option->most, (int64_t)((uint64_t)option->most + 1));
        }
    }
}

// Where the option of traces leaves its files.
static char folder[] = "/tmp/vmag-options-XXXXXX";

static void remove_folder(void) {
    glob_t files;

    if (glob("*", 0, NULL, &files) == 0)
        for (size_t i = 0; i < files.gl_pathc; i++)
            unlink(files.gl_pathv[i]);
    globfree(&files);
    rmdir(folder);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "print") == 0) {
        print_options();
        return 0;
    }
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    atexit(remove_folder);
    struct outcome plain = child(NULL);
    check_ended_well("(unset)", &plain);
    CHECK_EQ(plain.errors[0], '\0');
    memcpy(defaults, plain.options, sizeof defaults);

    good("", "");
    good("narenas:3", "narenas:3");
    good("narenas:3,dirty_decay_ms:-1,magazine_bytes:128", "narenas:3,dirty_decay_ms:-1,magazine_bytes:128");
    good("background_thread:false", "background_thread:false");
    good("background_thread:true,narenas:007", "background_thread:true,narenas:7");
    good("background_thread:0,", "background_thread:false");
    good("narenas:3,narenas:5", "narenas:5"); // the last one counts
    good("narenas:0x10,depot_bytes:010", "narenas:16,depot_bytes:8");
    good("narenas:7,narenas:default", "narenas:0");
    good("narenas: 7,depot_bytes:+8", "narenas:7,depot_bytes:8"); // as strtol has it
    good("narenas:4294967298", "narenas:176");
    good("narenas:18446744073709551618", "narenas:176");
    good("tcache:false,tcache:default,junk:true,junk:default,thp:never,thp:default", "");
    good("lg_tcache_max:12", "tcache_max:4096");
    good("lg_tcache_max:99", "tcache_max:8388608");
    good("lg_tcache_max:12,lg_tcache_max:default", "tcache_max:65536");
    good("narenas_ratio:.5,hpa_dirty_mult:3", "narenas_ratio:0.5,hpa_dirty_mult:3");
    good("narenas_ratio:2.25,hpa_dirty_mult:-1", "narenas_ratio:2.25,hpa_dirty_mult:65535.999985");
    good("bin_shards:1-160:16|129-512:4,narenas:2", "bin_shards:1-160:16|129-512:4,narenas:2"); // ':' in a value
    good("abort_conf:true,experimental_tcache_gc:false,huge_arena_pac_thp:true,tcache_ncached_max:256-1024:1000|8-128:200,hpa_purge_threshold_ratio:0.5",
         "experimental_tcache_gc:false,huge_arena_pac_thp:true,tcache_ncached_max:256-1024:1000|8-128:200,hpa_purge_threshold_ratio:0.5"); // of 5.3.1
    good("prof_leak:true,lg_prof_sample:63", "prof_leak:true"); // without a sample, so that it has nothing to tell
    every_option();

    bad("no_such_option:1", "no_such_option:1", NULL);
    bad("narenas", "narenas", NULL);
    bad("narenas:", "narenas:", NULL);
    bad("narenas:-", "narenas:-", NULL);
    bad("narenas:two", "narenas:two", NULL);
    bad("narenas:2x", "narenas:2x", NULL);
    bad("narenas:2 ", "narenas:2 ", NULL);
    bad("narenas:+", "narenas:+", NULL);
    bad("narenas: ", "narenas: ", NULL);
    bad("narenas:+-2", "narenas:+-2", NULL);
    bad("narenas:- 2", "narenas:- 2", NULL);
    bad("narenas:0x", "narenas:0x", NULL);
    bad("narenas:08", "narenas:08", NULL);
    bad("narenas:1k", "no suffixes", NULL);
    bad("narena:2", "narena:2: no such option; the nearest is narenas\n", NULL);
    bad("dirty_decay:2", "the nearest is dirty_decay_ms\n", NULL);
    bad("zz:2", "zz:2: no such option\n", NULL); // nothing is near
    bad("thp:allways", "not one of never, default, always; the nearest is always\n", NULL);
    bad("narenas_ratio:-1", "narenas_ratio:-1", NULL);
    bad("narenas_ratio:1.x", "narenas_ratio:1.x", NULL);
    bad("narenas_ratio:1.", "narenas_ratio:1.", NULL);
    bad("narenas_ratio:.", "narenas_ratio:.", NULL);
    bad("narenas_ratio:", "narenas_ratio:", NULL);
    bad("lg_tcache_nslots_mul:17", "lg_tcache_nslots_mul:17", NULL);
    bad("lg_extent_max_active_fit:65", "lg_extent_max_active_fit:65", NULL);
    bad("lg_tcache_max:big", "lg_tcache_max:big", NULL);
    bad("narenass:2", "narenass:2", NULL);
    bad("NARENAS:2", "NARENAS:2", NULL);
    bad(":", ":", NULL);
    bad(":5", ":5", NULL);
    bad("narenas:1:2", "narenas:1:2", NULL);
    bad("background_thread:yes", "background_thread:yes", NULL);
    bad("depot_bytes:18446744073709551618", "depot_bytes:18446744073709551618", NULL); // 2 modulo 2^64
    bad("depot_bytes:4294967298", "depot_bytes:4294967298", NULL);                     // 2 modulo 2^32
    bad("no_such_option:1,narenas:9", "no_such_option:1", "narenas:9");        // the others are still taken
    bad("narenas:9,no_such_option:1", "no_such_option:1", "narenas:9");
    bad("narenas:9,,thp:never", "VMAG_CONF", "narenas:9");

    char endless[4000];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    bad(endless, "xxxxxxxx", NULL);

    aborts("abort_conf:true,no_such_option:1");
    aborts("narenas:many,abort_conf:1");
    good("abort_conf:true,narenas:2", "abort_conf:true,narenas:2");
    return 0;
}
