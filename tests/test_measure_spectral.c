/* Spectral norms against one-sided Jacobi rotations, which share nothing with the tridiagonal form. */
#include "rotations.h"
#include "sample_model.h"

#include <math.h>
#include <string.h>

#include "measure/spectral.h"

static void assert_norm(const double *a, size_t rows, size_t columns, double expected) {
    double got;
    assert_int_equal(sf_spectral_norm(&got, a, rows, columns), SF_OK);
    if (!(fabs(got - expected) <= 1e-13 * expected))
        fail_msg("[%zu,%zu]: %.17g, expected %.17g", rows, columns, got, expected);
}

static double *draw_matrix(size_t rows, size_t columns, double factor) {
    double *a;
    sf_draws draws = sf_draws_at((sf_index){.seed = (uint32_t)(100 * rows + columns), .stream = 8});
    assert_int_equal(SF_NEW(&a, rows * columns), SF_OK);
    for (size_t i = 0; i < rows * columns; i++) a[i] = factor * (2 * sf_draw_unit(&draws) - 1);
    return a;
}

static void random_matrices(void **state) {
    (void)state;
    static const size_t shapes[][2] = {{1, 1}, {1, 9}, {9, 1}, {2, 2}, {5, 7}, {7, 5}, {33, 20}, {64, 65}, {17, 90}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t rows = shapes[i][0], columns = shapes[i][1];
        double *a = draw_matrix(rows, columns, 3), *copy = draw_matrix(rows, columns, 3);
        assert_norm(a, rows, columns, norm_by_rotations(copy, rows, columns));
        sf_release(a);
        sf_release(copy);
    }
}

static void known_norms(void **state) {
    (void)state;
    const size_t N = 24;
    double a[24 * 24], u[24], v[24], uu = 0, vv = 0;
    for (size_t i = 0; i < N; i++) {
        u[i] = sin((double)i + 1);
        v[i] = cos(3 * (double)i);
        uu += u[i] * u[i];
        vv += v[i] * v[i];
    }
    for (size_t i = 0; i < N * N; i++) a[i] = u[i / N] * v[i % N];
    assert_norm(a, N, N, sqrt(uu * vv)); /* rank one */
    for (size_t i = 0; i < N * N; i++) a[i] = (i / N == i % N ? 1 : 0) - 2 * u[i / N] * u[i % N] / uu;
    assert_norm(a, N, N, 1); /* a reflection: every singular value is 1 */
    memset(a, 0, sizeof a);
    for (size_t i = 0; i < N; i++) a[i * N + i] = -(double)i;
    assert_norm(a, N, N, (double)N - 1); /* diagonal */
    memset(a, 0, sizeof a);
    assert_norm(a, N, N, 0);
    a[7] = NAN;
    double got;
    assert_int_equal(sf_spectral_norm(&got, a, N, N), SF_OK);
    assert_true(isnan(got));
}

static void small_known_norms(void **state) {
    (void)state;
    assert_norm((double[]){-3}, 1, 1, 3);
    assert_norm((double[]){2, 0, 0, 0, 0, -7}, 3, 2, 7);
    assert_norm((double[]){0.6, 0.8, -0.8, 0.6}, 2, 2, 1); /* equal singular values */
    assert_norm((double[]){1, 1, 0, 1}, 2, 2, (1 + sqrt(5)) / 2);
    const double c = cos(0.3), s = sin(0.3), a = 5, b = 5 * (1 - 1e-7); /* nearly equal ones */
    assert_norm((double[]){a * c, -b * s, a * s, b * c}, 2, 2, a);
    assert_norm((double[]){1e-200, 0, 0, 2e-200}, 2, 2, 2e-200);
}

static void scale_does_not_matter(void **state) {
    (void)state;
    double *one = draw_matrix(6, 8, 1), *large = draw_matrix(6, 8, ldexp(1, 700)),
           *small = draw_matrix(6, 8, ldexp(1, -700));
    double expected;
    assert_int_equal(sf_spectral_norm(&expected, one, 6, 8), SF_OK);
    assert_norm(large, 6, 8, ldexp(expected, 700));
    assert_norm(small, 6, 8, ldexp(expected, -700));
    sf_release(one);
    sf_release(large);
    sf_release(small);
}

/* [W | b] of one head from the parameters by their names. */
static double entry(const sample *s, const char *layer, size_t block, size_t row, size_t column) {
    char weight[SF_PARAM_NAME_SIZE], bias[SF_PARAM_NAME_SIZE];
    snprintf(weight, sizeof weight, "encoder.transformer.%zu.%s.weight", block, layer);
    snprintf(bias, sizeof bias, "encoder.transformer.%zu.%s.bias", block, layer);
    const sf_param *w = NULL, *b = NULL;
    for (size_t p = 0; p < s->model.param_count; p++) {
        if (strcmp(s->model.params[p].name, weight) == 0) w = &s->model.params[p];
        if (strcmp(s->model.params[p].name, bias) == 0) b = &s->model.params[p];
    }
    if (w == NULL || b == NULL || w->columns == 0 || b->columns == 0) {
        fail_msg("no layer %s", layer);
        return NAN;
    }
    return s->params[column < w->columns ? sf_param_index(w, row, column) : sf_param_index(b, 0, row)];
}

static double norm_of_layer(const sample *s, const char *layer, size_t block, size_t first, size_t rows,
                            size_t columns) {
    double *a;
    assert_int_equal(SF_NEW(&a, rows * (columns + 1)), SF_OK);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c <= columns; c++) a[r * (columns + 1) + c] = entry(s, layer, block, first + r, c);
    const double norm = norm_by_rotations(a, rows, columns + 1);
    sf_release(a);
    return norm;
}

/* |inverse temperature Q^T K| / sqrt(C), as the definition says. */
static double norm_of_scores(const sample *s, size_t block, size_t head) {
    const size_t C = s->model.shape.C, n = C + 1;
    double *a;
    assert_int_equal(SF_NEW(&a, n * n), SF_OK);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t r = 0; r < C; r++)
                a[i * n + j] += entry(s, "attention.W_q", block, head * C + r, i) *
                                entry(s, "attention.W_k", block, head * C + r, j);
    const double norm = norm_by_rotations(a, n, n) * s->model.shape.inverse_temperature / sqrt((double)C);
    sf_release(a);
    return norm;
}

static void assert_close(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * expected)) fail_msg("%.17g, expected %.17g", got, expected);
}

static void norms_of_a_model(void **state) {
    (void)state;
    static const size_t widths[][3] = {{1, 1, 1}, {8, 5, 2}, {7, 20, 3}};
    for (size_t i = 0; i < 3; i++) {
        const size_t C = widths[i][0], F = widths[i][1], H = widths[i][2];
        sample s;
        sample_open(&s, &(sample_case){"topk:3", 6, C, F, H, 2, 1, SF_RELU, SF_PRE_NORM, 0, 40});
        float *params;
        assert_int_equal(SF_NEW(&params, s.model.size), SF_OK);
        for (size_t n = 0; n < s.model.size; n++) params[n] = (float)s.params[n];
        for (size_t block = 0; block < 2; block++) {
            sf_block_norms norms;
            assert_int_equal(sf_block_norms_open(&norms, &s.model, params, block), SF_OK);
            for (size_t h = 0; h < H; h++) {
                assert_close(norms.heads[h].gamma, norm_of_scores(&s, block, h));
                assert_close(norms.heads[h].q, norm_of_layer(&s, "attention.W_q", block, h * C, C, C));
                assert_close(norms.heads[h].k, norm_of_layer(&s, "attention.W_k", block, h * C, C, C));
                assert_close(norms.heads[h].upsilon, norm_of_layer(&s, "attention.W_v", block, h * C, C, C));
            }
            assert_close(norms.wo, norm_of_layer(&s, "attention.W_o", block, 0, C, H * C));
            assert_close(norms.w1, norm_of_layer(&s, "ffn.0", block, 0, F, C));
            assert_close(norms.w2, norm_of_layer(&s, "ffn.3", block, 0, C, F));
            sf_block_norms_close(&norms);
        }
        sf_release(params);
        sample_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_matrices),   cmocka_unit_test(known_norms),
        cmocka_unit_test(small_known_norms), cmocka_unit_test(scale_does_not_matter),
        cmocka_unit_test(norms_of_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
