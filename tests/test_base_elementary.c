/* The elementary functions: bounds of their errors against values of higher precision (mpmath's in a table, libm's long
 * double at many more points), special cases, exact points, order, and bits that are the same on every machine. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/elementary.h"
#include "base/hash.h"
#include "base/random.h"
#include "elementary_cases.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static double exp_of(double x, double y) {
    (void)y;
    return sf_exp(x);
}
static double log_of(double x, double y) {
    (void)y;
    return sf_log(x);
}
static double log1p_of(double x, double y) {
    (void)y;
    return sf_log1p(x);
}
static double log10_of(double x, double y) {
    (void)y;
    return sf_log10(x);
}
static double sin_of(double x, double y) {
    (void)y;
    return sf_sin(x);
}
static double cos_of(double x, double y) {
    (void)y;
    return sf_cos(x);
}
static double erfc_of(double x, double y) {
    (void)y;
    return sf_erfc(x);
}

static long double long_exp(long double x, long double y) {
    (void)y;
    return expl(x);
}
static long double long_log(long double x, long double y) {
    (void)y;
    return logl(x);
}
static long double long_log1p(long double x, long double y) {
    (void)y;
    return log1pl(x);
}
static long double long_log10(long double x, long double y) {
    (void)y;
    return log10l(x);
}
static long double long_sin(long double x, long double y) {
    (void)y;
    return sinl(x);
}
static long double long_cos(long double x, long double y) {
    (void)y;
    return cosl(x);
}
static long double long_erfc(long double x, long double y) {
    (void)y;
    return erfcl(x);
}

/* ---- points */

static double between(sf_draws *draws, double low, double high) {
    return low + (high - low) * sf_draw_unit(draws);
}

/* Any exponent from 2^low to 2^high is as likely as any other. */
static double of_any_size(sf_draws *draws, int low, int high) {
    const int exponent = low + (int)sf_draw_below(draws, (uint32_t)(high - low));
    return ldexp(1 + sf_draw_unit(draws), exponent);
}

static double of_any_sign(sf_draws *draws, double x) {
    return sf_draw_below(draws, 2) == 0 ? x : -x;
}

static void for_exp(double *x, double *y, sf_draws *draws) {
    *x = sf_draw_below(draws, 2) == 0 ? between(draws, -708, 709) : of_any_sign(draws, of_any_size(draws, -60, 1));
    *y = 0;
}
static void for_log(double *x, double *y, sf_draws *draws) {
    *x = sf_draw_below(draws, 2) == 0 ? of_any_size(draws, -1074, 1023) : 1 + between(draws, -0.5, 0.5);
    *y = 0;
}
static void for_log1p(double *x, double *y, sf_draws *draws) {
    *x = sf_draw_below(draws, 2) == 0 ? of_any_size(draws, -60, 1023) : of_any_sign(draws, of_any_size(draws, -60, -2));
    *y = 0;
}
static void for_pow(double *x, double *y, sf_draws *draws) { /* with results from 1e-300 to 1e300 */
    *x = sf_draw_below(draws, 2) == 0 ? of_any_size(draws, -1000, 1000) : between(draws, 0.5, 2);
    *y = between(draws, -690, 690) / log(*x);
}
static void for_angle(double *x, double *y, sf_draws *draws) {
    *x = sf_draw_below(draws, 2) == 0 ? between(draws, -7, 7) : between(draws, -SF_LARGEST_ANGLE, SF_LARGEST_ANGLE);
    *y = 0;
}
static void for_hypot(double *x, double *y, sf_draws *draws) {
    *x = of_any_sign(draws, of_any_size(draws, -1000, 1000));
    *y = of_any_sign(draws, *x * of_any_size(draws, -60, 10));
}
static void for_erfc(double *x, double *y, sf_draws *draws) {
    *x = between(draws, -7, 26.5);
    *y = 0;
}

static const struct function {
    const char *name;
    double (*ours)(double x, double y);
    long double (*libm)(long double x, long double y);
    void (*draw)(double *x, double *y, sf_draws *draws);
    const elementary_case *cases;
    size_t case_count;
    double bound;  /* of its error, in units in the last place */
    uint64_t bits; /* hash of its results, on any machine */
} functions[] = {
    {"exp", exp_of, long_exp, for_exp, exp_cases, COUNT(exp_cases), 0.53, 0x6f455fd4f0337774},
    {"log", log_of, long_log, for_log, log_cases, COUNT(log_cases), 0.51, 0xffa2df7a797c9567},
    {"log1p", log1p_of, long_log1p, for_log1p, log1p_cases, COUNT(log1p_cases), 0.51, 0x41b0d52201a1110d},
    {"log10", log10_of, long_log10, for_log, log10_cases, COUNT(log10_cases), 0.51, 0xf063294e926f3370},
    {"pow", sf_pow, powl, for_pow, pow_cases, COUNT(pow_cases), 0.7, 0x93028cfedc2e4b96},
    {"sin", sin_of, long_sin, for_angle, sin_cases, COUNT(sin_cases), 0.8, 0x6d1b39910f904643},
    {"cos", cos_of, long_cos, for_angle, cos_cases, COUNT(cos_cases), 0.8, 0x4f6f0dad12f156ed},
    {"hypot", sf_hypot, hypotl, for_hypot, hypot_cases, COUNT(hypot_cases), 0.51, 0xb9810e8fcbcd1e5c},
    {"erfc", erfc_of, long_erfc, for_erfc, erfc_cases, COUNT(erfc_cases), 4, 0x31ce129706418cec},
};

static sf_draws points_of(size_t function) {
    return sf_draws_at(
        (sf_index){.seed = 20261116, .stream = sf_stream(SF_SHUFFLE, 0, 0), .sample = (uint32_t)function});
}

/* ---- errors */

static double unit_in_last_place(double value) {
    int exponent;
    frexp(value, &exponent);
    return ldexp(1, exponent < -1021 ? -1074 : exponent - 53);
}

static double error_of(double ours, double high, double low) {
    if (isinf(high)) return ours == high ? 0 : INFINITY;
    return fabs((ours - high) - low) / unit_in_last_place(high);
}

static void known_values(void **state) {
    (void)state;
    for (size_t f = 0; f < COUNT(functions); f++) {
        double worst = 0;
        for (size_t i = 0; i < functions[f].case_count; i++) {
            const elementary_case *c = &functions[f].cases[i];
            const double error = error_of(functions[f].ours(c->x, c->y), c->high, c->low);
            const double bound = fabs(c->high) < 0x1p-1022 ? 1 : functions[f].bound;
            if (!(error <= bound)) fail_msg("%s(%a, %a) is %g units off", functions[f].name, c->x, c->y, error);
            worst = fmax(worst, error);
        }
        printf("%-6s at most %.4f units off at %zu known values\n", functions[f].name, worst, functions[f].case_count);
    }
}

/* libm's long double has 64 bits or more, enough to see a unit of 53. */
static void random_points(void **state) {
    (void)state;
    if (sizeof(long double) == sizeof(double)) skip();
    for (size_t f = 0; f < COUNT(functions); f++) {
        sf_draws draws = points_of(f);
        double worst = 0;
        for (size_t i = 0; i < 50000; i++) {
            double x, y;
            functions[f].draw(&x, &y, &draws);
            const long double exact = functions[f].libm(x, y);
            const double high = (double)exact, low = (double)(exact - high);
            const double error = error_of(functions[f].ours(x, y), high, low);
            const double slack = fabs(high) < 0x1p-1022 ? 0.5 : 0.002; /* long double's own error */
            if (!(error <= functions[f].bound + slack))
                fail_msg("%s(%a, %a) is %g units off", functions[f].name, x, y, error);
            worst = fmax(worst, error);
        }
        printf("%-6s at most %.4f units off at random points\n", functions[f].name, worst);
    }
}

/* The same on every machine: any other bit is another hash. */
static void bits_are_fixed(void **state) {
    (void)state;
    for (size_t f = 0; f < COUNT(functions); f++) {
        sf_draws draws = points_of(COUNT(functions) + f);
        uint64_t hash = SF_HASH_START;
        for (size_t i = 0; i < 20000; i++) {
            double x, y;
            functions[f].draw(&x, &y, &draws);
            if (functions[f].draw == for_pow) y = between(&draws, -200, 200) * (x > 0.5 && x < 2 ? 1 : 0.001);
            const double value = functions[f].ours(x, y);
            hash = sf_hash(hash, &value, sizeof value);
        }
        if (hash != functions[f].bits)
            fail_msg("%s has other bits: 0x%016llx", functions[f].name, (unsigned long long)hash);
    }
}

/* ---- special cases */

static void assert_same(double got, double expected) {
    if (isnan(expected) ? !isnan(got) : got != expected || signbit(got) != signbit(expected))
        fail_msg("%a instead of %a", got, expected);
}

static void exact_points(void **state) {
    (void)state;
    assert_same(sf_exp(0), 1);
    assert_same(sf_exp(-0.0), 1);
    assert_same(sf_log(1), 0);
    assert_same(sf_log1p(0), 0);
    assert_same(sf_sin(0), 0);
    assert_same(sf_sin(-0.0), -0.0);
    assert_same(sf_cos(0), 1);
    assert_same(sf_cos(-0.0), 1);
    assert_same(sf_erfc(0), 1);
    assert_same(sf_hypot(3, 4), 5);
    assert_same(sf_hypot(-0.0, -0.0), 0);
    assert_same(sf_hypot(0, -2), 2);
    for (int n = 0; n <= 22; n++) {
        char text[8];
        snprintf(text, sizeof text, "1e%d", n);
        assert_same(sf_pow(10, n), strtod(text, NULL));
    }
    for (int n = -307; n <= 308; n++) {
        char text[8];
        snprintf(text, sizeof text, "1e%d", n);
        assert_same(sf_log10(strtod(text, NULL)), n);
    }
    for (int n = -1074; n <= 1023; n++) assert_same(sf_pow(2, n), ldexp(1, n));
    for (uint64_t base = 2; base < 40; base++) {
        uint64_t power = base;
        for (int n = 1; power < UINT64_C(1) << 53; n++) {
            assert_same(sf_pow((double)base, n), (double)power);
            power *= base;
        }
    }
    assert_same(sf_pow(0.9, 1), 0.9);
    assert_same(sf_pow(0.37, 0), 1);
}

static void no_numbers_and_infinities(void **state) {
    (void)state;
    double (*const of_one[])(double) = {sf_exp, sf_log, sf_log1p, sf_log10, sf_sin, sf_cos, sf_erfc};
    for (size_t i = 0; i < COUNT(of_one); i++) assert_same(of_one[i](NAN), NAN);
    assert_same(sf_exp(INFINITY), INFINITY);
    assert_same(sf_exp(-INFINITY), 0);
    assert_same(sf_exp(709.79), INFINITY);
    assert_same(sf_exp(-745.14), 0);
    assert_same(sf_exp(-1e300), 0);
    assert_same(sf_log(0), -INFINITY);
    assert_same(sf_log(-0.0), -INFINITY);
    assert_same(sf_log(-1), NAN);
    assert_same(sf_log(INFINITY), INFINITY);
    assert_same(sf_log10(0), -INFINITY);
    assert_same(sf_log10(-5e-324), NAN);
    assert_same(sf_log10(INFINITY), INFINITY);
    assert_same(sf_log1p(-1), -INFINITY);
    assert_same(sf_log1p(-1.5), NAN);
    assert_same(sf_log1p(INFINITY), INFINITY);
    assert_same(sf_log1p(5e-324), 5e-324);
    assert_same(sf_pow(0, 2), 0);
    assert_same(sf_pow(0, 0), 1);
    assert_same(sf_pow(0, -1), INFINITY);
    assert_same(sf_pow(10, -INFINITY), 0);
    assert_same(sf_pow(10, INFINITY), INFINITY);
    assert_same(sf_pow(0.5, INFINITY), 0);
    assert_same(sf_pow(0.5, -INFINITY), INFINITY);
    assert_same(sf_pow(INFINITY, 0.5), INFINITY);
    assert_same(sf_pow(INFINITY, -2), 0);
    assert_same(sf_pow(1, NAN), 1);
    assert_same(sf_pow(NAN, 0), 1);
    assert_same(sf_pow(NAN, 1), NAN);
    assert_same(sf_pow(2, NAN), NAN);
    assert_same(sf_pow(1e300, 1e300), INFINITY);
    assert_same(sf_pow(1e300, -1e300), 0);
    assert_same(sf_pow(0.999, 1e308), 0);
    assert_same(sf_hypot(INFINITY, NAN), INFINITY);
    assert_same(sf_hypot(NAN, -INFINITY), INFINITY);
    assert_same(sf_hypot(NAN, 1), NAN);
    assert_same(sf_hypot(1.7e308, 1.7e308), INFINITY);
    assert_same(sf_erfc(INFINITY), 0);
    assert_same(sf_erfc(-INFINITY), 2);
}

static void angles_have_a_limit(void **state) {
    (void)state;
    sf_sin(SF_LARGEST_ANGLE);
    sf_cos(-SF_LARGEST_ANGLE);
    double (*const of_angle[])(double) = {sf_sin, sf_cos};
    for (size_t i = 0; i < COUNT(of_angle); i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGABRT, SIG_DFL); /* not cmocka's */
            fclose(stderr);
            of_angle[i](nextafter(SF_LARGEST_ANGLE, INFINITY));
            _exit(0);
        }
        int ended;
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGABRT);
    }
}

/* Neighbouring arguments never change the order of results where a function rises or falls. */
static void order_is_kept(void **state) {
    (void)state;
    sf_draws draws = points_of(99);
    for (size_t i = 0; i < 20000; i++) {
        double x = between(&draws, -20, 20);
        assert_true(sf_exp(x) <= sf_exp(nextafter(x, INFINITY)));
        x = of_any_size(&draws, -1000, 1000);
        assert_true(sf_log(x) <= sf_log(nextafter(x, INFINITY)));
        assert_true(sf_log1p(x) <= sf_log1p(nextafter(x, INFINITY)));
        assert_true(sf_log10(x) <= sf_log10(nextafter(x, INFINITY)));
        x = between(&draws, -30, 30);
        assert_true(sf_pow(10, x) <= sf_pow(10, nextafter(x, INFINITY)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),        cmocka_unit_test(random_points),
        cmocka_unit_test(bits_are_fixed),      cmocka_unit_test(exact_points),
        cmocka_unit_test(order_is_kept),       cmocka_unit_test(no_numbers_and_infinities),
        cmocka_unit_test(angles_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
