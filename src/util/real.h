// The two functions of real numbers that sampling needs; the C library's live in a library of their own.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// Natural logarithm of x > 0 that is no subnormal; relative error below 1e-8.
double real_log(double x);

// 1 − e^(−x) for x ≥ 0, without loss for small x; relative error below 1e-8.
double real_one_minus_exp(double x);
