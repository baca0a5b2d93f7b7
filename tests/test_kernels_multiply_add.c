/* The multiply-add of processors without one against the C library's, which is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/random.h"

#if defined(__SSE2__)
#include "kernels/cpu/multiply_add.h"

#undef SF_ISA_SUFFIX
#define SF_ISA_SUFFIX _scalar
#include "kernels/cpu/gemm.h"

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static size_t rounded_again; /* results that two roundings would have made wrong */

static void check(float a, float b, float c) {
    float ours[4];
    _mm_storeu_ps(ours, multiply_add_through_doubles(_mm_set1_ps(a), _mm_set_ps(1.0F, b, b, b), _mm_set1_ps(c)));
    const float theirs = fmaf(a, b, c);
    rounded_again += (float)((double)a * (double)b + (double)c) != theirs && !isnan(theirs);
    for (int lane = 0; lane < 3; lane++)
        if (bits_of(ours[lane]) != bits_of(theirs) && !(isnan(ours[lane]) && isnan(theirs)))
            fail_msg("%a * %a + %a is %a, not %a", (double)a, (double)b, (double)c, (double)theirs, (double)ours[lane]);
}

static uint32_t random_word(uint32_t i, uint32_t which) {
    uint32_t words[4];
    const sf_index index = {.seed = 11, .stream = which, .sample = i};
    sf_philox(words, &index, 0);
    return words[0];
}

static void any_bits(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 1000000; i++)
        check(float_of(random_word(i, 0)), float_of(random_word(i, 1)), float_of(random_word(i, 2)));
}

/* a * b is 2^exponent (1 - 2^-2k), c a multiple of twice that power: the sum misses the middle between two floats by
 * less than a double can tell. */
static void check_near_middle(uint32_t i, int exponent, uint32_t most) {
    const int k = 12 + (int)(random_word(i, 3) % 12), share = (int)(random_word(i, 4) % 8) - 4;
    const float sign = random_word(i, 5) % 2 == 0 ? 1.0F : -1.0F;
    const float a = ldexpf(sign * (1.0F + ldexpf(1.0F, -k)), exponent / 2 + share);
    const float b = ldexpf(1.0F - ldexpf(1.0F, -k), exponent - exponent / 2 - share);
    const float c = ldexpf((float)(random_word(i, 0) % most), exponent + 1);
    check(a, b, random_word(i, 6) % 2 == 0 ? c : -c);
}

static void near_the_middle(void **state) {
    (void)state;
    rounded_again = 0;
    for (uint32_t i = 0; i < 200000; i++) check_near_middle(i, (int)(random_word(i, 7) % 60) - 30, 1U << 24);
    assert_true(rounded_again > 1000); /* else this tests nothing */
}

static void subnormal_results(void **state) {
    (void)state;
    rounded_again = 0;
    for (uint32_t i = 0; i < 200000; i++) check_near_middle(i, -150, 1U << 23);
    assert_true(rounded_again > 1000);
}

static void special_values(void **state) {
    (void)state;
    const float values[] = {0.0F,     -0.0F,        1.0F,   -1.0F,   INFINITY,    -INFINITY,  NAN, 3.4e38F,
                            -3.4e38F, 1.17549e-38F, 1e-45F, -1e-45F, 16777215.0F, 8388609.0F, 0.5F};
    enum { VALUES = sizeof values / sizeof *values };
    for (size_t i = 0; i < VALUES; i++)
        for (size_t j = 0; j < VALUES; j++)
            for (size_t k = 0; k < VALUES; k++) check(values[i], values[j], values[k]);
}

/* The whole product, which looks for doubtful roundings once per tile: every sum is a multiple of 2^(exponent + 1) and
 * then, at some depth, near the middle between two floats as above. */
static void check_product(uint32_t i, int exponent, uint32_t most) {
    enum { M = 11, N = 16, K = 37 };
    const int k = 12 + (int)(random_word(i, 3) % 12);
    const size_t depth = 1 + random_word(i, 4) % (K - 1);
    float A[M * K] = {0}, B[K * N] = {0}, C[M * N];
    for (size_t m = 0; m < M; m++) {
        A[m * K] = ldexpf((float)(random_word(M * i + (uint32_t)m, 0) % most), exponent + 1);
        A[m * K + depth] = ldexpf(1.0F + ldexpf(1.0F, -k), exponent / 2);
    }
    for (size_t n = 0; n < N; n++) {
        B[n] = 1.0F;
        B[depth * N + n] = ldexpf(n % 3 == 0 ? 0.5F : 1.0F - ldexpf(1.0F, -k), exponent - exponent / 2);
    }
    sf_gemm(C, N, sf_upright(A, K), sf_plain(B, N), NULL, false, M, N, K);
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            const float a = A[m * K + depth], b = B[depth * N + n], once = fmaf(a, b, A[m * K]);
            rounded_again += (float)((double)a * (double)b + (double)A[m * K]) != once;
            if (bits_of(once) != bits_of(C[m * N + n])) fail_msg("%a, not %a", (double)once, (double)C[m * N + n]);
        }
}

static void products(void **state) {
    (void)state;
    rounded_again = 0;
    for (uint32_t i = 0; i < 200; i++) check_product(i, (int)(random_word(i, 7) % 60) - 30, 1U << 24);
    assert_true(rounded_again > 100);
}

static void products_that_are_subnormal(void **state) {
    (void)state;
    rounded_again = 0;
    for (uint32_t i = 0; i < 200; i++) check_product(i, -150, 1U << 23);
    assert_true(rounded_again > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bits),          cmocka_unit_test(near_the_middle),
        cmocka_unit_test(subnormal_results), cmocka_unit_test(special_values),
        cmocka_unit_test(products),          cmocka_unit_test(products_that_are_subnormal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    return 77; /* this architecture always has the instruction */
}
#endif
