/* fastmax with every key kept and no dropout on the weights, in time linear in T.
 *
 * f(s) = 1 + s + s^2/2 of s = q . y, y = scale k, is the product of features of q and of y: 1, the channels, and the
 * products of two channels (those of y halved where both are the same). So
 *
 *   S = sum_j features(y_j) v_j,  z = sum_j features(y_j),  context_i = features(q_i) S / features(q_i) . z
 *
 * Features come in slices of whole runs (one channel times the channels from it on), so that a tile of them stays in
 * the cache. S, z and their gradients are shared by slices, everything else by tiles of positions; every sum is a chain
 * in ascending order of keys, queries or features. */
#include "base/sizes.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/simd.h"

enum { TILE = SF_QUERY_TILE };

typedef struct factored { /* what all parts of a phase need */
    const sf_head *head;
    float *S, *z; /* [features,Dp], [features]: in the trace */
    float *dS, *dz;
    float *dtotals, *inverses; /* [T] */
} factored;

static factored open(const sf_head *head) {
    const sf_factored_space *space = &head->job->work->factored;
    const sf_cpu_plan *plan = head->job->plan;
    const size_t features = plan->features, T = plan->model->shape.T;
    float *sums = head->trace->sums + head->slot * (features * (plan->rows.Dp + 1) + T);
    return (factored){.head = head,
                      .S = sums,
                      .z = sums + features * plan->rows.Dp,
                      .inverses = sums + features * (plan->rows.Dp + 1),
                      .dS = space->dS,
                      .dz = space->dz,
                      .dtotals = space->dtotals};
}

/* The features of one slice, of y = scale * x: scale is 1 for queries, and the squares of keys' channels are halved.
 * Whole vectors are read and stored: of x up to one beyond its end, in `out` zeros beyond the end of a run, which the
 * next overwrites, so there must be room for one vector after the last row. */
INLINE void features_of(float *out /* [slice->width] */, const sf_feature_slice *slice, const float *x, float scale,
                        float of_squares, size_t D) {
    size_t n = 0;
    for (size_t v = 0; v < SF_PADDING; v += VL) store(out + slice->width - SF_PADDING + v, splat(0.0F));
    for (size_t c = slice->first; c < slice->end; c++) {
        const size_t first = c == 0 ? 0 : c - 1, count = D - first;
        const float by = c == 0 ? 1.0F : scale * x[first]; /* the run of c = 0 is 1 and the channels themselves */
        if (c == 0) out[n++] = 1.0F;
        for (size_t e = 0; e < count; e += VL)
            store(out + n + e, masked(real_bits(e, count), splat(by) * (splat(scale) * load(x + first + e))));
        if (c > 0) out[n] = of_squares * (by * by);
        n += count;
    }
}

/* The lanes of channels from `first` on, below D, in the vector at channel `at`. */
INLINE uint32_t lanes_from(size_t first, size_t at, size_t D) {
    return real_bits(at, D) & (first > at ? UINT32_MAX << (first - at) : UINT32_MAX);
}

/* The sum of d[e - a] * x[e] over the channels e > a, as over a row that begins there; dx[e] += d[e - a] * by. Vectors
 * begin at multiples of VL, so partial sums are those of a row, rotated. */
INLINE float run_backward(float *dx, const float *d /* [D-a], VL readable before it and after its end */,
                          const float *x, size_t a, float by, size_t D) {
    lane_sums sums = {0};
    for (size_t e = (a + 1) / VL * VL; e < D; e += VL) {
        const uint32_t bits = lanes_from(a + 1, e, D);
        const vf slopes = load(d + (ptrdiff_t)e - (ptrdiff_t)a);
        sums.at[e / VL % SUM_VECTORS] += masked(bits, slopes * load(x + e));
        store(dx + e, load(dx + e) + masked(bits, slopes * splat(by)));
    }
    float twice[2 * SUM_LANES];
    for (size_t v = 0; v < 2 * (size_t)SUM_VECTORS; v++) store(twice + v * VL, sums.at[v % SUM_VECTORS]);
    for (size_t v = 0; v < SUM_VECTORS; v++) sums.at[v] = load(twice + (a + 1) % SUM_LANES + v * VL);
    return total_of(sums);
}

/* dx += the gradient through the features of a slice. The channel of a run is final after it: it is written at the end,
 * so that no vector waits for a part of it. */
static void features_backward(float *dx /* [Dp] */, const float *d /* [slice->width] */, const sf_feature_slice *slice,
                              const float *x /* [Dp] */, float of_squares, size_t D, float *done /* [D] */) {
    size_t n = 0;
    for (size_t c = slice->first; c < slice->end; c++) {
        if (c == 0) {
            for (size_t e = 0; e < D; e += VL) store(dx + e, load(dx + e) + masked(real_bits(e, D), load(d + 1 + e)));
            n += D + 1;
            continue;
        }
        const size_t a = c - 1;
        const float by = x[a], square = dx[a] + of_squares * d[n] * by;
        done[a] = square + run_backward(dx, d + n, x, a, by, D);
        n += D - a;
    }
    for (size_t c = sf_larger(slice->first, 1); c < slice->end; c++) dx[c - 1] = done[c - 1];
}

/* Features of some queries or keys: [rows,slice->width]. */
static void make_features(float *out, const factored *f, const sf_feature_slice *slice, size_t first, size_t rows,
                          bool are_keys) {
    const sf_cpu_plan *plan = f->head->job->plan;
    const float *x = (are_keys ? f->head->k : f->head->q) + first * f->head->stride;
    const float scale = are_keys ? plan->score_scale : 1.0F, of_squares = are_keys ? 0.5F : 1.0F;
    for (size_t i = 0; i < rows; i++)
        features_of(out + i * slice->width, slice, x + i * f->head->stride, scale, of_squares, plan->model->shape.D);
}

/* A slice of the sums over all keys. */
static void sum_keys(sf_offer *offer, const sf_workspace *mine) {
    const factored *f = offer->task;
    const sf_head *head = f->head;
    const sf_cpu_plan *plan = head->job->plan;
    const size_t T = plan->model->shape.T, Dp = plan->rows.Dp;
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        const sf_feature_slice *slice = &plan->slices[part];
        for (size_t j = 0; j < T; j += TILE) {
            const size_t rows = sf_smaller(T - j, TILE);
            float *features = mine->factored.features;
            make_features(features, f, slice, j, rows, true);
            sf_gemm(f->S + slice->at * Dp, Dp, sf_transposed(features, slice->width),
                    sf_plain(head->v + j * head->stride, head->stride), NULL, j > 0, slice->width, Dp, rows);
            float *z = f->z + slice->at;
            if (j == 0) memset(z, 0, slice->width * sizeof *z);
            for (size_t i = 0; i < rows; i++) sf_rows_add(z, features + i * slice->width, slice->width);
        }
    }
}

static void mix_queries(sf_offer *offer, const sf_workspace *mine) {
    const factored *f = offer->task;
    const sf_head *head = f->head;
    const sf_cpu_plan *plan = head->job->plan;
    const size_t T = plan->model->shape.T, Dp = plan->rows.Dp;
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        const size_t first = part * TILE, rows = sf_smaller(T - first, TILE);
        float *features = mine->factored.features, *context = head->context + first * head->context_stride;
        float totals[TILE] = {0};
        for (size_t s = 0; s < plan->slice_count; s++) {
            const sf_feature_slice *slice = &plan->slices[s];
            make_features(features, f, slice, first, rows, false);
            sf_gemm(context, head->context_stride, sf_upright(features, slice->width),
                    sf_plain(f->S + slice->at * Dp, Dp), NULL, s > 0, rows, Dp, slice->width);
            for (size_t i = 0; i < rows; i++)
                totals[i] += sf_dot(features + i * slice->width, f->z + slice->at, slice->width);
        }
        for (size_t i = 0; i < rows; i++) {
            f->inverses[first + i] = 1.0F / totals[i];
            sf_row_scale(context + i * head->context_stride, f->inverses[first + i], Dp);
        }
    }
}

static size_t tiles_of(const sf_head *head) {
    return (head->job->plan->model->shape.T + TILE - 1) / TILE;
}

static void share(const factored *f, size_t parts, sf_take_parts *take_parts) {
    sf_offer_share(f->head->job->offer, f, parts, take_parts, f->head->job->work);
}

void sf_factored_forward(const sf_head *head) {
    const factored f = open(head);
    share(&f, head->job->plan->slice_count, sum_keys);
    share(&f, tiles_of(head), mix_queries);
}

/* dcontext / total of some queries: the gradients of features . S. */
static void scale_contexts(float *out /* [rows,Dp] */, const factored *f, size_t first, size_t rows) {
    const sf_head *head = f->head;
    const size_t Dp = head->job->plan->rows.Dp;
    for (size_t i = 0; i < rows; i++) {
        memcpy(out + i * Dp, head->dcontext + (first + i) * head->context_stride, Dp * sizeof *out);
        sf_row_scale(out + i * Dp, f->inverses[first + i], Dp);
    }
}

/* dq, and the gradients of the totals. */
static void queries_backward(sf_offer *offer, const sf_workspace *mine) {
    const factored *f = offer->task;
    const sf_head *head = f->head;
    const sf_cpu_plan *plan = head->job->plan;
    const size_t T = plan->model->shape.T, D = plan->model->shape.D, Dp = plan->rows.Dp;
    const sf_factored_space *my = &mine->factored;
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        const size_t first = part * TILE, rows = sf_smaller(T - first, TILE);
        scale_contexts(my->contexts, f, first, rows);
        for (size_t i = 0; i < rows; i++) {
            const float *context = head->context + (first + i) * head->context_stride;
            f->dtotals[first + i] = -sf_dot(my->contexts + i * Dp, context, Dp);
            memset(head->dq + (first + i) * head->stride, 0, Dp * sizeof *head->dq);
        }
        for (size_t s = 0; s < plan->slice_count; s++) {
            const sf_feature_slice *slice = &plan->slices[s];
            sf_transpose(my->across, slice->width, slice->width, 1.0F, f->S + slice->at * Dp, Dp, slice->width, Dp);
            sf_gemm(my->features, slice->width, sf_upright(my->contexts, Dp), sf_plain(my->across, slice->width), NULL,
                    false, rows, slice->width, Dp);
            for (size_t i = 0; i < rows; i++) {
                sf_add_scaled(my->features + i * slice->width, f->dtotals[first + i], f->z + slice->at, slice->width);
                features_backward(head->dq + (first + i) * head->stride, my->features + i * slice->width, slice,
                                  head->q + (first + i) * head->stride, 2.0F, D, my->done);
            }
        }
    }
}

/* A slice of dS and dz. */
static void sums_backward(sf_offer *offer, const sf_workspace *mine) {
    const factored *f = offer->task;
    const sf_cpu_plan *plan = f->head->job->plan;
    const size_t T = plan->model->shape.T, Dp = plan->rows.Dp;
    const sf_factored_space *my = &mine->factored;
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        const sf_feature_slice *slice = &plan->slices[part];
        memset(f->dz + slice->at, 0, slice->width * sizeof *f->dz);
        for (size_t first = 0; first < T; first += TILE) {
            const size_t rows = sf_smaller(T - first, TILE);
            make_features(my->features, f, slice, first, rows, false);
            scale_contexts(my->contexts, f, first, rows);
            sf_gemm(f->dS + slice->at * Dp, Dp, sf_transposed(my->features, slice->width), sf_plain(my->contexts, Dp),
                    NULL, first > 0, slice->width, Dp, rows);
            for (size_t i = 0; i < rows; i++)
                sf_add_scaled(f->dz + slice->at, f->dtotals[first + i], my->features + i * slice->width, slice->width);
        }
    }
}

/* dk and dv. */
static void keys_backward(sf_offer *offer, const sf_workspace *mine) {
    const factored *f = offer->task;
    const sf_head *head = f->head;
    const sf_cpu_plan *plan = head->job->plan;
    const size_t T = plan->model->shape.T, D = plan->model->shape.D, Dp = plan->rows.Dp;
    const sf_factored_space *my = &mine->factored;
    for (size_t part; (part = sf_offer_next_part(offer)) < offer->parts;) {
        const size_t first = part * TILE, rows = sf_smaller(T - first, TILE);
        for (size_t i = 0; i < rows; i++) memset(head->dk + (first + i) * head->stride, 0, Dp * sizeof *head->dk);
        for (size_t s = 0; s < plan->slice_count; s++) {
            const sf_feature_slice *slice = &plan->slices[s];
            make_features(my->features, f, slice, first, rows, true);
            sf_gemm(head->dv + first * head->stride, head->stride, sf_upright(my->features, slice->width),
                    sf_plain(f->dS + slice->at * Dp, Dp), NULL, s > 0, rows, Dp, slice->width);
            sf_transpose(my->across, slice->width, slice->width, 1.0F, f->dS + slice->at * Dp, Dp, slice->width, Dp);
            sf_gemm(my->features, slice->width, sf_upright(head->v + first * head->stride, head->stride),
                    sf_plain(my->across, slice->width), f->dz + slice->at, false, rows, slice->width, Dp);
            for (size_t i = 0; i < rows; i++) {
                const float *k = head->k + (first + i) * head->stride;
                for (size_t c = 0; c < D; c++) my->row[c] = plan->score_scale * k[c];
                features_backward(head->dk + (first + i) * head->stride, my->features + i * slice->width, slice,
                                  my->row, 1.0F, D, my->done);
            }
        }
        for (size_t i = 0; i < rows; i++) sf_row_scale(head->dk + (first + i) * head->stride, plan->score_scale, Dp);
    }
}

void sf_factored_backward(const sf_head *head) {
    const factored f = open(head);
    share(&f, tiles_of(head), queries_backward);
    share(&f, head->job->plan->slice_count, sums_backward);
    share(&f, tiles_of(head), keys_backward);
}
