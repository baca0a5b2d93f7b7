#include "base/elementary.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static_assert(FLT_EVAL_METHOD == 0 && DBL_MANT_DIG == 53, "doubles must be computed as doubles");

/* ---- a number as the sum of two: about 106 bits */

typedef struct pair {
    double high, low; /* high is the rounded sum, low its rounding error */
} pair;

/* a + b, exactly (Knuth). */
static pair sum_of(double a, double b) {
    const double high = a + b, from_b = high - a;
    return (pair){high, (a - (high - from_b)) + (b - from_b)};
}

/* The same where |a| >= |b| or a = 0 (Dekker). */
static pair ordered_sum(double a, double b) {
    const double high = a + b;
    return (pair){high, b - (high - a)};
}

/* a in two halves of 26 bits (Veltkamp), |a| < 2^996. */
static pair halves_of(double a) {
    const double shifted = 0x1.0000002p27 * a, high = shifted - (shifted - a);
    return (pair){high, a - high};
}

/* a * b, exactly (Dekker), except for what is too small for a double. */
static pair product_of(double a, double b) {
    const pair x = halves_of(a), y = halves_of(b);
    const double high = a * b;
    return (pair){high, x.low * y.low - (((high - x.high * y.high) - x.low * y.high) - x.high * y.low)};
}

static pair product_of_pairs(pair a, pair b) {
    const pair product = product_of(a.high, b.high);
    return ordered_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

/* The polynomial of x with the given coefficients, the constant first. */
static double polynomial(const double *coefficients, int count, double x) {
    double value = coefficients[count - 1];
    for (int i = count - 2; i >= 0; i--) value = value * x + coefficients[i];
    return value;
}
#define POLYNOMIAL(coefficients, x) polynomial(coefficients, (int)(sizeof(coefficients) / sizeof *(coefficients)), x)

/* ---- exponential */

/* value * 2^n. */
static double scaled(double value, int n) {
    if (n < -1022 || n > 1023) return ldexp(value, n);
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return value * power;
}

/* e^x for |x| < 800. x = n ln 2 + r with |r| <= ln 2 / 2, and e^r = 1 + r + r^2/2 + r^3 (Taylor's series of the rest);
 * the first three terms are pairs, because their rounding errors would count. */
static double exp_of(pair x) {
    static const double inverse_ln2 = 0x1.71547652b82fep0;
    static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33; /* n times high is exact */
    static const double rest[] = {1.0 / 6,          1.0 / 24,         1.0 / 120,          1.0 / 720,
                                  1.0 / 5040,       1.0 / 40320,      1.0 / 362880,       1.0 / 3628800,
                                  1.0 / 39916800.0, 1.0 / 479001600., 1.0 / 6227020800.0, 1.0 / 87178291200.0};
    const double n = rint(x.high * inverse_ln2);
    const pair r = sum_of(x.high - n * ln2_high, x.low - n * ln2_low);
    const pair square = product_of(r.high, r.high);
    const pair linear = ordered_sum(1, r.high), quadratic = ordered_sum(linear.high, 0.5 * square.high);
    const double cubic = square.high * r.high * POLYNOMIAL(rest, r.high);
    const double low = cubic + (linear.low + quadratic.low + 0.5 * square.low + r.low * (1 + r.high));
    return scaled(quadratic.high + low, (int)n);
}

double sf_exp(double x) {
    if (isnan(x)) return x;
    if (x > 710) return INFINITY;
    if (x < -746) return 0;
    return exp_of((pair){x, 0});
}

/* ---- logarithm */

/* ln(1 + a) for -0.3 < a < 0.42: with s = a / (2 + a) it is 2 (s + s^3/3 + s^5/5 + ...). */
static pair log_near_one(pair a) {
    static const pair two_thirds = {0x1.5555555555555p-1, 0x1.5555555555555p-55};
    static const double rest[] = {2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13, 2.0 / 15,
                                  2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23, 2.0 / 25, 2.0 / 27};
    const pair sum = sum_of(2, a.high);
    const double below = sum.low + a.low, quotient = a.high / sum.high;
    const pair back = product_of(quotient, sum.high);
    const double missing = ((a.high - back.high) - back.low) + (a.low - quotient * below);
    const pair s = ordered_sum(quotient, missing / sum.high);
    const pair square = product_of_pairs(s, s), cube = product_of_pairs(square, s);
    const pair cubic = product_of_pairs(two_thirds, cube), first = ordered_sum(2 * s.high, cubic.high);
    const double fifth = cube.high * square.high * POLYNOMIAL(rest, square.high);
    return ordered_sum(first.high, fifth + (first.low + 2 * s.low + cubic.low));
}

/* ln x of a positive finite pair: x = 2^k m with m between the square roots of 1/2 and 2. */
static pair log_of(pair x) {
    static const double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45; /* k times high is exact */
    int k;
    double m = frexp(x.high, &k);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        k--;
    }
    const pair near = log_near_one(ordered_sum(m - 1, ldexp(x.low, -k)));
    if (k == 0) return near;
    const pair sum = ordered_sum(k * ln2_high, near.high);
    return ordered_sum(sum.high, sum.low + (k * ln2_low + near.low));
}

/* Where a logarithm is no finite number. */
static int log_is_special(double *out, double x) {
    if (x > 0 && x < INFINITY) return 0;
    *out = x == 0 ? -INFINITY : x > 0 || isnan(x) ? x : NAN;
    return 1;
}

double sf_log(double x) {
    double special;
    if (log_is_special(&special, x)) return special;
    const pair log = log_of((pair){x, 0});
    return log.high + log.low;
}

double sf_log1p(double x) {
    double special;
    if (log_is_special(&special, 1 + x)) return special;
    if (fabs(x) < 0x1p-54) return x;
    const pair log = log_of(sum_of(1, x));
    return log.high + log.low;
}

double sf_log10(double x) {
    static const pair inverse_ln10 = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};
    double special;
    if (log_is_special(&special, x)) return special;
    const pair log = product_of_pairs(log_of((pair){x, 0}), inverse_ln10);
    return log.high + log.low;
}

double sf_pow(double x, double y) {
    assert(!(x < 0));
    if (y == 0 || x == 1) return 1;
    if (isnan(x) || isnan(y)) return NAN;
    if (x == 0 || isinf(x) || isinf(y)) return (x > 1) == (y > 0) ? INFINITY : 0;
    const pair log = log_of((pair){x, 0});
    const double rough = y * log.high;
    if (rough > 710) return INFINITY;
    if (rough < -746) return 0;
    const pair product = product_of(y, log.high);
    return exp_of(ordered_sum(product.high, product.low + y * log.low));
}

/* ---- sine and cosine */

/* x - n pi/2, n being the nearest whole number; *quadrant is n modulo 4. n has at most 20 bits, and all parts of pi/2
 * but the last have 32, so their products are exact. */
static pair quarter_turn(int *quadrant, double x) {
    static const double two_over_pi = 0x1.45f306dc9c883p-1;
    static const double half_pi[] = {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69, 0x1.b839a252049c1p-104};
    assert(!(fabs(x) > SF_LARGEST_ANGLE));
    const double n = rint(x * two_over_pi);
    *quadrant = (int)((int64_t)n & 3);
    const pair first = sum_of(x - n * half_pi[0], -n * half_pi[1]), second = sum_of(first.high, -n * half_pi[2]);
    return sum_of(second.high, first.low + second.low - n * half_pi[3]);
}

/* sin r = r - r^3/3! + r^5/5! - ... for |r| <= pi/4 */
static double sine(pair r) {
    static const double rest[] = {-1.0 / 6,
                                  1.0 / 120,
                                  -1.0 / 5040,
                                  1.0 / 362880,
                                  -1.0 / 39916800.0,
                                  1.0 / 6227020800.0,
                                  -1.0 / 1307674368000.0,
                                  1.0 / 355687428096000.0};
    const double square = r.high * r.high;
    return r.high + (square * r.high * POLYNOMIAL(rest, square) + r.low * (1 - 0.5 * square));
}

/* cos r = 1 - r^2/2! + r^4/4! - ... */
static double cosine(pair r) {
    static const double rest[] = {1.0 / 24,          -1.0 / 720,           1.0 / 40320,           -1.0 / 3628800,
                                  1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888000.0};
    const pair square = product_of(r.high, r.high), first = ordered_sum(1, -0.5 * square.high);
    const double fourth = square.high * square.high * POLYNOMIAL(rest, square.high);
    return first.high + (fourth + (first.low - 0.5 * square.low - r.high * r.low));
}

/* The sine of r and `quadrant` right angles. */
static double sine_in(int quadrant, pair r) {
    const double value = quadrant % 2 == 0 ? sine(r) : cosine(r);
    return quadrant % 4 < 2 ? value : -value;
}

double sf_sin(double x) {
    if (isnan(x) || x == 0) return x;
    int quadrant;
    const pair r = quarter_turn(&quadrant, x);
    return sine_in(quadrant, r);
}

double sf_cos(double x) {
    if (isnan(x)) return x;
    int quadrant;
    const pair r = quarter_turn(&quadrant, x);
    return sine_in(quadrant + 1, r);
}

/* ---- hypotenuse and error function */

double sf_hypot(double x, double y) {
    const double large = fmax(fabs(x), fabs(y)), small = fmin(fabs(x), fabs(y));
    if (isinf(x) || isinf(y)) return INFINITY;
    if (isnan(x) || isnan(y)) return NAN;
    if (small == 0) return large;
    int exponent;
    const double a = frexp(large, &exponent), b = ldexp(small, -exponent);
    const pair aa = product_of(a, a), bb = product_of(b, b), sum = ordered_sum(aa.high, bb.high);
    const double root = sqrt(sum.high);
    const pair back = product_of(root, root);
    const double missing = (sum.high - back.high) - back.low + (sum.low + aa.low + bb.low);
    return ldexp(root + 0.5 * missing / root, exponent);
}

/* x < 1/2: 1 - 2/sqrt(pi) (x - x^3/(3 1!) + x^5/(5 2!) - ...) */
static double erfc_near_zero(double x) {
    static const pair factor = {0x1.20dd750429b6dp0, 0x1.1ae3a914fed8p-56}; /* 2 / sqrt(pi) */
    static const double rest[] = {-1.0 / 3,       1.0 / 10,         -1.0 / 42,          1.0 / 216,
                                  -1.0 / 1320,    1.0 / 9360,       -1.0 / 75600,       1.0 / 685440,
                                  -1.0 / 6894720, 1.0 / 76204800.0, -1.0 / 918086400.0, 1.0 / 11975040000.0};
    const pair linear = product_of(x, factor.high);
    const double square = x * x, cubic = linear.high * square * POLYNOMIAL(rest, square);
    const pair first = sum_of(1, -linear.high);
    return first.high + (first.low - (linear.low + x * factor.low + cubic));
}

/* x >= 1/2: e^(-x^2) p(t) / (x + 1/2) with t = (x - 4) / (x + 4); p interpolates (x + 1/2) e^(x^2) erfc(x) at the
 * Chebyshev points of 1/2 <= x <= 28, within half a unit in the last place. */
static double erfc_far(double x) {
    static const double p[] = {
        0.6164975593127763,     -0.06981055842028125,    0.007689826051310008,    0.03404852712734584,
        -0.050519533018161464,  0.046866417499195456,    -0.03316518290585837,    0.018583757768369846,
        -0.008098867032394352,  0.002515984992455969,    -0.00037888661568554724, -9.962836511334775e-05,
        7.531069208902802e-05,  -1.2199557827791166e-05, -5.610540895745301e-06,  2.8548097037303846e-06,
        1.4592332927790397e-07, -4.1276611296314156e-07, 3.8573131102164385e-08,  5.52792436127539e-08,
        -9.868436295177771e-09, -7.352210887200183e-09,  1.2047445222142535e-09,  7.609638906306134e-10};
    const pair square = product_of(x, x);
    return exp_of((pair){-square.high, -square.low}) * (POLYNOMIAL(p, (x - 4) / (x + 4)) / (x + 0.5));
}

double sf_erfc(double x) {
    if (isnan(x)) return x;
    if (x < 0) return 2 - sf_erfc(-x);
    if (x < 0.5) return erfc_near_zero(x);
    return x < 28 ? erfc_far(x) : 0;
}
