/* The layers of whole sequences that see one position at a time, forward and backward. What flows, x and its gradient
 * dx, stays in the threads' registers. Order and names follow kernels/cpu/network.c. */
#ifndef SF_KERNELS_CUDA_WHOLE_LAYERS_CUH
#define SF_KERNELS_CUDA_WHOLE_LAYERS_CUH

#include "kernels/cuda/whole_tile.cuh"

namespace sf {
namespace whole {

enum Which { Q, K, V, O, ONE, TWO }; /* the weights of a layer */
enum DroppedTile { AFTER_ATTENTION, IN_HIDDEN, AFTER_MLP };

__device__ inline float norm_epsilon(uint32_t layer, bool attention) {
    return layer == 0 && attention ? 0.0F : 1e-5F;
}

/* y may be x. */
template <sf_precision P> __device__ inline void norm(Tile<P> &y, const Tile<P> &x, float *rstd, float epsilon) {
    const float inverse = 1.0F / (float)WIDTH;
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++) {
        const float begin = __shfl_sync(0xffffffffU, x.at[i][0], (int)first_of_row<P>());
        const float mean = sum_of_row<P>(x.at[i]) * inverse;
        float centred[Tile<P>::C];
        bool equal = true;
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++) {
            centred[j] = x.at[i][j] - mean;
            equal = equal && x.at[i][j] == begin;
        }
        const float variance = dot_of_row<P>(centred, centred) * inverse;
        const unsigned threads = threads_of_row<P>();
        const bool all_equal = (__ballot_sync(0xffffffffU, equal) & threads) == threads;
        const float factor = epsilon == 0.0F && all_equal ? 0.0F : 1.0F / sqrtf(variance + epsilon);
        if (rstd != nullptr && first_of_row<P>() == lane()) rstd[row_of<P>(i)] = factor;
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++) y.at[i][j] = centred[j] * factor;
    }
}

/* dx = rstd t, or dx + rstd t. dx may be dy. Normed rows lie in a buffer. */
template <bool ADD, sf_precision P>
__device__ inline void norm_backward(Tile<P> &dx, const Tile<P> &dy, const float *normed /* [ROWS,LD] */,
                                     const float *rstd) {
    const float inverse = 1.0F / (float)WIDTH;
    float factors[Tile<P>::R];
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++) factors[i] = rstd[row_of<P>(i)];
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++) {
        float y[Tile<P>::C];
        read_row<P>(y, normed, i);
        const float mean = sum_of_row<P>(dy.at[i]) * inverse;
        const float along = dot_of_row<P>(dy.at[i], y) * inverse;
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++) {
            const float slope = __fmaf_rn(-y[j], along, dy.at[i][j] - mean);
            dx.at[i][j] = ADD ? __fmaf_rn(factors[i], slope, dx.at[i][j]) : factors[i] * slope;
        }
    }
}

/* x += branch * dropout. */
template <sf_precision P> __device__ inline void join(Tile<P> &x, const Tile<P> &branch, const Work &w, uint32_t kept) {
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++)
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++)
            x.at[i][j] = __fmaf_rn(branch.at[i][j], factor_of<P>(w, kept, i, j), x.at[i][j]);
}

template <sf_precision P>
__device__ inline uint32_t draw_and_keep(const Work &w, const Trace &t, DroppedTile which, uint32_t purpose,
                                         uint32_t layer) {
    const uint32_t kept = draw_tile<P>(w, purpose, layer);
    if (w.pass.training) t.drops[which * THREADS + threadIdx.x] = kept;
    return kept;
}

template <sf_precision P> __device__ inline void embed(Tile<P> &x, const Work &w, uint32_t *drops) {
    const Member &m = *w.m;
    const float *table = m.params + m.embedding;
    const uint32_t kept = draw_tile<P>(w, DROP_EMBEDDING, 0);
    if (w.pass.training) drops[threadIdx.x] = kept;
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++) {
        const bool real = row_of<P>(i) < w.rows;
        const uint32_t row = real ? row_of<P>(i) : 0, n = w.first + row / m.T, t = row % m.T;
        const int32_t token = m.splits[w.pass.split].tokens[(size_t)sequence_at(m, w.pass, n) * m.T + t];
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++) {
            const uint32_t c = column_of<P>(j);
            const float value =
                __fmaf_rn(m.embedding_scale, table[(size_t)token * WIDTH + c], m.positions[t * WIDTH + c]);
            x.at[i][j] = real ? value * factor_of<P>(w, kept, i, j) : 0.0F;
        }
    }
}

/* x to q, which comes to b, k, which comes to a, and v, which comes to the trace. The first weight was fetched. */
template <sf_precision P> __device__ inline void project(Work &w, const Tile<P> &x, const Trace &t, uint32_t layer) {
    const bool training = w.pass.training;
    const float *next[] = {arranged(w, layer, Q, FORWARD), arranged(w, layer, K, FORWARD),
                           arranged(w, layer, O, FORWARD)};
    float *const traces[] = {t.v, t.q, t.k};
    if (w.m->pre_norm) {
        Tile<P> y;
        norm(y, x, training ? t.rstd1 : nullptr, norm_epsilon(layer, true));
        put_tile(w.shared.a, y);
        if (training) save_tile(t.normed1, y);
    } else {
        put_tile(w.shared.a, x);
        if (training) save_tile(t.input, x);
    }
#pragma unroll 1
    for (int which = 0; which < 3; which++) {
        Tile<P> sums;
        const float *weight = take_weight(w, next[which]);
        begin_with_bias(sums, weight);
        multiply_weight(sums, w.shared.a, weight);
        if (which == 2) __syncthreads();
        if (training || which == 0) put_projected(traces[which], WIDTH, sums);
        if (which > 0) put_projected(which == 1 ? w.shared.b : w.shared.a, LD, sums);
    }
    __syncthreads();
}

/* ReLU is computed at once; others element by element in the buffer, which keeps the code short. */
enum { RELU = 0 };

template <sf_precision P>
__device__ inline void put_activated(float *to /* [ROWS,LD] */, const Tile<P> &z, int activation) {
    if (activation == RELU) {
#pragma unroll
        for (int i = 0; i < Tile<P>::R; i++)
#pragma unroll
            for (int j = 0; j < Tile<P>::C; j++)
                to[row_of<P>(i) * LD + column_of<P>(j)] = factor<P>(activate(z.at[i][j], RELU));
        return;
    }
    put_rows<P, false>(to, LD, z);
#pragma unroll 1
    for (int at = 0; at < Tile<P>::R * Tile<P>::C; at++) {
        float &value = to[row_of<P>(at / Tile<P>::C) * LD + column_of<P>(at % Tile<P>::C)];
        value = factor<P>(activate(value, activation));
    }
}

/* Bit 8 * i + j: whether the slope of ReLU is 1 there. */
template <sf_precision P> __device__ inline uint32_t positive_of(const Tile<P> &z) {
    uint32_t positive = 0;
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++)
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++) positive |= (uint32_t)(0.0F < z.at[i][j]) << (Tile<P>::C * i + j);
    return positive;
}

/* dhidden: what the second weight gave back, times the slope, times dropout. Hidden rows are as the threads stowed
 * them. */
template <sf_precision P>
__device__ inline void put_sloped(float *to /* [ROWS,LD] */, const Tile<P> &back, float *hidden, uint32_t positive,
                                  const Work &w, uint32_t kept) {
    const int activation = (int)w.m->activation;
    if (activation == RELU) {
#pragma unroll
        for (int i = 0; i < Tile<P>::R; i++)
#pragma unroll
            for (int j = 0; j < Tile<P>::C; j++)
                to[row_of<P>(i) * LD + column_of<P>(j)] =
                    factor<P>((back.at[i][j] * (positive >> (Tile<P>::C * i + j) & 1 ? 1.0F : 0.0F)) *
                              factor_of<P>(w, kept, i, j));
        return;
    }
    put_rows<P, false>(to, LD, back);
#pragma unroll 1
    for (int at = 0; at < Tile<P>::R * Tile<P>::C; at++) {
        float &value = to[row_of<P>(at / Tile<P>::C) * LD + column_of<P>(at % Tile<P>::C)];
        const float z = *stowed<P>(hidden, at);
        value = factor<P>((value * activate_slope(z, activation)) * (kept >> at & 1 ? w.keep_scale : 0.0F));
    }
}

/* From the context, in b, to the end of the layer. `next` is the first weight of the next layer, if any. */
template <sf_precision P>
__device__ inline void join_and_transform(Work &w, Tile<P> &x, const Trace &t, uint32_t layer, const float *next) {
    const bool training = w.pass.training, pre = w.m->pre_norm;
    Tile<P> sums;
    uint32_t kept = draw_and_keep<P>(w, t, AFTER_ATTENTION, DROP_ATTENTION, layer);
    const float *weight = take_weight(w, arranged(w, layer, ONE, FORWARD));
    begin_with_bias(sums, weight);
    multiply_weight(sums, w.shared.b, weight);
    join(x, sums, w, kept);
    norm(sums, x, !training ? nullptr : pre ? t.rstd2 : t.rstd1, norm_epsilon(layer, !pre));
    put_tile(w.shared.a, sums);
    if (training) save_tile(pre ? t.normed2 : t.normed1, sums);
    if (!pre) x = sums;
    kept = draw_and_keep<P>(w, t, IN_HIDDEN, DROP_HIDDEN, layer);
    weight = take_weight(w, arranged(w, layer, TWO, FORWARD));
    begin_with_bias(sums, weight);
    multiply_weight(sums, w.shared.a, weight);
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++)
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++) sums.at[i][j] *= factor_of<P>(w, kept, i, j);
    if (training) stow(t.hidden, sums);
    put_activated<P>(w.shared.b, sums, (int)w.m->activation);
    kept = draw_and_keep<P>(w, t, AFTER_MLP, DROP_MLP, layer);
    weight = take_weight(w, next);
    begin_with_bias(sums, weight);
    multiply_weight(sums, w.shared.b, weight);
    join(x, sums, w, kept);
    if (pre) return;
    norm(x, x, training ? t.rstd2 : nullptr, norm_epsilon(layer, false));
    if (training) save_tile(t.normed2, x);
}

/* ---- backward */

/* dy lies in a, the inputs of the weight in b. */
template <sf_precision P> __device__ inline void add_gradient(const Work &w, uint32_t layer, int which) {
    const Member &m = *w.m;
    float *const gradient = w.gradient + (size_t)layer * m.block_size;
    add_weight_gradient<P>({gradient + m.block_params[2 * which], gradient + m.block_params[2 * which + 1], w.begins},
                           w.shared.a, w.shared.b, w.rows);
}

/* A tile times dropout. */
template <sf_precision P> __device__ inline void drop(Tile<P> &to, const Tile<P> &from, const Work &w, uint32_t kept) {
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++)
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++) to.at[i][j] = from.at[i][j] * factor_of<P>(w, kept, i, j);
}

template <sf_precision P> __device__ inline void add(Tile<P> &to, const Tile<P> &more) {
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++)
#pragma unroll
        for (int j = 0; j < Tile<P>::C; j++) to.at[i][j] = to.at[i][j] + more.at[i][j];
}

/* From dx down to dcontext, which comes to scratch, with the means that attention needs in row_values. The weight TWO
 * was fetched, backward. */
template <sf_precision P>
__device__ inline void transform_backward(Work &w, Tile<P> &dx, const Trace &t, const Scratch &scratch,
                                          uint32_t layer) {
    const bool pre = w.m->pre_norm;
    const Shared &s = w.shared;
    Tile<P> sums;
    const uint32_t kept_mlp = t.drops[AFTER_MLP * THREADS + threadIdx.x];
    const uint32_t kept = t.drops[IN_HIDDEN * THREADS + threadIdx.x];
    const uint32_t kept_attention = t.drops[AFTER_ATTENTION * THREADS + threadIdx.x];
    expect_rows(pre ? t.normed2 : t.normed1, w.rows);
    expect_rows(t.context, w.rows);
    if (!pre) {
        __syncthreads();
        fetch_rows(s.b, t.normed2, 0, w.rows);
        wait_and_meet();
        norm_backward<false>(dx, dx, s.b, t.rstd2);
    }
    __syncthreads();
    drop(sums, dx, w, kept_mlp);
    put_tile(s.a, sums);
    unstow(sums, t.hidden);
    const uint32_t positive = positive_of(sums);
    put_activated(s.b, sums, (int)w.m->activation);
    clear_tile(sums);
    const float *weight = take_weight(w, arranged(w, layer, ONE, BACKWARD));
    multiply_weight(sums, s.a, weight);
    add_gradient<P>(w, layer, TWO);
    __syncthreads();
    fetch_rows(s.b, pre ? t.normed2 : t.normed1, 0, w.rows);
    put_sloped(s.a, sums, t.hidden, positive, w, kept);
    clear_tile(sums);
    expect_rows(t.q, w.rows);
    expect_rows(t.k, w.rows);
    expect_rows(t.v, w.rows);
    weight = take_weight(w, arranged(w, layer, O, BACKWARD));
    multiply_weight(sums, s.a, weight);
    add_gradient<P>(w, layer, ONE);
    if (pre) {
        norm_backward<true>(dx, sums, s.b, t.rstd2);
    } else {
        add(dx, sums);
        norm_backward<false>(dx, dx, s.b, t.rstd1);
    }
    __syncthreads();
    fetch_rows(s.b, t.context, 0, w.rows);
    drop(sums, dx, w, kept_attention);
    put_tile(s.a, sums);
    clear_tile(sums);
    weight = take_weight(w, nullptr);
    multiply_weight(sums, s.a, weight);
    add_gradient<P>(w, layer, O);
    put_rows<P, false>(scratch.dcontext, WIDTH, sums);
#pragma unroll
    for (int i = 0; i < Tile<P>::R; i++) {
        float context[Tile<P>::C];
        read_row<P>(context, s.b, i);
        const float mean = dot_of_row<P>(sums.at[i], context);
        if (first_of_row<P>() == lane()) s.row_values[row_of<P>(i)] = mean;
    }
    stow(scratch.dx, dx);
    expect_rows(pre ? t.normed1 : t.input, w.rows);
}

/* From dq, dk and dv, in scratch, to dx. `next` is the first weight that is needed afterwards, if any. */
template <sf_precision P>
__device__ inline void project_backward(Work &w, Tile<P> &dx, const Trace &t, const Scratch &scratch, uint32_t layer,
                                        const float *next) {
    const bool pre = w.m->pre_norm;
    const Shared &s = w.shared;
    const float *const slopes[] = {scratch.dq, scratch.dk, scratch.dv};
    Tile<P> sums;
    clear_tile(sums);
    fetch_weight(w, w.slot, arranged(w, layer, Q, BACKWARD));
    fetch_rows(s.b, pre ? t.normed1 : t.input, 0, w.rows);
#pragma unroll 1
    for (int which = Q; which <= V; which++) {
        fetch_rows(s.a, slopes[which], 0, w.rows);
        multiply_weight(sums, s.a, take_weight(w, which < V ? arranged(w, layer, which + 1, BACKWARD) : next));
        add_gradient<P>(w, layer, which);
        __syncthreads();
    }
    unstow(dx, scratch.dx);
    if (pre)
        norm_backward<true>(dx, sums, s.b, t.rstd1);
    else
        add(dx, sums);
}

} // namespace whole
} // namespace sf

#endif
