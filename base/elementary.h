/* exp, log, sin and similar functions with the same bits on every machine.
 *
 * libm's differ in the last bit between versions and between CPUs with and without fused multiply-add, so no result may
 * pass through them. These are fixed sequences of additions, multiplications, divisions and square roots of doubles,
 * which IEEE 754 defines to the bit; this folder is compiled without contraction (-ffp-contract=off). sqrt, fabs,
 * floor, ceil, rint, fmin, fmax, frexp and ldexp of libm are exact and may be used anywhere.
 *
 * Largest errors, in units in the last place: exp 0.53, log, log1p, log10 and hypot 0.51, pow 0.7, sin and cos 0.8,
 * erfc 4 (checked by tests/test_base_elementary.c). Results that are too small to be normal numbers are rounded twice:
 * 1 unit. These are exact: exp 0 = 1, log 1 = 0, log10 of 1, 10, 100, ..., sin 0 = 0, cos 0 = 1, powers of whole
 * numbers that fit into a double. */
#ifndef SF_BASE_ELEMENTARY_H
#define SF_BASE_ELEMENTARY_H

double sf_exp(double x);
double sf_log(double x);   /* -infinity at 0, NaN below */
double sf_log1p(double x); /* ln(1 + x), also where x is tiny; -infinity at -1, NaN below */
double sf_log10(double x);
double sf_pow(double x, double y); /* x >= 0 */
double sf_hypot(double x, double y);
double sf_erfc(double x); /* 1 - erf(x) */

/* |x| <= SF_LARGEST_ANGLE or NaN: an asserted limit, beyond any position or phase here. */
#define SF_LARGEST_ANGLE 0x1p20
double sf_sin(double x);
double sf_cos(double x);

#endif
