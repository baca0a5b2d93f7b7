/* Stored models on other lengths, against the reference on sequences laid out here; runs with one other training
 * sequence; distances, against exported weights. */
#include "instruction_set.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/safetensors.h"
#include "kernels/reference/reference.h"
#include "semfocus/semfocus.h"
#include "tasks/dataset.h"
#include "train/data.h"
#include "train/fleet.h"

typedef struct trial {
    const char *task, *attention, *length, *pad, *swap, *epochs, *heads, *seed;
} trial;

static const trial trials[] = {
    {"even-pairs", "full", "12", "mask", "-1", "2", "1", "5"},
    {"even-pairs", "topk:3", "12", "mask", "-1", "2", "2", "5"},
    {"even-pairs", "bottomk:3", "12", "mask", "-1", "2", "1", "5"},
    {"even-pairs", "random:3", "12", "mask", "-1", "2", "1", "5"},
    {"even-pairs", "banded:3", "12", "mask", "-1", "2", "1", "5"},
    {"even-pairs", "banded:3+global:2", "12", "mask", "-1", "2", "1", "5"},
    {"even-pairs", "block:5+global:1", "12", "mask", "-1", "2", "2", "5"},
    {"even-pairs", "block:5", "12", "none", "-1", "2", "1", "5"},
    {"even-pairs", "topk:12", "12", "none", "-1", "2", "1", "7"}, /* is full, and stays it */
    {"listops", "topk:5", "30", "mask", "-1", "2", "1", "5"},
    {"even-pairs", "full", "12", "mask", "17", "2", "1", "5"},
    {"even-pairs", "full", "12", "mask", "-1", "1", "1", "6"},
};
enum { TRIALS = sizeof trials / sizeof *trials, FULL = 0, GLOBALS = 5, WAS_FULL = 8, SWAPPED = 10, SHORTER = 11 };

static char folder[] = "/tmp/semfocus-followup-XXXXXX";
static sf_store *store;
static sf_planned_run runs[TRIALS];

static bool set_up(sf_config *config, const trial *t) {
    const char *const settings[] = {
        "attention", t->attention,  "length",        t->length, "pad",         t->pad,   "epochs", t->epochs, "heads",
        t->heads,    "swap-sample", t->swap,         "seed",    t->seed,       "blocks", "2",      "width",   "16",
        "mlp-width", "16",          "heldout-count", "530",     "train-count", "60",     "lr",     "0.3"};
    sf_config_init(config);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
        if (sf_config_set(config, settings[i], settings[i + 1]) != SF_OK) return false;
    return true;
}

static int train_runs(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL || sf_store_open(&store, folder, SF_STORE_WRITE) != SF_OK) return 1;
    for (size_t r = 0; r < TRIALS; r++) {
        runs[r].task = trials[r].task;
        if (!set_up(&runs[r].config, &trials[r])) return 1;
        if (sf_run_identify(runs[r].id, runs[r].attention, &runs[r].config, runs[r].task) != SF_OK) return 1;
    }
    const sf_execution execution = {.threads = 1, .checkpoint_seconds = 10};
    return sf_session_run(store, &(sf_session){.runs = runs, .count = TRIALS, .execution = &execution}) == SF_OK ? 0
                                                                                                                 : 1;
}

static int remove_store(void **state) {
    (void)state;
    char command[128];
    sf_store_close(store);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command); /* NOLINT(cert-env33-c,concurrency-mt-unsafe) */
}

static sf_stored_run stored(size_t r) {
    sf_stored_run run;
    assert_int_equal(sf_store_find(&run, store, runs[r].id), SF_OK);
    return run;
}

typedef struct curve {
    sf_epoch rows[4];
    size_t count;
} curve;

static void keep_row(void *context, const sf_epoch *row) {
    curve *c = context;
    c->rows[c->count++] = *row;
}

static curve curve_of(const sf_stored_run *run) {
    curve c = {0};
    assert_int_equal(sf_store_each_epoch(store, run, keep_row, &c), SF_OK);
    return c;
}

static sf_length_result ask(const sf_stored_run *run, sf_weights_at at, size_t length, size_t count) {
    sf_length_result result;
    const sf_length_request request = {.at = at, .length = length, .count = count};
    if (sf_length_generalization(&result, store, run, &request) != SF_OK) fail_msg("%s", sf_message());
    assert_true(result.length == length && result.count == count);
    return result;
}

static void the_own_length_gives_the_stored_loss(void **state) {
    (void)state;
    for (size_t r = 0; r < TRIALS; r++) {
        const sf_stored_run run = stored(r);
        const curve c = curve_of(&run);
        const size_t length = (size_t)runs[r].config.length;
        const sf_epoch last = c.rows[c.count - 1], best = c.rows[run.best_epoch - 1];
        const sf_length_result at_last = ask(&run, SF_AT_LAST, length, 530),
                               at_best = ask(&run, SF_AT_BEST, length, 530);
        assert_true(at_last.loss == last.heldout_loss && at_last.accuracy == last.heldout_accuracy);
        assert_true(at_best.loss == best.heldout_loss && at_best.accuracy == best.heldout_accuracy);
        assert_true(ask(&run, SF_AT_INIT, length, 530).loss != last.heldout_loss);
    }
}

static void weights_path(char out[128], size_t r) {
    snprintf(out, 128, "%s/weights-%zu.safetensors", folder, r);
    const sf_stored_run run = stored(r);
    assert_int_equal(sf_store_export_weights(store, &run, false, out), SF_OK);
}

static void read_params(double *params /* [size] */, const sf_model *model, size_t r) {
    char path[128];
    sf_safetensors *file;
    weights_path(path, r);
    assert_int_equal(sf_safetensors_open(&file, path), SF_OK);
    for (size_t p = 0; p < model->param_count; p++) {
        const sf_param *param = &model->params[p];
        const sf_tensor *tensor = sf_safetensors_find(file, param->name);
        assert_non_null(tensor);
        assert_int_equal(tensor->count, param->rows * param->columns);
        double *values;
        assert_int_equal(SF_NEW(&values, tensor->count), SF_OK);
        assert_int_equal(sf_tensor_reals(values, tensor), SF_OK);
        for (size_t i = 0; i < tensor->count; i++)
            params[sf_param_index(param, i / param->columns, i % param->columns)] = values[i];
        sf_release(values);
    }
    sf_safetensors_close(file);
}

typedef struct expectation {
    size_t run, length, count;
    const char *attention; /* at that length */
    size_t plain;          /* positions without globals; 0: the longest that is sampled, rounded up to 5s */
} expectation;

static size_t longest_of(const sf_task *task, size_t length, const sf_dataset *heldout) {
    sf_dataset *training;
    assert_int_equal(sf_dataset_sample(&training, task, SF_TRAINING, 1, 60, length), SF_OK); /* listops: data-seed 1 */
    const size_t a = sf_dataset_longest(training), b = sf_dataset_longest(heldout);
    sf_dataset_destroy(training);
    return a > b ? a : b;
}

static sf_length_result by_reference(const expectation *e) {
    const sf_planned_run *planned = &runs[e->run];
    const sf_task *task;
    sf_dataset *data;
    assert_int_equal(sf_task_find(&task, planned->task), SF_OK);
    const sf_task_info info = sf_task_describe(task);
    const uint32_t data_seed = strcmp(planned->task, "listops") == 0 ? 1 : (uint32_t)planned->config.seed;
    assert_int_equal(sf_dataset_sample(&data, task, SF_HELDOUT, data_seed, e->count, e->length), SF_OK);
    const size_t plain = e->plain > 0 ? e->plain : (longest_of(task, e->length, data) + 4) / 5 * 5;

    sf_shape shape = {.C = 16,
                      .F = 16,
                      .H = (size_t)planned->config.heads,
                      .L = 2,
                      .classes = (size_t)info.classes,
                      .inverse_temperature = 1};
    assert_int_equal(sf_attention_parse(&shape.attention, e->attention), SF_OK);
    shape.T = plain + shape.attention.globals;
    shape.V = (size_t)info.pad + 1 + shape.attention.globals;
    sf_model model;
    sf_reference *reference;
    double *params, logits[16];
    int32_t *tokens;
    assert_int_equal(sf_model_create(&model, &shape), SF_OK);
    assert_int_equal(sf_reference_create(&reference, &model), SF_OK);
    assert_int_equal(SF_NEW(&params, model.size), SF_OK);
    assert_int_equal(SF_NEW(&tokens, shape.T), SF_OK);
    read_params(params, &model, e->run);

    sf_length_result out = {.length = e->length, .count = e->count};
    for (size_t i = 0; i < e->count; i++) {
        size_t count;
        const int32_t *sequence = sf_dataset_tokens(data, i, &count), label = sf_dataset_label(data, i);
        for (size_t t = 0; t < shape.T; t++)
            tokens[t] = t < count ? sequence[t] : t < plain ? info.pad : info.pad + 1 + (int32_t)(t - plain);
        const sf_moment moment = {
            .seed = (uint32_t)planned->config.seed, .step = 1, .first_sample = (uint32_t)i}; /* step 1: held out */
        double loss;
        sf_reference_run(reference, &loss, logits, NULL, params,
                         &(sf_batch){.tokens = tokens, .labels = &label, .B = 1}, &moment);
        int32_t chosen = 0;
        for (int32_t c = 1; c < info.classes; c++)
            if (logits[c] > logits[chosen]) chosen = c;
        out.loss += loss / (double)e->count;
        out.accuracy += 100.0 * (chosen == label) / (double)e->count;
    }
    sf_release(tokens);
    sf_release(params);
    sf_reference_destroy(reference);
    sf_model_destroy(&model);
    sf_dataset_destroy(data);
    return out;
}

static void other_lengths_agree_with_the_reference(void **state) {
    (void)state;
    static const expectation expected[] = {
        {0, 13, 530, "full", 13},
        {0, 1, 40, "full", 1},
        {1, 13, 530, "topk:3", 15},
        {1, 3, 40, "full", 3},
        {1, 31, 40, "topk:3", 33},
        {2, 13, 530, "bottomk:3", 15},
        {3, 13, 530, "random:3", 15},
        {3, 2, 40, "full", 2},
        {4, 31, 40, "banded:3", 33},
        {5, 13, 530, "banded:3+global:2", 15},
        {5, 2, 40, "banded:3+global:2", 3},
        {6, 31, 40, "block:5+global:1", 35},
        {6, 3, 40, "block:5+global:1", 5},
        {7, 13, 40, "block:5", 13},
        {7, 5, 40, "full", 5},
        {WAS_FULL, 31, 40, "full", 31},
        {9, 20, 40, "topk:5", 0},
        {9, 57, 40, "topk:5", 0},
        {SWAPPED, 13, 40, "full", 13},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const expectation *e = &expected[i];
        const sf_stored_run run = stored(e->run);
        const sf_length_result got = ask(&run, SF_AT_LAST, e->length, e->count), want = by_reference(e);
        if (!(fabs(got.loss - want.loss) <= 2e-5 * want.loss) || fabs(got.accuracy - want.accuracy) > 0.2)
            fail_msg("%s at %zu: loss %.9g, reference %.9g; accuracy %g, %g", e->attention, e->length, got.loss,
                     want.loss, got.accuracy, want.accuracy);
    }
}

static sf_status ask_for(const sf_stored_run *run, size_t length, size_t count) {
    sf_length_result result;
    const sf_length_request request = {.at = SF_AT_LAST, .length = length, .count = count};
    return sf_length_generalization(&result, store, run, &request);
}

static void impossible_lengths_are_refused(void **state) {
    (void)state;
    const sf_stored_run pairs = stored(FULL), trees = stored(9);
    assert_int_equal(ask_for(&pairs, 65537, 10), SF_BAD_INPUT);
    assert_int_equal(ask_for(&trees, 3, 10), SF_BAD_INPUT);
    assert_int_equal(ask_for(&trees, 2001, 10), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "2000"));
}

static void nothing_asked_for_is_the_run_s_own(void **state) {
    (void)state;
    const sf_stored_run run = stored(FULL);
    sf_length_result own;
    const sf_length_request request = {.at = SF_AT_LAST};
    assert_int_equal(sf_length_generalization(&own, store, &run, &request), SF_OK);
    assert_int_equal(own.trained_length, own.length);
    const sf_length_result named = ask(&run, SF_AT_LAST, own.length, own.count);
    const curve c = curve_of(&run);
    assert_true(named.loss == own.loss && own.loss == c.rows[c.count - 1].heldout_loss);
}

static bool same_sequence(const sf_dataset *a, const sf_dataset *b, size_t i) {
    size_t left_count, right_count;
    const int32_t *left = sf_dataset_tokens(a, i, &left_count), *right = sf_dataset_tokens(b, i, &right_count);
    return left_count == right_count && memcmp(left, right, left_count * sizeof *left) == 0;
}

static void open_swapped(sf_run_data *out, const char *task, const char *length, const char *swap) {
    sf_config config;
    const trial t = {task, "full", length, "none", swap, "1", "1", "5"};
    assert_true(set_up(&config, &t));
    if (sf_run_data_open(out, task, &config, NULL) != SF_OK) fail_msg("%s", sf_message());
}

/* In a binary task of length 1, half of all first redraws are the sequence itself. */
static void a_swap_changes_one_training_sequence(void **state) {
    (void)state;
    static const struct {
        const char *task, *length;
    } cases[] = {{"even-pairs", "12"}, {"parity", "1"}, {"listops", "30"}, {"solve-equation", "20"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t n = 0; n < 60; n++) {
            char swap[8];
            int32_t label;
            size_t count;
            sf_run_data plain, swapped;
            const sf_task *task;
            snprintf(swap, sizeof swap, "%zu", n);
            open_swapped(&plain, cases[c].task, cases[c].length, "-1");
            open_swapped(&swapped, cases[c].task, cases[c].length, swap);
            assert_int_equal(sf_dataset_count(swapped.training), 60);
            for (size_t i = 0; i < 60; i++) {
                assert_int_equal(same_sequence(plain.training, swapped.training, i), i != n);
                if (i != n)
                    assert_int_equal(sf_dataset_label(plain.training, i), sf_dataset_label(swapped.training, i));
            }
            for (size_t i = 0; i < 530; i++) assert_true(same_sequence(plain.heldout, swapped.heldout, i));
            assert_int_equal(plain.longest, swapped.longest);
            assert_int_equal(sf_task_find(&task, cases[c].task), SF_OK);
            const int32_t *tokens = sf_dataset_tokens(swapped.training, n, &count);
            assert_true(count <= plain.longest);
            assert_int_equal(sf_task_solve(&label, task, tokens, count), SF_OK);
            assert_int_equal(label, sf_dataset_label(swapped.training, n));
            sf_run_data_close(&plain);
            sf_run_data_close(&swapped);
        }
}

static void a_redraw_is_no_longer_than_it_may_be(void **state) {
    (void)state;
    const sf_task *task;
    sf_dataset *data;
    assert_int_equal(sf_task_find(&task, "listops"), SF_OK);
    const sf_sampling what = {.task = task, .split = SF_TRAINING, .seed = 1, .count = 60, .length = 30};
    assert_int_equal(sf_dataset_draw(&data, &what), SF_OK);
    for (size_t i = 0; i < 60; i++) {
        size_t count;
        assert_int_equal(sf_dataset_redraw(&data, &what, i, 27), SF_OK);
        sf_dataset_tokens(data, i, &count);
        assert_true(count <= 27);
    }
    const sf_dataset *before = data;
    assert_int_equal(sf_dataset_redraw(&data, &what, 0, 1), SF_BAD_INPUT);
    assert_ptr_equal(data, before);
    sf_dataset_destroy(data);
}

static void models_of_a_fleet_have_their_own_swaps(void **state) {
    (void)state;
    sf_fleet *fleet;
    const sf_config configs[] = {runs[FULL].config, runs[SWAPPED].config, runs[FULL].config};
    assert_int_equal(sf_fleet_create(&fleet, "even-pairs", configs, 3, NULL), SF_OK);
    const sf_run_data *plain = sf_fleet_member(fleet, 0)->data, *swapped = sf_fleet_member(fleet, 1)->data;
    assert_false(same_sequence(plain->training, swapped->training, 17));
    assert_ptr_equal(plain, sf_fleet_member(fleet, 2)->data);
    sf_fleet_destroy(fleet);
}

static void impossible_swaps_are_refused(void **state) {
    (void)state;
    char id[SF_RUN_ID_SIZE], attention[SF_SPELLING_SIZE];
    sf_config config = runs[SWAPPED].config;
    assert_int_equal(sf_config_set(&config, "swap-sample", "59"), SF_OK);
    assert_int_equal(sf_run_identify(id, attention, &config, "even-pairs"), SF_OK);
    assert_int_equal(sf_config_set(&config, "swap-sample", "60"), SF_OK);
    assert_int_equal(sf_run_identify(id, attention, &config, "even-pairs"), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "0..59"));
    sf_config_init(&config);
    assert_int_equal(sf_config_set(&config, "swap-sample", "0"), SF_OK);
    assert_int_equal(sf_run_identify(id, attention, &config, "tsv:some.tsv"), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "swap-sample"));
    assert_int_equal(sf_config_set(&config, "swap-sample", "-2"), SF_BAD_INPUT);
}

static void open_weights(sf_safetensors **out, size_t r) {
    char path[128];
    weights_path(path, r);
    assert_int_equal(sf_safetensors_open(out, path), SF_OK);
}

static sf_run_distance_result by_files(size_t a, size_t b) {
    sf_safetensors *left, *right;
    sf_run_distance_result out = {0};
    open_weights(&left, a);
    open_weights(&right, b);
    const sf_tensor *tensor;
    for (size_t t = 0; (tensor = sf_safetensors_at(left, t)) != NULL; t++) {
        const sf_tensor *other = sf_safetensors_find(right, tensor->name);
        assert_true(other != NULL && other->count == tensor->count);
        for (size_t i = 0; i < tensor->count; i++) {
            float x, y;
            memcpy(&x, tensor->bytes + i * sizeof x, sizeof x);
            memcpy(&y, other->bytes + i * sizeof y, sizeof y);
            out.distance += pow((double)x - (double)y, 2);
            out.norm_a += pow((double)x, 2);
            out.norm_b += pow((double)y, 2);
        }
    }
    sf_safetensors_close(left);
    sf_safetensors_close(right);
    out.distance = sqrt(out.distance);
    out.norm_a = sqrt(out.norm_a);
    out.norm_b = sqrt(out.norm_b);
    out.relative = out.distance / (0.5 * (out.norm_a + out.norm_b));
    return out;
}

static bool close_to(double a, double b) {
    return fabs(a - b) <= 1e-12 * fabs(b);
}

static void distances_are_those_of_the_exported_weights(void **state) {
    (void)state;
    static const size_t pairs[][2] = {{FULL, SWAPPED}, {SWAPPED, FULL}, {FULL, WAS_FULL}, {2, 3}};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        const sf_stored_run a = stored(pairs[p][0]), b = stored(pairs[p][1]);
        const sf_run_distance_result want = by_files(pairs[p][0], pairs[p][1]);
        sf_run_distance_result got;
        assert_int_equal(sf_run_distance(&got, store, &a, &b), SF_OK);
        assert_true(want.distance > 0 && close_to(got.distance, want.distance) &&
                    close_to(got.relative, want.relative));
        assert_true(close_to(got.norm_a, want.norm_a) && close_to(got.norm_b, want.norm_b));
        const curve left = curve_of(&a), right = curve_of(&b);
        assert_int_equal(got.epoch, 2);
        assert_true(got.train_loss_a == left.rows[1].train_loss && got.train_loss_b == right.rows[1].train_loss);
        assert_true(got.heldout_loss_a == left.rows[1].heldout_loss &&
                    got.heldout_loss_b == right.rows[1].heldout_loss);
    }
    const sf_stored_run same = stored(FULL);
    sf_run_distance_result none;
    assert_int_equal(sf_run_distance(&none, store, &same, &same), SF_OK);
    assert_true(none.distance == 0 && none.relative == 0 && none.norm_a > 0);
}

/* One sequence of 60 moves the weights far less than another seed does. */
static void a_swap_moves_less_than_a_seed(void **state) {
    (void)state;
    assert_true(by_files(FULL, SWAPPED).distance < 0.3 * by_files(FULL, WAS_FULL).distance);
}

static void runs_that_do_not_fit_have_no_distance(void **state) {
    (void)state;
    const sf_stored_run full = stored(FULL), globals = stored(GLOBALS), heads = stored(1), shorter = stored(SHORTER);
    sf_run_distance_result out;
    assert_int_equal(sf_run_distance(&out, store, &full, &globals), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "shapes"));
    assert_int_equal(sf_run_distance(&out, store, &full, &heads), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "shapes"));
    assert_int_equal(sf_run_distance(&out, store, &full, &shorter), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "epoch 2"));
}

int main(void) {
    if (!has_instruction_set(SF_F32)) return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_own_length_gives_the_stored_loss),
        cmocka_unit_test(other_lengths_agree_with_the_reference),
        cmocka_unit_test(impossible_lengths_are_refused),
        cmocka_unit_test(nothing_asked_for_is_the_run_s_own),
        cmocka_unit_test(a_swap_changes_one_training_sequence),
        cmocka_unit_test(a_redraw_is_no_longer_than_it_may_be),
        cmocka_unit_test(models_of_a_fleet_have_their_own_swaps),
        cmocka_unit_test(impossible_swaps_are_refused),
        cmocka_unit_test(distances_are_those_of_the_exported_weights),
        cmocka_unit_test(a_swap_moves_less_than_a_seed),
        cmocka_unit_test(runs_that_do_not_fit_have_no_distance),
    };
    return cmocka_run_group_tests(tests, train_runs, remove_store);
}
