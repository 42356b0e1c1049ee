// A program that asks for debugging itself: _umem_debug_init and _umem_logging_init, which variables overrule.
// SPDX-License-Identifier: BSD-2-Clause
#include <umem.h>
#include <vmag/report.h>

const char *_umem_debug_init(void);
const char *_umem_logging_init(void);

const char *_umem_debug_init(void) {
    return "audit=4";
}

const char *_umem_logging_init(void) {
    return "transaction";
}

int main(void) {
    umem_free(umem_alloc(10, UMEM_DEFAULT), 10);
    return vmag_umem_report(1, "umem_log", VMAG_REPORT_TEXT) != 0;
}
