// Beyond an object whose size is no multiple of 16, before the firewall: told at free.
// SPDX-License-Identifier: BSD-2-Clause
#include "crime.h"

int main(void) {
    char *object = malloc(4001);
    announce("free", object);
    ((char *)hidden(object))[4001] = 'A';
    free(object);
    return unnoticed();
}
