// A read of a freed object behind a firewall.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = malloc(4096);
    announce("SIGSEGV", object + 7);
    free(object);
    return ((volatile char *)hidden(object))[7] == 'A' ? 1 : unnoticed();
}
