/* The matrix products of a training step, ours (kernels/cpu/gemm.c, AVX-512) beside libxsmm's kernels, alternately on
 * one thread. Usage: bench_products [rounds].
 *
 * Shapes, strides and the order of tiles are those of a block at width 64: NNCH (groups of 3 sequences of 40) and
 * ListOps (one sequence of 600). libxsmm gets the fastest of several uses: the whole product in a call, or 64 columns
 * or less depth at a time; a transposed A read as it lies, or transposed first, which then counts. Both are checked
 * against a plain product in double before anything is timed. */
#include <libxsmm.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sorted.h"

#undef SF_ISA_SUFFIX
#define SF_ISA_SUFFIX _avx512
#include "kernels/cpu/gemm.h"

enum {
    ROOM = 608 * 192 + 336, /* of an operand; no multiple of a page, so that operands use different cache sets */
    MOST_USES = 12,
    TUNING_ROUNDS = 41
};
static const double block_seconds = 2e-4; /* short compared to a time slice: a median drops the rounds that lost one */
static const double tolerance = 1e-4;

typedef enum group { NNCH, LISTOPS, GROUPS } group;
static const char *const group_names[GROUPS] = {"NNCH", "ListOps"};

typedef enum kind { PLAIN, PANELS /* B is transposed keys, in panels of 64 */, ADDS } kind;

typedef struct product { /* C[M,N] = A[M,K] B[K,N], `turns` times */
    group group;
    const char *what;
    size_t M, N, K;
    struct {
        size_t row, column, step; /* strides, and how many rows further the next turn's lies */
    } A;
    struct {
        size_t row, step;
    } B, C;
    kind kind;
    size_t turns;
    double calls; /* how often a block needs it, forward and backward, for a group of sequences */
} product;

static const product products[] = {
    {NNCH, "q, k, v", 120, 192, 64, {64, 1, 0}, {192, 0}, {192, 0}, PLAIN, 1, 1},
    {NNCH, "linear", 120, 64, 64, {64, 1, 0}, {64, 0}, {64, 0}, PLAIN, 1, 9},
    {NNCH, "dW", 64, 64, 120, {1, 64, 0}, {64, 0}, {64, 0}, ADDS, 1, 6},
    {NNCH, "scores", 40, 48, 64, {192, 1, 40}, {64, 0}, {48, 0}, PANELS, 3, 9},
    {NNCH, "context, dq", 40, 64, 40, {48, 1, 0}, {192, 40}, {64, 40}, PLAIN, 3, 6},
    {NNCH, "dk, dv", 40, 64, 40, {1, 128, 0}, {192, 40}, {192, 40}, PLAIN, 3, 6},
    {LISTOPS, "q, k, v", 600, 192, 64, {64, 1, 0}, {192, 0}, {192, 0}, PLAIN, 1, 1},
    {LISTOPS, "linear", 600, 64, 64, {64, 1, 0}, {64, 0}, {64, 0}, PLAIN, 1, 9},
    {LISTOPS, "dW", 64, 64, 600, {1, 64, 0}, {64, 0}, {64, 0}, ADDS, 1, 6},
    {LISTOPS, "scores, dweights", 48, 128, 64, {192, 1, 0}, {64, 128}, {128, 0}, PANELS, 4, 175.8},
    {LISTOPS, "dk, dv", 128, 64, 48, {1, 128, 0}, {192, 0}, {192, 128}, ADDS, 4, 117.2},
    {LISTOPS, "context, dq", 48, 64, 128, {128, 1, 0}, {192, 128}, {192, 0}, ADDS, 4, 117.2},
};
enum { PRODUCTS = sizeof products / sizeof *products };

typedef struct operands {
    float *A, *B, *C;
    float *B_rows;       /* what panels hold, as plain rows: libxsmm may take either */
    float *A_transposed; /* room for libxsmm's */
} operands;

typedef struct use { /* of libxsmm; of ourselves where columns is 0 */
    size_t columns, depth;
    bool transpose;
    libxsmm_smmfunction kernels[2][2][2]; /* [last columns][last depth][adds] */
} use;

static size_t padded(size_t n) {
    return (n + 15) / 16 * 16;
}

static sf_right right_of(const product *p, const operands *o, size_t turn) {
    return (sf_right){o->B + turn * p->B.step * p->B.row, p->B.row, p->kind == PANELS ? p->K * SF_PANEL : SF_PANEL,
                      false};
}

static sf_left left_of_ours(const product *p, const operands *o, size_t turn) {
    return (sf_left){.at = o->A + turn * p->A.step * p->A.row, .row = p->A.row, .column = p->A.column};
}

static void run_ours(const product *p, const operands *o) {
    for (size_t turn = 0; turn < p->turns; turn++)
        sf_gemm(o->C + turn * p->C.step * p->C.row, p->C.row, left_of_ours(p, o, turn), right_of(p, o, turn), NULL,
                p->kind == ADDS, p->M, p->N, p->K);
}

static sf_right rows_of(const product *p, const operands *o, size_t turn) {
    const size_t different = p->B.step > 0 ? p->turns : 1;
    return (sf_right){o->B_rows + turn % different * p->N, different * p->N, SF_PANEL, false};
}

/* libxsmm counts columns first: our C, A, B are its C, B, A; our A transposed is its B transposed. */
static sf_right right_for(const product *p, const use *u, const operands *o, size_t turn) {
    return p->kind == PANELS && u->columns > SF_PANEL ? rows_of(p, o, turn) : right_of(p, o, turn);
}

static const float *element(sf_right B, size_t k, size_t n) {
    return B.at + n / SF_PANEL * B.panel + k * B.row + n % SF_PANEL;
}

static sf_left left_of(const product *p, const use *u, const operands *o, size_t turn) {
    const sf_left A = left_of_ours(p, o, turn);
    if (!u->transpose) return A;
    sf_transpose(o->A_transposed, padded(p->K), padded(p->K), 1.0F, A.at, A.column, p->K, padded(p->M));
    return sf_upright(o->A_transposed, padded(p->K));
}

static void run_theirs(const product *p, const use *u, const operands *o) {
    for (size_t turn = 0; turn < p->turns; turn++) {
        const sf_left A = left_of(p, u, o, turn);
        const sf_right B = right_for(p, u, o, turn);
        for (size_t n = 0; n < p->N; n += u->columns)
            for (size_t k = 0; k < p->K; k += u->depth)
                u->kernels[n + u->columns > p->N][k + u->depth > p->K][p->kind == ADDS || k > 0](
                    element(B, k, n), A.at + k * A.column, o->C + turn * p->C.step * p->C.row + n);
    }
}

static void run(const product *p, const use *u, const operands *o) {
    if (u->columns == 0)
        run_ours(p, o);
    else
        run_theirs(p, u, o);
}

/* False where libxsmm has no such kernel. */
static bool prepare(use *u, const product *p, const operands *o) {
    const bool flipped = p->A.row == 1 && !u->transpose;
    const int flags = flipped ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_PREFETCH_NONE;
    const libxsmm_blasint lda = (libxsmm_blasint)right_for(p, u, o, 0).row, ldc = (libxsmm_blasint)p->C.row;
    const libxsmm_blasint ldb = (libxsmm_blasint)(u->transpose ? padded(p->K) : flipped ? p->A.column : p->A.row);
    const float alpha = 1.0F, betas[2] = {0.0F, 1.0F};
    const size_t columns[2] = {u->columns, p->N % u->columns}, depths[2] = {u->depth, p->K % u->depth};
    for (size_t i = 0; i < 8; i++) {
        const size_t n = i / 4, k = i / 2 % 2, adds = i % 2;
        if (columns[n] == 0 || depths[k] == 0) continue;
        u->kernels[n][k][adds] =
            libxsmm_smmdispatch((libxsmm_blasint)columns[n], (libxsmm_blasint)p->M, (libxsmm_blasint)depths[k], &lda,
                                &ldb, &ldc, &alpha, &betas[adds], &flags, &prefetch);
        if (u->kernels[n][k][adds] == NULL) return false;
    }
    return true;
}

static size_t all_uses(use uses[MOST_USES], const product *p, const operands *o) {
    const size_t depths[] = {p->K, 128, 64}, columns[] = {p->N, SF_PANEL};
    size_t count = 0;
    for (size_t i = 0; i < MOST_USES; i++) {
        const size_t d = i % 3, c = i / 3 % 2;
        const use u = {.columns = columns[c], .depth = depths[d], .transpose = i >= MOST_USES / 2};
        if ((d > 0 && u.depth >= p->K) || (c > 0 && u.columns >= p->N) || (u.transpose && p->A.row != 1)) continue;
        uses[count] = u;
        if (prepare(&uses[count], p, o)) count++;
    }
    return count;
}

/* Uniform in [-1, 1); the same on every machine. */
static void fill(float *out, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        out[i] = (float)(int32_t)seed * 0x1p-31F;
    }
}

static void fill_operands(const operands *o, const product *p) {
    fill(o->A, ROOM, 1);
    fill(o->B, ROOM, 2);
    fill(o->C, ROOM, 3);
    for (size_t turn = 0; turn < p->turns && p->kind == PANELS; turn++) {
        const sf_right panels = right_of(p, o, turn), rows = rows_of(p, o, turn);
        for (size_t k = 0; k < p->K; k++)
            for (size_t n = 0; n < p->N; n++)
                o->B_rows[(size_t)(element(rows, k, n) - o->B_rows)] = *element(panels, k, n);
    }
}

static double plain_element(const product *p, const operands *o, size_t turn, size_t m, size_t n) {
    const float *A = o->A + turn * p->A.step * p->A.row + m * p->A.row;
    const sf_right B = right_of(p, o, turn);
    double sum = 0;
    for (size_t k = 0; k < p->K; k++) sum += (double)A[k * p->A.column] * (double)*element(B, k, n);
    return sum;
}

static void run_plain(double *C, const product *p, const operands *o) {
    for (size_t i = 0; i < ROOM; i++) C[i] = (double)o->C[i];
    for (size_t turn = 0; turn < p->turns; turn++)
        for (size_t m = 0; m < p->M; m++)
            for (size_t n = 0; n < p->N; n++) {
                double *at = C + turn * p->C.step * p->C.row + m * p->C.row + n;
                *at = (p->kind == ADDS ? *at : 0) + plain_element(p, o, turn, m, n);
            }
}

/* The greatest difference from the plain product, relative to its greatest element; what lies around C must stay. */
static double error_of(const product *p, const use *u, const operands *o, const double *plain) {
    double worst = 0, greatest = 0;
    fill(o->C, ROOM, 3);
    run(p, u, o);
    for (size_t i = 0; i < ROOM; i++) {
        worst = fmax(worst, isfinite(o->C[i]) ? fabs((double)o->C[i] - plain[i]) : INFINITY);
        greatest = fmax(greatest, fabs(plain[i]));
    }
    return worst / greatest;
}

static bool agrees(const product *p, const use *u, const operands *o, const double *plain) {
    const double error = error_of(p, u, o, plain);
    if (error <= tolerance) return true;
    fprintf(stderr, "bench_products: %s %s %zux%zux%zu by %s is off by %.1e, more than %.0e\n", group_names[p->group],
            p->what, p->M, p->N, p->K, u->columns == 0 ? "our kernel" : "libxsmm", error, tolerance);
    return false;
}

static double seconds_of(const product *p, const use *u, const operands *o, size_t repeats) {
    const double start = sf_clock_seconds();
    for (size_t i = 0; i < repeats; i++) run(p, u, o);
    return (sf_clock_seconds() - start) / (double)repeats;
}

static double median(double *values, size_t count) {
    sf_sort(values, count);
    return values[count / 2];
}

static size_t repeats_of(const product *p, const use *u, const operands *o) {
    seconds_of(p, u, o, 100);
    const double repeats = block_seconds / seconds_of(p, u, o, 100);
    return repeats < 1 ? 1 : (size_t)repeats;
}

static size_t fastest(const product *p, const use *uses, size_t count, const operands *o) {
    double seconds[MOST_USES][TUNING_ROUNDS];
    const size_t repeats = repeats_of(p, &uses[0], o);
    for (size_t round = 0; round < TUNING_ROUNDS; round++)
        for (size_t i = 0; i < count; i++) {
            seconds_of(p, &uses[i], o, 1);
            seconds[i][round] = seconds_of(p, &uses[i], o, repeats);
        }
    size_t best = 0;
    for (size_t i = 0; i < count; i++)
        if (median(seconds[i], TUNING_ROUNDS) < median(seconds[best], TUNING_ROUNDS)) best = i;
    return best;
}

typedef struct timing {  /* medians over rounds */
    double ours, theirs; /* seconds of all turns */
    double ratio;        /* theirs / ours within a round */
} timing;

static timing compare(const product *p, const use *theirs, const operands *o, double *room /* [3,rounds] */,
                      size_t rounds) {
    const use both[2] = {{0}, *theirs};
    const size_t repeats = repeats_of(p, &both[0], o);
    double *seconds[2] = {room, room + rounds}, *ratios = room + 2 * rounds;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < 2; i++) {
            const size_t who = (round + i) % 2;
            seconds_of(p, &both[who], o, 1); /* the other one changed the caches */
            seconds[who][round] = seconds_of(p, &both[who], o, repeats);
        }
        ratios[round] = seconds[1][round] / seconds[0][round];
    }
    return (timing){median(seconds[0], rounds), median(seconds[1], rounds), median(ratios, rounds)};
}

static void print_row(const product *p, const use *u, const timing *t) {
    char what[64], shape[64], depth[32] = "";
    const double gflop = 2e-9 * (double)(p->M * p->N * p->K * p->turns);
    snprintf(what, sizeof what, "%s%s%s", p->what, p->A.row == 1 ? ", A transposed" : "",
             p->kind == ADDS ? ", adds" : "");
    snprintf(shape, sizeof shape, "%zux%zux%zu", p->M, p->N, p->K);
    if (u->depth < p->K) snprintf(depth, sizeof depth, ", by depth %zu", u->depth);
    printf("%-8s %-27s %-11s %7.1f %8.1f %6.2f  %s%s%s\n", group_names[p->group], what, shape, gflop / t->ours,
           gflop / t->theirs, t->ratio, u->columns < p->N ? "by 64 columns" : "all columns", depth,
           u->transpose ? ", with transpose" : "");
    fflush(stdout);
}

static bool bench_product(timing *t, const product *p, const operands *o, double *room /* [3,rounds] */,
                          size_t rounds) {
    use uses[MOST_USES];
    static double plain[ROOM];
    fill_operands(o, p);
    run_plain(plain, p, o);
    const size_t count = all_uses(uses, p, o);
    bool right = agrees(p, &(use){0}, o, plain);
    for (size_t i = 0; i < count && right; i++) right = agrees(p, &uses[i], o, plain);
    if (right && count == 0) fprintf(stderr, "bench_products: libxsmm has no kernel for %s\n", p->what);
    if (!right || count == 0) return false;
    const use *best = &uses[fastest(p, uses, count, o)];
    *t = compare(p, best, o, room, rounds);
    print_row(p, best, t);
    return true;
}

static bool bench_all(const operands *o, double *room /* [3,rounds] */, size_t rounds) {
    double seconds[GROUPS][2] = {{0}};
    printf("libxsmm %s for %s, one thread, medians of %zu rounds; GFLOP/s, and ours / libxsmm's\n\n", LIBXSMM_VERSION,
           libxsmm_get_target_arch(), rounds);
    printf("%-8s %-27s %-11s %7s %8s %6s  %s\n", "shape", "product", "MxNxK", "ours", "libxsmm", "ratio",
           "fastest use of libxsmm");
    for (size_t i = 0; i < PRODUCTS; i++) {
        const product *p = &products[i];
        timing t;
        if (!bench_product(&t, p, o, room, rounds)) return false;
        seconds[p->group][0] += t.ours * p->calls / (double)p->turns;
        seconds[p->group][1] += t.theirs * p->calls / (double)p->turns;
    }
    puts("");
    for (size_t g = 0; g < GROUPS; g++)
        printf("%s, the products of a block forward and backward: ours %.3f ms, libxsmm %.3f ms, ratio %.2f\n",
               group_names[g], seconds[g][0] * 1e3, seconds[g][1] * 1e3, seconds[g][1] / seconds[g][0]);
    return true;
}

static bool machine_has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
}

int main(int count, char **words) {
    const long rounds = count > 1 ? strtol(words[1], NULL, 10) : 501;
    if (rounds < 1 || rounds > 1000000 || count > 2) {
        fputs("usage: bench_products [rounds], from 1 to 1000000\n", stderr);
        return 2;
    }
    if (!machine_has_avx512()) {
        fputs("bench_products: this CPU lacks AVX-512 (F, DQ, BW, VL) or BMI2, which our products need\n", stderr);
        return 2;
    }
    double *room = calloc(3 * (size_t)rounds, sizeof *room);
    if (room == NULL) {
        fputs("bench_products: not enough memory\n", stderr);
        return 1;
    }
    static _Alignas(64) float memory[5][ROOM];
    libxsmm_init();
    const bool done =
        bench_all(&(operands){memory[0], memory[1], memory[2], memory[3], memory[4]}, room, (size_t)rounds);
    libxsmm_finalize();
    free(room);
    return done ? 0 : 1;
}
