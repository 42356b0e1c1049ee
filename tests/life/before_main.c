// malloc before main and after our own destructor: in early constructors, in a library that knows nothing of us, in atexit.
// main returns 1; only the very last destructor, after all checks, ends the process with 0.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/pattern.h"

#include "dependency_library.h"

static void *early_block, *main_block;

static void *filled(size_t size) {
    void *block = malloc(size);
    CHECK(block != NULL);
    pattern_fill(block, size, size);
    return block;
}

__attribute__((constructor(101))) static void first_constructor(void) {
    early_block = filled(1000);
    void *large = filled(3 << 20);
    free(large);
}

__attribute__((destructor(101))) static void last_own_destructor(void) {
    pattern_verify(main_block, 5000, 5000);
    free(main_block);
    free(filled(100000));
}

static void at_exit(void) {
    pattern_verify(early_block, 1000, 1000);
    early_block = realloc(early_block, 200000);
    pattern_verify_prefix(early_block, 1000, 200000, 1000);
    free(early_block);
    free(filled(77));
}

int main(void) {
    CHECK_EQ(atexit(at_exit), 0);
    dependency_check();
    main_block = filled(5000);
    return 1;
}
