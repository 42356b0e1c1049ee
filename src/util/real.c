// Logarithm and exponential by their series, after the power of two was split off.
// SPDX-License-Identifier: BSD-2-Clause
#include "util/real.h"

#include <stdint.h>
#include <string.h>

#define LN_2 0.693147180559945309417
enum { EXPONENT_BITS = 52, EXPONENT_BIAS = 1023, TERMS = 14 };

static const double reciprocal[TERMS + 1] = { // a division takes as long as five multiplications
	0, 1, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8, 1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13, 1.0 / 14,
};

// 2^power, power within −1022 … 1023.
static double power_of_two(int power)
{
	uint64_t bits = (uint64_t)(power + EXPONENT_BIAS) << EXPONENT_BITS;
	double result;

	memcpy(&result, &bits, sizeof result);
	return result;
}

// x = m·2^k with m in 3/4 … 3/2; ln m = 2·(s + s³/3 + s⁵/5 + …), s = (m − 1) / (m + 1), |s| ≤ 1/5.
double real_log(double x)
{
	static const double lowest = 0.75; // of m
	uint64_t bits, least;
	int power;
	double s, square, fourth, low, high;

	memcpy(&bits, &x, sizeof bits);
	memcpy(&least, &lowest, sizeof least);
	power = (int)((int64_t)(bits - least) >> EXPONENT_BITS);
	bits -= (uint64_t)power << EXPONENT_BITS;
	memcpy(&x, &bits, sizeof x);
	s = (x - 1) / (x + 1);
	square = s * s;
	fourth = square * square;
	low = 1 + square * (1.0 / 3) + fourth * (1.0 / 5 + square * (1.0 / 7)); // in parts that do not wait for each other
	high = 1.0 / 9 + square * (1.0 / 11) + fourth * (1.0 / 13);
	return power * LN_2 + 2 * s * (low + fourth * fourth * high);
}

// 1 − e^(−r) = r − r²/2! + r³/3! − … for r < ln 2.
static double small_one_minus_exp(double r)
{
	double sum = 0;

	for (int i = TERMS; i > 0; i--)
		sum = r * reciprocal[i] * (1 - sum);
	return sum;
}

double real_one_minus_exp(double x)
{
	int power;

	if (x >= 700)
		return 1;
	power = (int)(x / LN_2);
	if (power == 0)
		return small_one_minus_exp(x);
	return 1 - power_of_two(-power) * (1 - small_one_minus_exp(x - power * LN_2));
}
