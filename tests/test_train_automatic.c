/* --device auto: what a run costs, and when a GPU is worth its start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "train/automatic.h"
#include "train/data.h"
#include "train/flops.h"

static const double h200 = 60e3, laptop = 8e3; /* GFLOP/s */

static sf_config config_of(const char *const *settings) {
    sf_config config;
    sf_config_init(&config);
    for (; *settings != NULL; settings += 2)
        if (sf_config_set(&config, settings[0], settings[1]) != SF_OK) fail_msg("%s", sf_message());
    return config;
}

#define CONFIG(...) config_of((const char *const[]){__VA_ARGS__, NULL})

static sf_workload runs(const sf_config *config, const char *attention, size_t count, double epochs) {
    sf_workload work = {0};
    for (size_t i = 0; i < count; i++) sf_workload_add_run(&work, config, attention, epochs);
    return work;
}

/* The figures that the paper's shapes are known by: GFLOP of a step of 25 sequences. */
static void arithmetic_of_a_step(void **state) {
    (void)state;
    static const struct {
        const char *length, *blocks, *attention;
        double gflop;
    } known[] = {
        {"40", "5", "full", 0.89},   {"40", "5", "banded:5", 0.75}, {"40", "5", "topk:5", 0.78},
        {"600", "10", "full", 91.2}, {"600", "10", "topk:5", 34},   {"600", "10", "block:5", 22.7},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const sf_config config = CONFIG("length", known[i].length, "blocks", known[i].blocks);
        const double got = 25e-9 * sf_flops_of_run(&config, known[i].attention).training;
        if (got < 0.95 * known[i].gflop || got > 1.05 * known[i].gflop)
            fail_msg("%s at length %s: %g GFLOP, not %g", known[i].attention, known[i].length, got, known[i].gflop);
    }
}

static void work_adds_up(void **state) {
    (void)state;
    const sf_config config = CONFIG("train-count", "50", "heldout-count", "65", "batch", "20", "blocks", "2");
    const sf_flops one = sf_flops_of_run(&config, "full");
    const sf_workload single = runs(&config, "full", 1, 3), several = runs(&config, "full", 7, 3);
    assert_true(single.flops == 3 * (50 * one.training + 115 * one.forward));
    assert_true(single.depth == 3 * 2 * (3 * 3 + 1 + 2)); /* epochs, blocks, passes of 3 steps and 3 evaluations */
    assert_int_equal(several.models, 7);
    assert_true(several.flops > 6.9 * single.flops && several.flops < 7.1 * single.flops);
    assert_true(several.depth == single.depth); /* they are computed side by side */
    sf_workload evaluation = {0};
    const sf_shape shape = {.T = 40, .C = 64, .F = 64, .H = 1, .L = 5};
    sf_workload_add_evaluation(&evaluation, &shape, 100, 65);
    assert_int_equal(evaluation.models, 100);
    assert_true(evaluation.depth == 2 * 5);
}

static void a_study_gains(void **state) {
    (void)state;
    const sf_config nnch = CONFIG("length", "40");
    const sf_workload study = runs(&nnch, "full", 150, 100), one = runs(&nnch, "full", 1, 100);
    assert_true(sf_gpu_gains(&study, h200, 64));
    assert_true(sf_gpu_gains(&study, laptop, 16));
    assert_true(sf_gpu_gains(&one, h200, 2));    /* minutes against half a minute */
    assert_false(sf_gpu_gains(&study, 100, 64)); /* a GPU that is slower than the CPU */
}

static void a_short_run_does_not(void **state) {
    (void)state;
    const sf_config nnch = CONFIG("length", "40");
    const sf_config small = CONFIG("length", "8", "blocks", "1", "width", "16", "mlp-width", "16");
    const sf_workload epoch = runs(&nnch, "full", 1, 1), tiny = runs(&small, "full", 6, 20), nothing = {0};
    assert_false(sf_gpu_gains(&epoch, h200, 2));
    assert_false(sf_gpu_gains(&tiny, h200, 2));
    assert_false(sf_gpu_gains(&nothing, h200, 1));
}

/* One model cannot use more threads than a batch has chunks. */
static void threads_count_as_far_as_they_are_used(void **state) {
    (void)state;
    const sf_config nnch = CONFIG("length", "40");
    const sf_workload one = runs(&nnch, "full", 1, 10), many = runs(&nnch, "full", 100, 10);
    assert_true(sf_gpu_gains(&one, h200, 2));
    assert_false(sf_gpu_gains(&one, h200, 8));
    sf_workload longer = one;
    longer.flops *= 3; /* enough against 8 threads, but not against 64 */
    assert_true(sf_gpu_gains(&longer, h200, 64));
    assert_true(sf_gpu_gains(&many, h200, 64));
}

static void count_note(void *context, const char *sentence) {
    assert_non_null(strstr(sentence, "GPU"));
    ++*(size_t *)context;
}

/* Without a GPU, auto is the CPU, and says nothing; a device that was asked for stays. */
static void auto_decides_itself_alone(void **state) {
    (void)state;
    const bool has_gpu = sf_backend_cuda.check(SF_F32) == SF_OK;
    const sf_config nnch = CONFIG("length", "40");
    const sf_workload study = runs(&nnch, "full", 500, 100), nothing = {0};
    size_t notes = 0;
    sf_machine machine = {.threads = 1, .device = SF_AUTO, .on_note = count_note, .context = &notes};
    sf_machine_decide(&machine, &nothing);
    assert_int_equal(machine.device, SF_CPU);
    machine.device = SF_AUTO;
    sf_machine_decide(&machine, &study);
    assert_int_equal(machine.device, has_gpu ? SF_CUDA : SF_CPU);
    assert_int_equal(notes, has_gpu);
    machine.device = SF_CUDA;
    sf_machine_decide(&machine, &nothing);
    assert_int_equal(machine.device, SF_CUDA);
    assert_ptr_equal(sf_backend_for(SF_AUTO), &sf_backend_cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_of_a_step),
        cmocka_unit_test(work_adds_up),
        cmocka_unit_test(a_study_gains),
        cmocka_unit_test(a_short_run_does_not),
        cmocka_unit_test(auto_decides_itself_alone),
        cmocka_unit_test(threads_count_as_far_as_they_are_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
