// A library opened with RTLD_DEEPBIND, as PHP opens its extensions, runs on the same malloc as the program.
// It is named without a folder: the loader must still know that it is this program, with its run path, who asks.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "../check.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
#ifdef RTLD_DEEPBIND
    void *library = dlopen("liblife_deepbind.so", RTLD_NOW | RTLD_DEEPBIND);
    char *(*copy)(const char *);
    void (*give_back)(char *);

    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    *(void **)&copy = dlsym(library, "deepbind_copy");
    *(void **)&give_back = dlsym(library, "deepbind_free");
    CHECK(copy != NULL && give_back != NULL);
    for (int i = 0; i < 1000; i++) {
        char *theirs = copy("made there, freed here"), *ours = strdup("made here, freed there");

        CHECK(theirs != NULL && ours != NULL);
        free(theirs);
        give_back(ours);
    }
    CHECK(dlopen("no such library", RTLD_NOW) == NULL && strstr(dlerror(), "no such library") != NULL);
    CHECK(dlopen(NULL, RTLD_NOW) != NULL);
    return 0;
#else
    printf("SKIPPED: the C library has no RTLD_DEEPBIND\n");
    return 77;
#endif
}
