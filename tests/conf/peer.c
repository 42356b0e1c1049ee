// Prints options as mallctl tells them, whichever library answers: "name value" a line. 77: it is not jemalloc 5.3.0 with its profiler, nor ours.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int mallctl_type(const char *, void *, size_t *, void *, size_t);

// A bool has 1 byte, an unsigned 4, all others 8.
static void print(mallctl_type *control, const char *name, const char *type) {
    char path[80];
    size_t size = strcmp(type, "bool") == 0 ? 1 : strcmp(type, "unsigned") == 0 ? 4 : 8;
    union {
        bool flag;
        unsigned number;
        int64_t word;
        const char *text;
    } value = {0};

    snprintf(path, sizeof path, "opt.%s", name);
    if (control(path, &value, &size, NULL, 0) != 0)
        printf("%s absent\n", name);
    else if (strcmp(type, "text") == 0)
        printf("%s %s\n", name, value.text);
    else
        printf("%s %" PRId64 "\n", name, size == 1 ? value.flag : size == 4 ? (int64_t)value.number : value.word);
}

static bool is_peer(mallctl_type *control) {
    const char *version = NULL;
    bool prof = false;
    size_t text = sizeof version, flag = sizeof prof;

    return control != NULL && control("version", &version, &text, NULL, 0) == 0 && strncmp(version, "5.3.0", 5) == 0 &&
           control("config.prof", &prof, &flag, NULL, 0) == 0 && prof;
}

// `peer NAME TYPE …`
int main(int count, char **arguments) {
    mallctl_type *control = (mallctl_type *)dlsym(RTLD_DEFAULT, "mallctl");

    if (!is_peer(control))
        return 77;
    for (int i = 1; i + 1 < count; i += 2)
        print(control, arguments[i], arguments[i + 1]);
    return 0;
}
