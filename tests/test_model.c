/* The model as data: its parameter table against published checkpoints, the padded layout, initial values, hash,
 * positions. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/safetensors.h"
#include "model/model.h"

enum { SEED = 20250614 };

static sf_model model_of(size_t V, size_t C, size_t F, size_t H, size_t L, size_t classes) {
    const sf_shape shape = {.V = V, .T = 8, .C = C, .F = F, .H = H, .L = L, .classes = classes};
    sf_model model;
    if (sf_model_create(&model, &shape) != SF_OK) fail_msg("%s", sf_message());
    return model;
}

static float *initialized(const sf_model *model, uint32_t seed) {
    float *block;
    assert_int_equal(SF_NEW(&block, model->size), SF_OK);
    sf_model_initialize(block, model, seed);
    return block;
}

static size_t metadata(const sf_safetensors *file, const char *key) {
    const char *text = sf_safetensors_metadata(file, key);
    if (text == NULL) fail_msg("the golden file has no %s", key);
    return text != NULL ? strtoul(text, NULL, 10) : 0;
}

static void check_golden(const char *path) {
    sf_safetensors *file;
    if (sf_safetensors_open(&file, path) != SF_OK) fail_msg("%s", sf_message());
    sf_model model =
        model_of(metadata(file, "vocab") + metadata(file, "globals"), metadata(file, "d_model"),
                 metadata(file, "d_mlp"), metadata(file, "heads"), metadata(file, "blocks"), metadata(file, "classes"));
    size_t next = 0, elements = 0; /* the file's order is that of PyTorch's named_parameters */
    for (size_t i = 0; sf_safetensors_at(file, i) != NULL; i++) {
        const sf_tensor *tensor = sf_safetensors_at(file, i);
        if (strncmp(tensor->name, "param.", 6) != 0) continue;
        assert_true(next < model.param_count);
        const sf_param *param = &model.params[next++];
        assert_string_equal(param->name, tensor->name + 6);
        assert_int_equal(param->rank, tensor->rank);
        assert_int_equal(param->columns, tensor->shape[tensor->rank - 1]);
        assert_int_equal(param->rows, tensor->rank == 2 ? tensor->shape[0] : 1);
        elements += tensor->count;
    }
    assert_int_equal(next, model.param_count);
    assert_int_equal(elements, model.parameters);
    sf_model_destroy(&model);
    assert_null(model.params);
    sf_safetensors_close(file);
}

static void table_as_published(void **state) {
    (void)state;
    DIR *folder = opendir("tests/golden");
    assert_non_null(folder);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strstr(entry->d_name, ".safetensors") == NULL) continue;
        char path[512];
        snprintf(path, sizeof path, "tests/golden/%s", entry->d_name);
        check_golden(path);
        count++;
    }
    closedir(folder);
    assert_true(count >= 18);
}

static void parts_by_name(void **state) {
    (void)state;
    sf_model model = model_of(9, 8, 16, 2, 3, 4);
    assert_string_equal(sf_model_embedding(&model)->name, "embedding.weight");
    static const char *const names[SF_PARAMS_PER_BLOCK] = {
        [SF_WQ] = "attention.W_q.weight", [SF_BQ] = "attention.W_q.bias",   [SF_WK] = "attention.W_k.weight",
        [SF_BK] = "attention.W_k.bias",   [SF_WV] = "attention.W_v.weight", [SF_BV] = "attention.W_v.bias",
        [SF_WO] = "attention.W_o.weight", [SF_BO] = "attention.W_o.bias",   [SF_W1] = "ffn.0.weight",
        [SF_B1] = "ffn.0.bias",           [SF_W2] = "ffn.3.weight",         [SF_B2] = "ffn.3.bias"};
    for (size_t b = 0; b < 3; b++)
        for (size_t p = 0; p < SF_PARAMS_PER_BLOCK; p++) {
            char name[SF_PARAM_NAME_SIZE];
            snprintf(name, sizeof name, "encoder.transformer.%zu.%s", b, names[p]);
            assert_string_equal(sf_model_block(&model, b)[p].name, name);
        }
    assert_string_equal(sf_model_head(&model)[0].name, "linear.weight");
    assert_string_equal(sf_model_head(&model)[1].name, "linear.bias");
    sf_model_destroy(&model);
    model = model_of(2, 1, 1, 1, 1024, 1); /* the deepest model's names are still whole */
    assert_string_equal(sf_model_block(&model, 1023)[SF_WO].name, "encoder.transformer.1023.attention.W_o.weight");
    sf_model_destroy(&model);
}

static void layout_has_no_collisions(void **state) {
    (void)state;
    static const size_t shapes[][6] = {/* V C F H L classes */
                                       {3, 64, 64, 1, 5, 2}, {9, 8, 16, 2, 2, 4},   {1, 1, 1, 1, 1, 1},
                                       {5, 7, 33, 3, 2, 17}, {4, 17, 15, 5, 1, 16}, {2, 16, 48, 4, 3, 5}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        sf_model model = model_of(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3], shapes[s][4], shapes[s][5]);
        unsigned char *used;
        size_t elements = 0, end = 0;
        assert_int_equal(SF_NEW(&used, model.size), SF_OK);
        for (size_t p = 0; p < model.param_count; p++) {
            const sf_param *param = &model.params[p];
            const size_t width = param->columns / param->groups;
            assert_int_equal(param->offset, end); /* parameters follow each other */
            assert_int_equal(param->offset % 16, 0);
            assert_int_equal(param->stride % 16, 0);
            assert_int_equal(width * param->groups, param->columns);
            end = param->offset + param->rows * param->stride;
            for (size_t r = 0; r < param->rows; r++)
                for (size_t c = 0; c < param->columns; c++) {
                    const size_t at = sf_param_index(param, r, c);
                    assert_true(at >= param->offset && at < end && end <= model.size);
                    assert_int_equal(used[at]++, 0);
                    if (c % width == 0)
                        assert_int_equal(at % 16, 0); /* each head begins on a multiple of 16 */
                    else
                        assert_int_equal(at, sf_param_index(param, r, c - 1) + 1);
                    elements++;
                }
        }
        assert_int_equal(end, model.size);
        assert_int_equal(elements, model.parameters);
        const size_t V = shapes[s][0], C = shapes[s][1], F = shapes[s][2], H = shapes[s][3], L = shapes[s][4];
        assert_int_equal(model.parameters,
                         V * C + L * (4 * H * C * C + 3 * H * C + C + 2 * C * F + F + C) + shapes[s][5] * (C + 1));
        assert_int_equal(sf_model_block(&model, 0)[SF_BQ].groups, H); /* columns of heads come in H groups */
        assert_int_equal(sf_model_block(&model, 0)[SF_WO].groups, H);
        assert_int_equal(sf_model_block(&model, 0)[SF_WQ].groups, 1);
        sf_release(used);
        sf_model_destroy(&model);
    }
}

static double bound_of(const sf_model *model, size_t p) {
    const sf_shape *shape = &model->shape;
    if (p == 0 || p == model->param_count - 2) return 0.1;
    if (p == model->param_count - 1) return 0;
    const size_t part = (p - 1) % SF_PARAMS_PER_BLOCK;
    if (part == SF_WO || part == SF_BO) return 1 / sqrt((double)(shape->H * shape->C));
    if (part == SF_W2 || part == SF_B2) return 1 / sqrt((double)shape->F);
    return 1 / sqrt((double)shape->C);
}

/* Uniform on +-b: mean 0, variance b^2/3, values close to both ends; five standard errors each. */
static void initial_values(void **state) {
    (void)state;
    sf_model model = model_of(500, 64, 256, 2, 2, 200);
    float *block = initialized(&model, SEED);
    double all = 0, covered = 0;
    for (size_t i = 0; i < model.size; i++) all += fabs((double)block[i]);
    for (size_t p = 0; p < model.param_count; p++) {
        const sf_param *param = &model.params[p];
        const double bound = bound_of(&model, p), count = (double)(param->rows * param->columns);
        double sum = 0, squares = 0, fourths = 0, low = 1, high = -1;
        for (size_t r = 0; r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++) {
                const double value = (double)block[sf_param_index(param, r, c)];
                if (!(fabs(value) <= bound)) fail_msg("%s holds %g (seed %d)", param->name, value, SEED);
                covered += fabs(value);
                if (bound == 0) continue;
                const double unit = value / bound;
                sum += unit, squares += unit * unit, fourths += unit * unit * unit * unit;
                low = fmin(low, unit), high = fmax(high, unit);
            }
        if (bound == 0) continue;
        if (fabs(sum / count) > 5 * sqrt(1 / (3 * count)) ||
            fabs(squares / count - 1 / 3.0) > 5 * sqrt(4 / (45 * count)) ||
            fabs(fourths / count - 1 / 5.0) > 5 * sqrt((1 / 9.0 - 1 / 25.0) / count))
            fail_msg("%s: moments %g %g %g (seed %d)", param->name, sum / count, squares / count, fourths / count,
                     SEED);
        assert_true(high > 1 - 15 / count && low < 15 / count - 1);
    }
    assert_true(fabs(all - covered) < 1e-9 * all); /* the padding is zero */
    sf_release(block);
    sf_model_destroy(&model);
}

static bool same_values(const sf_model *a, const float *x, const sf_model *b, const float *y, size_t p) {
    const sf_param *left = &a->params[p], *right = &b->params[p];
    const size_t rows = left->rows < right->rows ? left->rows : right->rows;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < left->columns; c++)
            if (x[sf_param_index(left, r, c)] != y[sf_param_index(right, r, c)]) return false;
    return true;
}

/* A function of (seed, parameter, element): what else the model holds, or its padding, does not matter. */
static void initial_values_are_independent(void **state) {
    (void)state;
    sf_model small = model_of(5, 8, 16, 1, 1, 4), large = model_of(90, 8, 160, 1, 3, 40);
    float *x = initialized(&small, SEED), *y = initialized(&large, SEED), *again = initialized(&small, SEED),
          *other = initialized(&small, SEED + 1);
    for (size_t p = 0; p < small.param_count; p++) {
        assert_true(same_values(&small, x, &small, again, p));
        assert_true(p == small.param_count - 1 || !same_values(&small, x, &small, other, p));
        if (p <= SF_BO + 1) assert_true(same_values(&small, x, &large, y, p)); /* embedding and attention of block 0 */
    }
    const sf_param *block = sf_model_block(&small, 0);
    for (size_t a = SF_WQ; a <= SF_WO; a += 2) /* tensors of one shape and bound differ */
        for (size_t b = SF_WQ; b < a; b += 2)
            assert_memory_not_equal(x + block[a].offset, x + block[b].offset, 8 * sizeof *x);
    assert_memory_not_equal(y + sf_model_block(&large, 0)[SF_WQ].offset, y + sf_model_block(&large, 1)[SF_WQ].offset,
                            8 * sizeof *y);
    sf_release(x);
    sf_release(y);
    sf_release(again);
    sf_release(other);
    sf_model_destroy(&small);
    sf_model_destroy(&large);
}

static void hash_sees_values_only(void **state) {
    (void)state;
    sf_model model = model_of(3, 5, 7, 2, 1, 3);
    float *block = initialized(&model, SEED);
    bool *is_value;
    assert_int_equal(SF_NEW(&is_value, model.size), SF_OK);
    for (size_t p = 0; p < model.param_count; p++)
        for (size_t r = 0; r < model.params[p].rows; r++)
            for (size_t c = 0; c < model.params[p].columns; c++)
                is_value[sf_param_index(&model.params[p], r, c)] = true;
    const uint64_t hash = sf_model_hash(&model, block);
    for (size_t i = 0; i < model.size; i++)
        for (int bit = 0; bit < 32; bit++) {
            uint32_t old, changed;
            memcpy(&old, &block[i], sizeof old);
            changed = old ^ 1U << bit;
            memcpy(&block[i], &changed, sizeof changed);
            if ((sf_model_hash(&model, block) != hash) != is_value[i])
                fail_msg("bit %d of %s element %zu", bit, is_value[i] ? "a value, " : "the padding, ", i);
            memcpy(&block[i], &old, sizeof old);
        }
    assert_true(sf_model_hash(&model, block) == hash);
    sf_release(is_value);
    sf_release(block);
    sf_model_destroy(&model);
}

/* sin(t / 10000^(2i/C)) on channel 2i, cos on 2i + 1; an odd C lacks the last cosine. */
static void positions(void **state) {
    (void)state;
    static const size_t widths[] = {1, 2, 3, 7, 8, 64, 65};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        enum { T = 50 };
        const size_t C = widths[w];
        double out[T * 65 + 1];
        out[T * C] = 42;
        sf_positions(out, T, C);
        for (size_t t = 0; t < T; t++)
            for (size_t i = 0; 2 * i < C; i++) {
                const long double angle =
                    (long double)t * expl(-2.0L * (long double)i / (long double)C * logl(10000.0L));
                assert_true(fabs(out[t * C + 2 * i] - (double)sinl(angle)) < 1e-13);
                if (2 * i + 1 < C) assert_true(fabs(out[t * C + 2 * i + 1] - (double)cosl(angle)) < 1e-13);
            }
        assert_true(out[T * C] == 42);
    }
}

static void norm_epsilons(void **state) {
    (void)state;
    assert_true(sf_norm_epsilon(0, 1) == 0);
    assert_true(sf_norm_epsilon(0, 0) == 1e-5);
    assert_true(sf_norm_epsilon(1, 1) == 1e-5);
    assert_true(sf_norm_epsilon(1, 0) == 1e-5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(table_as_published),
                                       cmocka_unit_test(parts_by_name),
                                       cmocka_unit_test(layout_has_no_collisions),
                                       cmocka_unit_test(initial_values),
                                       cmocka_unit_test(initial_values_are_independent),
                                       cmocka_unit_test(hash_sees_values_only),
                                       cmocka_unit_test(positions),
                                       cmocka_unit_test(norm_epsilons)};
    print_message("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
