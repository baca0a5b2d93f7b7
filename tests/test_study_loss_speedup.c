/* The speed-up in loss on curves small enough to count by hand, and its odd cases. Random curves are compared with a
 * brute force of another language in tests/cli/test_cli_paper.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "study/loss_speedup.h"

static void assert_near(double value, double expected) {
    assert_true(fabs(value - expected) < 1e-12);
}

static void counted_by_hand(void **state) {
    (void)state;
    static const double ours[] = {2.0, 0.9, 0.4, 0.2, 0.1}, full[] = {2.1, 1.5, 1.0, 0.5, 0.3};
    const sf_loss_speedup s = sf_loss_compare(ours, full, 5);
    /* i = 0: none is earlier; 1: none (2.0 > 1.5); 2: one of 3; 3: one of 4 (0.4); 4: one of 5 (0.2) */
    assert_near(s.percent, 100.0 / 3);
    /* 1/1, 2/2, 3/2, 4/3, 5/4 */
    assert_near(s.times, 1.5);
    assert_near(s.difference, -0.6);     /* at both 1 and 2 */
    assert_near(s.relative, -0.2 / 0.3); /* at 4 */
}

static void eight_times(void **state) {
    (void)state;
    double ours[80], full[80];
    for (size_t i = 0; i < 80; i++) {
        ours[i] = i < 9 ? 1 : 0.01;
        full[i] = i < 79 ? 1.5 : 0.01;
    }
    assert_near(sf_loss_compare(ours, full, 80).times, 79); /* epoch 79 of full against epoch 1 */
    for (size_t i = 0; i < 79; i++) full[i] = 0.99;
    assert_near(sf_loss_compare(ours, full, 80).times, 8); /* 80 / 10 */
}

static void the_same_curve(void **state) {
    (void)state;
    static const double curve[] = {3, 2, 1};
    const sf_loss_speedup s = sf_loss_compare(curve, curve, 3);
    assert_near(s.percent, 0);
    assert_near(s.times, 1);
    assert_near(s.difference, 0);
    assert_near(s.relative, 0);
}

static void odd_curves(void **state) {
    (void)state;
    static const double low[] = {1, 0.5}, high[] = {4, 3}, broken[] = {NAN, 0.5}, zero[] = {0, 0};
    sf_loss_speedup s = sf_loss_compare(high, low, 2); /* never as low */
    assert_near(s.percent, 0);
    assert_true(isnan(s.times));
    assert_near(s.difference, 3);
    s = sf_loss_compare(broken, low, 2);
    assert_near(s.times, 1);
    assert_near(s.difference, 0);
    s = sf_loss_compare(low, zero, 2);
    assert_true(isnan(s.relative));
    s = sf_loss_compare(low, low, 0);
    assert_true(isnan(s.times) && isnan(s.difference));
    assert_near(s.percent, 0);
}

static void paired(double our_epochs, double their_epochs, sf_loss_curve ours, sf_loss_curve theirs) {
    double us, them;
    assert_true(sf_loss_epochs(&us, &them, &ours, &theirs));
    assert_near(us, our_epochs);
    assert_near(them, their_epochs);
    assert_true(sf_loss_epochs(&us, &them, &theirs, &ours)); /* it does not matter who comes first */
    assert_near(us, their_epochs);
    assert_near(them, our_epochs);
}

static void epochs_to_what_both_reach(void **state) {
    (void)state;
    static const double fast[] = {2, 0.5, 0.1, 0.05}, slow[] = {2, 1.5, 1, 0.5}, broken[] = {NAN, NAN};
    paired(2, 4, (sf_loss_curve){fast, 4, false}, (sf_loss_curve){slow, 4, false}); /* both reach 0.5 */
    paired(1, 1, (sf_loss_curve){fast, 4, false}, (sf_loss_curve){slow, 1, false}); /* both reach 2 */
    paired(4, 4, (sf_loss_curve){slow, 4, false}, (sf_loss_curve){slow, 4, false});
    /* a run that diverged, however low it was before, comes after the last epoch of the other */
    paired(5, 4, (sf_loss_curve){fast, 3, true}, (sf_loss_curve){slow, 4, false});
    double us, them;
    const sf_loss_curve whole = {fast, 4, false}, gone = {slow, 2, true}, nothing = {broken, 2, false};
    assert_false(sf_loss_epochs(&us, &them, &gone, &gone));
    assert_false(sf_loss_epochs(&us, &them, &whole, &nothing));
    assert_false(sf_loss_epochs(&us, &them, &gone, &nothing));
    assert_false(sf_loss_epochs(&us, &them, &whole, &(sf_loss_curve){NULL, 0, false}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_by_hand),
        cmocka_unit_test(eight_times),
        cmocka_unit_test(the_same_curve),
        cmocka_unit_test(odd_curves),
        cmocka_unit_test(epochs_to_what_both_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
