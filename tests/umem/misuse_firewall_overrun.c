// The first byte behind an object at a firewall: the process dies of it at once, and the report says whose it is.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = malloc(4096);
    announce("SIGSEGV", object + 4096);
    ((char *)hidden(object))[4096] = 'A';
    return unnoticed();
}
