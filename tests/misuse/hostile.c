// free, realloc or malloc_usable_size of a value that no allocator ever returned: `hostile CALL VALUE`, VALUE in hex.
// SPDX-License-Identifier: BSD-2-Clause
#include "misuse.h"

int main(int count, char **arguments) {
    CHECK_EQ(count, 3);
    void *value = hidden((void *)(uintptr_t)strtoull(arguments[2], NULL, 16));
    announce(arguments[1], value);
    if (strcmp(arguments[1], "free") == 0)
        free(value);
    else if (strcmp(arguments[1], "realloc") == 0)
        CHECK(realloc(value, 100) != NULL);
    else
        CHECK_NE(malloc_usable_size(value), 0);
    return unnoticed();
}
