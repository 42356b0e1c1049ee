// Many caches and malloc, used; then the report umem_cache as JSON on stdout.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>
#include <umem.h>
#include <vmag/report.h>

enum { CACHES = 60, OBJECTS = 20, SIZE = 72 };

int main(void) {
    void *objects[OBJECTS];

    for (int number = 0; number < CACHES; number++) {
        char name[] = { 'c', (char)('0' + number / 10), (char)('0' + number % 10), '\0' };
        umem_cache_t *cache = umem_cache_create(name, SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);

        for (int i = 0; i < OBJECTS; i++)
            memset(objects[i] = umem_cache_alloc(cache, UMEM_NOFAIL), number, SIZE);
        for (int i = 0; i < OBJECTS; i++)
            umem_cache_free(cache, objects[i]);
        for (int i = 0; i < OBJECTS; i++)
            memset(objects[i] = malloc((size_t)(i * number + 1)), number, (size_t)(i * number + 1));
        for (int i = 0; i < OBJECTS; i++)
            free(objects[i]);
    }
    return vmag_umem_report(1, "umem_cache", VMAG_REPORT_JSON) != 0;
}
