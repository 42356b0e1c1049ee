// A program that sets options in itself; prints all options as the library does: tests/conf/sources.py runs and judges it.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>

#include "vmag/options.h"

#ifdef WITH_STRINGS
const char *malloc_conf = "narenas:2,depot_bytes:1000,magazine_bytes:1000,stats_print_opts:a";
const char *malloc_conf_2_conf_harder = "stats_print_opts:c";
const char *_malloc_options = "jV2n";
#endif

static void put(void *file, const char *line) {
    fputs(line, file);
}

int main(void) {
    free(malloc(1));
    vmag_options_print(put, stdout);
    return 0;
}
