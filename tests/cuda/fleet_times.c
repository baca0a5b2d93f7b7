/* A fleet on the device tells how long its training and its evaluation took. Skipped where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "train/fleet_benchmark.h"

enum { SKIPPED = 77 };

static void a_fleet_is_timed(void **state) {
    (void)state;
    static const char *const mechanisms[] = {"banded:3", "topk:2"};
    const sf_execution execution = {.device = SF_CUDA};
    const sf_fleet_case what = {
        .task = "even-pairs", .mechanisms = mechanisms, .kinds = 2, .models = 2, .steps = 1, .execution = &execution};
    sf_fleet_times times;
    const double start = sf_clock_seconds();
    if (sf_fleet_benchmark(&times, &what) != SF_OK) fail_msg("%s", sf_message());
    const double seconds = sf_clock_seconds() - start;
    assert_string_equal(times.device, "cuda");
    assert_int_equal(times.epochs, 3);
    assert_true(times.flops > 0);
    assert_true(times.step > 0 && times.evaluation > 0);
    const double least = 2 * (times.step + 50 * times.evaluation); /* an epoch as fast as the median of three */
    assert_true(2 * least <= seconds);
}

static void the_cpu_does_not_tell(void **state) {
    (void)state;
    static const char *const mechanism = "block:4";
    const sf_execution execution = {.threads = 1};
    const sf_fleet_case what = {
        .task = "even-pairs", .mechanisms = &mechanism, .kinds = 1, .models = 1, .steps = 1, .execution = &execution};
    sf_fleet_times times;
    assert_int_equal(sf_fleet_benchmark(&times, &what), SF_UNSUPPORTED);
    assert_non_null(strstr(sf_message(), "cpu"));
}

int main(void) {
    if (sf_backend_cuda.check(SF_F32) != SF_OK) {
        printf("skipped: %s\n", sf_message());
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_fleet_is_timed), cmocka_unit_test(the_cpu_does_not_tell)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
