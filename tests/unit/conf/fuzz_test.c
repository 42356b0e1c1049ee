// Hostile option strings: mutations of good ones, the same in every run. `fuzz_test [inputs]`; nothing may crash, hang or allocate.
// SPDX-License-Identifier: BSD-2-Clause
#include <fcntl.h>

#include "conf/options.h"
#include "ctl/stats.h"
#include "unit.h"

enum { INPUT_BYTES = 400 };

static const char *const seeds[] = {
    "narenas:3,dirty_decay_ms:-1,magazine_bytes:0x80,background_thread:false",
    "tcache_max:4096,lg_tcache_max:17,thp:always,metadata_thp:auto,percpu_arena:phycpu",
    "bin_shards:1-160:16|129-512:4,slab_sizes:1-4096:17|100-200:1,prof_prefix:/tmp/x,stats_print_opts:Jg",
    "narenas_ratio:2.25,hpa_dirty_mult:-1,oversize_threshold:9223372036854775807,junk:alloc,zero_realloc:abort",
    "abort_conf:,:true,,,:::,narenas",
};

static const char spice[] = ",:|-.0123456789abcdefxX_\t\377\001";

static size_t random_name(struct random *random, char *at, size_t room) {
    const char *name = option_table[random_below(random, option_count)].name;
    size_t length = strlen(name) < room ? strlen(name) : room;

    memcpy(at, name, length);
    return length;
}

// Returns the length; the input is ended by a zero.
static size_t mutate(struct random *random, char input[INPUT_BYTES]) {
    size_t length = strlen(strcpy(input, seeds[random_below(random, sizeof seeds / sizeof seeds[0])]));

    for (size_t steps = 1 + random_below(random, 6); steps > 0; steps--) {
        size_t at = random_below(random, length + 1), count = random_below(random, 12);

        switch (random_below(random, 5)) {
        case 0: // another character
            if (length > 0)
                input[at % length] = spice[random_below(random, sizeof spice - 1)];
            break;
        case 1: // a piece less
            count = count < length - at ? count : length - at;
            memmove(input + at, input + at + count, length - at - count);
            length -= count;
            break;
        case 2: // a piece twice
            if (length + count < INPUT_BYTES && at + count <= length) {
                memmove(input + at + count, input + at, length - at);
                length += count;
            }
            break;
        case 3: // the name of an option
            length = at + random_name(random, input + at, INPUT_BYTES - 1 - at);
            break;
        case 4: // any bytes at the end
            for (; count > 0 && length < INPUT_BYTES - 1; count--)
                input[length++] = (char)(1 + random_below(random, 255));
            break;
        }
    }
    input[length] = '\0';
    return length;
}

// Whatever was read, every option is within its limits and every text is ended.
static void check_options(void) {
    for (size_t i = 0; i < option_count; i++) {
        const struct option *option = &option_table[i];
        int64_t number = option_number(option);
        size_t length;

        if (option->kind == OPTION_TEXT)
            CHECK(strnlen(option_value(option), (size_t)option->most + 1) <= (size_t)option->most);
        else if (option->kind == OPTION_WORDS)
            CHECK(option_word(option, &length) != NULL && length > 0);
        else
            CHECK_SAY(number >= option->least && number <= option->most, "%s: %lld", option->name, (long long)number);
    }
}

int main(int count, char **arguments) {
    struct random random = { 88172645463325252u };
    unsigned long inputs = count > 1 ? strtoul(arguments[1], NULL, 0) : 100000;
    int null = open("/dev/null", O_WRONLY), saved = dup(STDERR_FILENO);
    char input[INPUT_BYTES];
    size_t before;

    free(malloc(1));
    before = stats_snapshot().allocated;
    CHECK(dup2(null, STDERR_FILENO) >= 0); // complaints
    for (unsigned long i = 0; i < inputs; i++) {
        size_t length = mutate(&random, input);

        if (random_below(&random, 4) == 0)
            options_take_letters("fuzz", input);
        else
            options_take_pairs("fuzz", input);
        CHECK(input[length] == '\0');
        if (i % 64 == 0)
            check_options();
    }
    check_options();
    CHECK(dup2(saved, STDERR_FILENO) >= 0);
    CHECK_EQ(stats_snapshot().allocated, before);
    printf("%lu inputs\n", inputs);
    return 0;
}
