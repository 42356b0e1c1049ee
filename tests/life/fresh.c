// A fresh process that allocates a few KiB, and then shows the memory that it holds: its /proc/self/smaps on stdout.
// SPDX-License-Identifier: BSD-2-Clause
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    static char text[4096];
    for (int i = 0; i < 40; i++) {
        void *volatile block = malloc(100);
        if (block == NULL)
            return 1;
        memset(block, 1, 100);
    }
    int file = open("/proc/self/smaps", O_RDONLY);
    for (ssize_t length; (length = read(file, text, sizeof text)) > 0;)
        if (write(STDOUT_FILENO, text, (size_t)length) != length)
            return 1;
    return 0;
}
