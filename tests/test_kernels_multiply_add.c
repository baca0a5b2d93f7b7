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

/* c is near the product, or 2^25 times as large or small, so that sums end halfway between floats. */
static void near_halfway(void **state) {
    (void)state;
    rounded_again = 0;
    for (uint32_t i = 0; i < 2000000; i++) {
        const uint32_t few_bits = 0xffffffffU << random_word(i, 3) % 23;
        const float a = float_of((random_word(i, 0) & 0x007fffffU & few_bits) | 0x3f800000U);
        const float b = float_of((random_word(i, 1) & 0x007fffffU & few_bits) | 0x3f800000U);
        const int scale = (int)(random_word(i, 4) % 60) - 30;
        const float c = ldexpf(float_of((random_word(i, 2) & 0x807fffffU & few_bits) | 0x3f800000U), scale);
        check(a, b, c);
    }
    assert_true(rounded_again > 100); /* else this tests nothing */
}

static void subnormal_results(void **state) {
    (void)state;
    rounded_again = 0;
    for (uint32_t i = 0; i < 1000000; i++) {
        const float a = float_of((random_word(i, 0) & 0x807fffffU) | (uint32_t)(20 + random_word(i, 3) % 60) << 23);
        const float b = float_of((random_word(i, 1) & 0x007fffffU) | (uint32_t)(20 + random_word(i, 4) % 60) << 23);
        check(a, b, float_of(random_word(i, 2) & 0x80ffffffU));
    }
    assert_true(rounded_again > 10);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bits),
        cmocka_unit_test(near_halfway),
        cmocka_unit_test(subnormal_results),
        cmocka_unit_test(special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    return 77; /* this architecture always has the instruction */
}
#endif
