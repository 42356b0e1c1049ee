// Three kinds of misuse under UMEM_DEBUG=noabort: each is told once, the operation at fault is not done, and the program goes on.
// SPDX-License-Identifier: BSD-2-Clause
#include <umem.h>
#include <vmag/report.h>

#include "../check.h"
#include "../misuse/misuse.h"

int main(void) {
    char *first = hidden(umem_alloc(100, UMEM_DEFAULT)), *second = hidden(malloc(50)), *third = hidden(malloc(60));
    umem_free(first, 100);
    umem_free(first, 100); // freed already
    umem_free(hidden(second), 50); // of malloc
    free(second);
    third[60] = 1; // beyond the end
    free(third);
    CHECK(umem_alloc(100, UMEM_DEFAULT) != NULL);
    CHECK_EQ(vmag_umem_report(1, "umem_status", VMAG_REPORT_TEXT), 0);
    CHECK_EQ(vmag_umem_report(1, "nonsense", VMAG_REPORT_TEXT), -1);
    return 0;
}
