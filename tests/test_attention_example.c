/* The example of CONTRIBUTING.md, taken from there: it is the selector its words describe, at any k and length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attention/attention.h"

static const sf_selector *strided_selector(void) {
    return sf_plugin_entry(NULL)->selectors[0];
}

static sf_attention strided(size_t k, size_t globals) {
    return (sf_attention){
        .selector = strided_selector(), .weighting = &sf_weighting_softmax, .k = k, .globals = globals};
}

/* Every k-th key, counted from the query's own residue; and the global tokens. */
static void keeps_what_it_says(void **state) {
    (void)state;
    for (size_t T = 1; T <= 12; T++)
        for (size_t k = 1; k <= 15; k++)
            for (size_t globals = 0; globals <= 2; globals++) {
                const sf_attention attention = strided(k, globals);
                sf_pattern pattern;
                assert_int_equal(sf_pattern_create(&pattern, &attention, T + globals), SF_OK);
                for (size_t i = 0; i < T; i++) {
                    size_t at = pattern.offsets[i];
                    for (size_t j = 0; j < T + globals; j++)
                        if (j >= T || j % k == i % k) assert_int_equal(pattern.keys[at++], j);
                    assert_int_equal(at, pattern.offsets[i + 1]);
                }
                sf_pattern_destroy(&pattern);
            }
}

/* It keeps fewer keys the larger k is, and its own alone where k is the length or more. */
static void is_never_full_for_a_large_k(void **state) {
    (void)state;
    for (size_t T = 2; T <= 12; T++)
        for (size_t k = T; k <= T + 3; k++) {
            const sf_attention resolved = sf_attention_resolve(strided(k, 0), T);
            assert_ptr_equal(resolved.selector, strided_selector());
            assert_int_equal(resolved.k, k);
            uint32_t kept[12];
            for (size_t i = 0; i < T; i++) {
                assert_int_equal(sf_attention_keep(kept, &resolved, i, T, NULL, NULL), 1);
                assert_int_equal(kept[0], i);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_what_it_says),
                                       cmocka_unit_test(is_never_full_for_a_large_k)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
