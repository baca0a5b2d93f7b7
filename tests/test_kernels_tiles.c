/* Products in bf16: against plain sums in double of numbers rounded here, for every way an operand may lie. On a
 * machine with AMX its tiles compute, elsewhere the vectors that stand in for them. */
#include "instruction_set.h"
#include "to_bf16.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "kernels/cpu/tiles.h"

#define SF_ISA_SUFFIX _amx
#include "kernels/cpu/gemm.h"

enum { MOST = 200, ROW = 208, ROOM = 224 * ROW };

typedef struct products {
    float *A, *B, *C, *before, *room, *left_room;
    double *A_rounded, *B_rounded;
} products;

static int open_desk(void **state) {
    products *d;
    if (SF_NEW(&d, 1) != SF_OK) return -1;
    float **const fields[] = {&d->A, &d->B, &d->C, &d->before, &d->room, &d->left_room};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (SF_NEW(fields[i], ROOM) != SF_OK) return -1;
    if (SF_NEW(&d->A_rounded, ROOM) != SF_OK || SF_NEW(&d->B_rounded, ROOM) != SF_OK) return -1;
    *state = d;
    return 0;
}

static int close_desk(void **state) {
    products *d = *state;
    sf_release(d->A);
    sf_release(d->B);
    sf_release(d->C);
    sf_release(d->before);
    sf_release(d->room);
    sf_release(d->left_room);
    sf_release(d->A_rounded);
    sf_release(d->B_rounded);
    sf_release(d);
    return 0;
}

static void fill(float *x, uint64_t seed) {
    for (size_t i = 0; i < ROOM; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        x[i] = (float)((double)(seed >> 33) / 2147483648.0 - 0.5) * (float)(1 << seed % 7);
    }
}

static void round_all(double *out, const float *in) {
    for (size_t i = 0; i < ROOM; i++) out[i] = to_bf16((double)in[i]);
}

typedef struct how {
    size_t M, N, K;
    bool transposed, prepared, left_prepared, add, bias;
} how;

static void check_product(products *d, how h) {
    fill(d->A, h.M * 7 + h.K);
    fill(d->B, h.N * 5 + h.K + 1);
    fill(d->C, 3);
    memcpy(d->before, d->C, ROOM * sizeof *d->C);
    round_all(d->A_rounded, d->A);
    round_all(d->B_rounded, d->B);
    const float *bias = h.bias ? d->A + ROOM / 2 : NULL;
    const sf_left A = h.transposed ? sf_transposed(d->A, ROW) : sf_upright(d->A, ROW);
    sf_right B = sf_plain(d->B, ROW);
    if (h.prepared) {
        assert_true(sf_prepared_size(h.K, h.N) <= ROOM);
        B = sf_prepare(d->room, B, h.K, h.N);
    }
    if (h.left_prepared) assert_true(sf_prepared_size(h.K, h.M) <= ROOM);
    sf_gemm_begin();
    sf_gemm(d->C, ROW, h.left_prepared ? sf_prepare_left(d->left_room, A, h.M, h.K) : A, B, bias, h.add, h.M, h.N, h.K);
    sf_gemm_end();
    for (size_t i = 0; i < ROOM; i++) {
        const size_t m = i / ROW, n = i % ROW;
        if (m >= h.M || n >= h.N) {
            assert_memory_equal(d->C + i, d->before + i, sizeof *d->C);
            continue;
        }
        double sum = h.add ? (double)d->before[i] : h.bias ? (double)bias[n] : 0.0, size = fabs(sum);
        for (size_t k = 0; k < h.K; k++) {
            const double product = d->A_rounded[m * A.row + k * A.column] * d->B_rounded[k * ROW + n];
            sum += product;
            size += fabs(product);
        }
        if (!(fabs((double)d->C[i] - sum) <= 1e-6 * size + 1e-30))
            fail_msg("%zu x %zu x %zu, transposed %d, prepared %d %d, add %d, bias %d: at %zu, %zu %.9g, not %.9g", h.M,
                     h.N, h.K, h.transposed, h.left_prepared, h.prepared, h.add, h.bias, m, n, (double)d->C[i], sum);
    }
}

static void products_are_sums_of_rounded_products(void **state) {
    static const size_t sizes[] = {0, 1, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 130, MOST};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    printf("tiles in hardware: %s\n", sf_tiles_in_hardware() ? "yes" : "no");
    for (size_t i = 0; i < SIZES; i++)
        for (size_t j = 0; j < SIZES; j++)
            for (size_t form = 0; form < 16; form++) {
                const size_t N = 16 * (1 + (i + 2 * j) % 9);
                check_product(*state, (how){sizes[i], N, sizes[j], form & 1, form & 2, form & 8, form & 4,
                                            (form & 4) == 0 && j % 2});
            }
}

static void assert_same_rows(const products *d, size_t M, size_t N) {
    for (size_t m = 0; m < M; m++) assert_memory_equal(d->C + m * ROW, d->before + m * ROW, N * sizeof *d->C);
}

/* Parts of a prepared operand are those of the plain one. */
static void parts_of_a_prepared_left_operand(void **state) {
    products *d = *state;
    enum { M = 90, N = 48, K = 72 };
    fill(d->A, 1);
    fill(d->B, 2);
    const sf_left plain = sf_upright(d->A, ROW), prepared = sf_prepare_left(d->left_room, plain, M, K);
    sf_gemm_begin();
    for (size_t m = 0; m < M; m += 16) {
        sf_gemm(d->C, ROW, sf_left_from(plain, m), sf_plain(d->B, ROW), NULL, false, M - m, N, K);
        sf_gemm(d->before, ROW, sf_left_from(prepared, m), sf_plain(d->B, ROW), NULL, false, M - m, N, K);
        assert_same_rows(d, M - m, N);
    }
    sf_gemm_end();
}

static void parts_of_a_prepared_right_operand(void **state) {
    products *d = *state;
    enum { M = 20, N = 192, K = 160 };
    fill(d->A, 1);
    fill(d->B, 2);
    const sf_right plain = sf_plain(d->B, ROW), prepared = sf_prepare(d->room, plain, K, N);
    sf_gemm_begin();
    for (size_t k = 0; k < K; k += 32)
        for (size_t n = 0; n < N; n += 64) {
            sf_gemm(d->C, ROW, sf_upright(d->A, ROW), sf_right_from(plain, k, n), NULL, false, M, N - n, K - k);
            sf_gemm(d->before, ROW, sf_upright(d->A, ROW), sf_right_from(prepared, k, n), NULL, false, M, N - n, K - k);
            assert_same_rows(d, M, N - n);
        }
    sf_gemm_end();
}

static void not_a_number_stays_one(void **state) {
    products *d = *state;
    fill(d->A, 1);
    fill(d->B, 2);
    d->A[3] = NAN;
    d->A[ROW + 3] = INFINITY;
    sf_gemm_begin();
    sf_gemm(d->C, ROW, sf_upright(d->A, ROW), sf_plain(d->B, ROW), NULL, false, 3, 16, 40);
    sf_gemm_end();
    for (size_t n = 0; n < 16; n++) {
        assert_true(isnan(d->C[n]) != 0);
        assert_true(isfinite(d->C[ROW + n]) == 0);
        assert_true(isfinite(d->C[(size_t)2 * ROW + n]) != 0);
    }
}

int main(void) {
    if (!has_instruction_set(SF_BF16)) return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(products_are_sums_of_rounded_products, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(parts_of_a_prepared_left_operand, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(parts_of_a_prepared_right_operand, open_desk, close_desk),
        cmocka_unit_test_setup_teardown(not_a_number_stays_one, open_desk, close_desk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
