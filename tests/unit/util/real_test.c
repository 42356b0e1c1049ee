// The logarithm and 1 − e^(−x) against the C library's, over all that sampling asks for.
// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>

#include "unit.h"
#include "util/real.h"

static void check_near(double x, double got, double wanted) {
    double error = wanted == 0 ? fabs(got) : fabs(got / wanted - 1);
    CHECK_SAY(error < 1e-8, "at %.17g: %.17g, should be %.17g", x, got, wanted);
}

int main(void) {
    struct random random = { 42 };

    for (int i = 0; i < 200000; i++) {
        double even = (double)((random_next(&random) >> 11) + 1) * 0x1p-53;
        check_near(even, real_log(even), log(even));
        double x = -log(even) * 20;
        check_near(x, real_one_minus_exp(x), -expm1(-x));
        x = even * 1e-6;
        check_near(x, real_one_minus_exp(x), -expm1(-x));
    }
    check_near(0, real_one_minus_exp(0), 0);
    check_near(0x1p-53, real_log(0x1p-53), log(0x1p-53));
    check_near(1e300, real_one_minus_exp(1e300), 1);
    check_near(1, real_log(1), 0);
    return 0;
}
