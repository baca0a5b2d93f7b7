/* Streaming quantiles against sorting. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "measure/quantiles.h"

static const double percents[] = {0, 0.1, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100};
enum { PERCENTS = sizeof percents / sizeof *percents };
static const double stated_error = 1.0 / 2048;

static int ascending(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double by_sorting(const double *sorted, size_t count, double percent) {
    const double place = percent / 100 * (double)(count - 1);
    const size_t below = (size_t)floor(place), above = (size_t)ceil(place);
    if (sorted[below] == sorted[above]) return sorted[below];
    return sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
}

typedef double (*source)(sf_draws *draws);

static double small_and_large(sf_draws *draws) { /* 60 binades, both signs */
    const double size = exp(20 * (2 * sf_draw_unit(draws) - 1));
    return sf_draw_below(draws, 2) ? size : -size;
}
static double whole(sf_draws *draws) {
    return sf_draw_below(draws, 4097);
}
static double whole_below_zero(sf_draws *draws) {
    return -(double)sf_draw_below(draws, 4097);
}
static double with_zeros(sf_draws *draws) {
    return sf_draw_below(draws, 3) == 0 ? sf_draw_unit(draws) * 1e-7 : 0;
}
static double uniform(sf_draws *draws) {
    return 10 * sf_draw_unit(draws);
}
static const source sources[] = {small_and_large, whole, whole_below_zero, with_zeros, uniform};
enum { SOURCES = sizeof sources / sizeof *sources };

/* Neighbours of opposite sign are each off by their own share. */
static double allowed(const double *sorted, size_t count, double percent, double share) {
    const double place = percent / 100 * (double)(count - 1);
    return share * fmax(fabs(sorted[(size_t)floor(place)]), fabs(sorted[(size_t)ceil(place)])) + 1e-12;
}

static void check(source draw, size_t count, size_t parts, double share) {
    sf_draws draws = sf_draws_at((sf_index){.seed = (uint32_t)count, .stream = 5});
    sf_quantiles whole_of_it = {0}, *part = NULL;
    double *values, got[PERCENTS];
    assert_int_equal(SF_NEW(&values, count), SF_OK);
    assert_int_equal(SF_NEW(&part, parts), SF_OK);
    for (size_t i = 0; i < count; i++) {
        values[i] = draw(&draws);
        sf_quantiles_add(&part[i % parts], values[i]);
    }
    for (size_t p = 0; p < parts; p++) {
        sf_quantiles_merge(&whole_of_it, &part[p]);
        sf_quantiles_clear(&part[p]);
    }
    assert_int_equal(whole_of_it.count, count);
    assert_int_equal(sf_quantiles_read(got, &whole_of_it, percents, PERCENTS), SF_OK);
    qsort(values, count, sizeof *values, ascending);
    for (size_t i = 0; i < PERCENTS; i++) {
        const double expected = by_sorting(values, count, percents[i]);
        const double error = fabs(got[i] - expected);
        if (error > allowed(values, count, percents[i], share))
            fail_msg("%zu values, %zu parts, %g %%: %.17g, expected %.17g", count, parts, percents[i], got[i],
                     expected);
    }
    assert_true(got[0] == values[0] && got[PERCENTS - 1] == values[count - 1]);
    sf_quantiles_clear(&whole_of_it);
    sf_release(part);
    sf_release(values);
}

static void few_values_are_exact(void **state) {
    (void)state;
    static const size_t counts[] = {1, 2, 3, 63, 64, 65, 1000, SF_EXACT_VALUES};
    for (size_t s = 0; s < SOURCES; s++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (size_t parts = 1; parts <= 3; parts++) check(sources[s], counts[i], parts, 1e-14);
}

static void many_values_keep_the_stated_error(void **state) {
    (void)state;
    static const size_t counts[] = {SF_EXACT_VALUES + 1, 50000};
    for (size_t s = 0; s < SOURCES; s++)
        for (size_t i = 0; i < 2; i++)
            for (size_t parts = 1; parts <= 20; parts += 19) check(sources[s], counts[i], parts, stated_error);
    check(whole, 50000, 3, 1e-14);
    check(whole_below_zero, 50000, 3, 1e-14);
}

/* Merged in any order and any cut, the answer has the same bits. */
static void order_and_merging_change_nothing(void **state) {
    (void)state;
    enum { VALUES = 9000 };
    double first[PERCENTS], got[PERCENTS];
    for (size_t parts = 1; parts <= 5; parts++) {
        sf_draws draws = sf_draws_at((sf_index){.seed = 3, .stream = 6});
        sf_quantiles part[5] = {{0}}, total = {0};
        for (size_t i = 0; i < VALUES; i++) { /* uneven parts: some exact, some in bins */
            sf_quantiles_add(&part[i * i % 17 % parts], small_and_large(&draws));
            if (i % 1000 == 0) sf_quantiles_add(&part[i / 1000 % parts], NAN);
        }
        for (size_t p = parts; p-- > 0;) sf_quantiles_merge(&total, &part[p]);
        assert_int_equal(sf_quantiles_read(got, &total, percents, PERCENTS), SF_OK);
        assert_int_equal(total.count, VALUES);
        assert_int_equal(total.not_numbers, VALUES / 1000);
        if (parts == 1) memcpy(first, got, sizeof first);
        assert_memory_equal(first, got, sizeof first);
        for (size_t p = 0; p < parts; p++) sf_quantiles_clear(&part[p]);
        sf_quantiles_clear(&total);
    }
}

static void odd_values_have_defined_answers(void **state) {
    (void)state;
    static const double median = 50;
    double got[PERCENTS];
    sf_quantiles q = {0};
    assert_int_equal(sf_quantiles_read(got, &q, percents, PERCENTS), SF_OK);
    for (size_t i = 0; i < PERCENTS; i++) assert_true(isnan(got[i]));
    sf_quantiles_add(&q, NAN);
    assert_int_equal(q.count, 0);
    assert_int_equal(q.not_numbers, 1);
    sf_quantiles_add(&q, -0.0);
    assert_int_equal(sf_quantiles_read(got, &q, &median, 1), SF_OK);
    assert_true(got[0] == 0 && !signbit(got[0]));
    sf_quantiles_clear(&q);

    for (int many = 0; many < 2; many++) { /* a fifth each, exact or in bins */
        static const double odd[] = {-INFINITY, -DBL_MIN, 0, 4.9e-324, INFINITY};
        const size_t times = many ? 2000 : 20;
        for (size_t i = 0; i < 5 * times; i++) sf_quantiles_add(&q, odd[i % 5]);
        static const double at[] = {0, 10, 30, 50, 70, 90, 100};
        assert_int_equal(sf_quantiles_read(got, &q, at, 7), SF_OK);
        assert_true(isinf(got[0]) && got[0] < 0 && isinf(got[1]) && got[1] < 0);
        for (size_t i = 2; i < 5; i++) assert_true(fabs(got[i]) <= DBL_MIN);
        assert_true(isinf(got[5]) && got[5] > 0 && isinf(got[6]) && got[6] > 0);
        sf_quantiles_clear(&q);
    }
    sf_quantiles_add(&q, -INFINITY);
    sf_quantiles_add(&q, INFINITY);
    assert_int_equal(sf_quantiles_read(got, &q, &median, 1), SF_OK);
    assert_true(got[0] <= INFINITY);
    sf_quantiles_clear(&q);
}

static void memory_does_not_grow_with_the_values(void **state) {
    (void)state;
    const size_t before = sf_bytes_in_use();
    sf_quantiles q = {0};
    sf_draws draws = sf_draws_at((sf_index){.seed = 9});
    for (size_t i = 0; i < 100000; i++) sf_quantiles_add(&q, small_and_large(&draws));
    const size_t used = sf_bytes_in_use() - before, blocks = sf_allocation_count();
    for (size_t i = 0; i < 1000000; i++) sf_quantiles_add(&q, small_and_large(&draws));
    assert_int_equal(sf_bytes_in_use() - before, used);
    assert_int_equal(sf_allocation_count(), blocks);
    sf_quantiles_clear(&q);
    assert_int_equal(sf_bytes_in_use(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_values_are_exact),
        cmocka_unit_test(many_values_keep_the_stated_error),
        cmocka_unit_test(order_and_merging_change_nothing),
        cmocka_unit_test(odd_values_have_defined_answers),
        cmocka_unit_test(memory_does_not_grow_with_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
