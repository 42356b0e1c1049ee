// Whose setuid is called: the next library's, where it has one of its own.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <sys/types.h>
#include <unistd.h>

extern int identity_asked;

enum { USER = 12345 };

int main(void) {
    uid_t before = getuid();

    free(malloc(100));
    CHECK_EQ(setuid(USER), 0);
    CHECK_EQ(identity_asked, USER);
    CHECK_EQ(getuid(), before);
    return 0;
}
