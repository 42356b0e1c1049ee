// Under UMEM_DEBUG an object that is freed is judged and logged as the program left it, and only then destructed; and it is leaving then: a second free amid
// the destructor is told, and destructs nothing.
// SPDX-License-Identifier: BSD-2-Clause
#include <malloc.h>
#include <stdio.h>
#include <umem.h>
#include <unistd.h>
#include <vmag/report.h>

#include "../check.h"
#include "../misuse/misuse.h"

enum { SIZE = 64, TEXT_BYTES = 1 << 16 };

static umem_cache_t *cache;
static int destructed;

// A destructor's own overrun is told, and until it returns its object has a size.
static void overrun(void *object, void *unused) {
    (void)unused;
    CHECK_EQ(malloc_usable_size(object), SIZE);
    ((volatile char *)object)[SIZE] = 1;
}

static void destruct(void *object, void *unused) {
    (void)unused;
    memset(object, 'z', SIZE);
    dprintf(STDERR_FILENO, "destructed\n");
    if (destructed++ == 0)
        umem_cache_free(cache, hidden(object));
}

static const char *text_of(int fd) {
    static char text[TEXT_BYTES];
    ssize_t length = pread(fd, text, sizeof text - 1, 0);

    CHECK(length > 0);
    text[length] = '\0';
    return text;
}

static const char *before(const char *text, const char *words) {
    const char *found = strstr(text, words);

    CHECK_SAY(found != NULL, "no \"%s\" in: %s", words, text);
    return found;
}

int main(void) {
    int said = fileno(tmpfile()), log = fileno(tmpfile()), kept = dup(STDERR_FILENO);
    const char *text;
    char *object;

    cache = umem_cache_create((char *)"destructed", SIZE, 0, NULL, destruct, NULL, NULL, NULL, 0);
    object = hidden(umem_cache_alloc(cache, UMEM_DEFAULT));
    memset(object, 'a', SIZE + 1); // beyond the end by one
    CHECK(dup2(said, STDERR_FILENO) == STDERR_FILENO);
    umem_cache_free(cache, object);
    CHECK(dup2(kept, STDERR_FILENO) == STDERR_FILENO);
    text = text_of(said);
    CHECK_EQ(destructed, 1);
    CHECK(before(text, "written beyond") < before(text, "destructed\n"));
    CHECK(before(text, "destructed\n") < before(text, "freed already"));
    cache = umem_cache_create((char *)"overrun", SIZE, 0, NULL, overrun, NULL, NULL, NULL, 0);
    CHECK(ftruncate(said, 0) == 0 && lseek(said, 0, SEEK_SET) == 0 && dup2(said, STDERR_FILENO) == STDERR_FILENO);
    umem_cache_free(cache, umem_cache_alloc(cache, UMEM_DEFAULT));
    CHECK(dup2(kept, STDERR_FILENO) == STDERR_FILENO);
    before(text_of(said), "written beyond");
    CHECK_EQ(vmag_umem_report(log, "umem_log contents 5", VMAG_REPORT_JSON), 0);
    before(text_of(log), "6161616161616161");
    return 0;
}
