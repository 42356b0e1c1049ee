// A program in C: `plugin_host LIBRARY alone|all` opens a library in C++ for itself alone or for all, and calls it.
// SPDX-License-Identifier: BSD-2-Clause
#include <dlfcn.h>

#include "../check.h"

static int call(const char *path, int mode) {
    void *library = dlopen(path, RTLD_NOW | mode);
    int (*plugin)(void);

    CHECK_SAY(library != NULL, "%s", dlerror());
    *(void **)&plugin = dlsym(library, "plugin");
    CHECK(plugin != NULL);
    return plugin();
}

int main(int argc, char **argv) {
    free(malloc(1));
    CHECK(argc == 3);
    CHECK_EQ(call(argv[1], strcmp(argv[2], "all") == 0 ? RTLD_GLOBAL : RTLD_LOCAL), 0);
    return 0;
}
