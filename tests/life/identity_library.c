// A library that has a setuid of its own and says that it is done, as fakeroot's and uid_wrapper's do.
// SPDX-License-Identifier: BSD-2-Clause
#include <sys/types.h>
#include <unistd.h>

int identity_asked;

int setuid(uid_t user) {
    identity_asked = (int)user;
    return 0;
}
