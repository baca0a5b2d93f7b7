/* Attention of whole sequences. Eight threads share a query: its keys are place, place + 8, ... Rows of a sequence are
 * dealt to ceil(T / R) groups of eight threads, so up to 32 / ceil(T / R) sequences are at work at a time. */
#ifndef SF_KERNELS_CUDA_WHOLE_ATTENTION_CUH
#define SF_KERNELS_CUDA_WHOLE_ATTENTION_CUH

#include "kernels/cuda/whole.cuh"

namespace sf {
namespace whole {

/* The thread's part: R rows of sequence s of the round. */
struct Part {
    uint32_t s, g, G; /* rows g, g + G, ... of the sequence, or keys R g, R g + 1, ... */
    uint32_t base;    /* the sequence's first row */
    uint32_t T;
    bool real; /* false: the threads have no rows and write nothing */
};

__device__ inline uint32_t sequences_at_once(uint32_t T) {
    return GROUPS / ((T + R - 1) / R);
}

__device__ inline Part part_of(const Work &w, uint32_t first_sequence) {
    Part p;
    p.T = w.T;
    p.G = (p.T + R - 1) / R;
    const uint32_t left = w.count - first_sequence, most = GROUPS / p.G;
    p.real = group() < (left < most ? left : most) * p.G;
    p.s = first_sequence + (p.real ? group() / p.G : 0);
    p.g = p.real ? group() % p.G : 0;
    p.base = p.s * p.T;
    return p;
}

__device__ inline uint32_t row_in(const Part &p, int i) {
    return p.g + p.G * i;
}

__device__ inline Index weights_index(const Work &w, const Part &p, uint32_t layer) {
    return index_of(*w.m, w.pass, DROP_WEIGHTS, layer, 0, w.first + p.s);
}

/* ---- every key kept */

/* What dropout keeps of the weights, as the threads hold them: bit j is key place + 8 j. */
__device__ inline uint8_t *eights_of(const Trace &t) {
    return reinterpret_cast<uint8_t *>(t.undropped);
}

template <int KEYS>
__device__ inline void dense_weights(const Work &w, const Part &p, const Trace &t, uint32_t layer,
                                     float (&scores)[R][KEYS]) {
    const Index index = weights_index(w, p, layer);
#pragma unroll
    for (int i = 0; i < R; i++) {
        float largest = __int_as_float(0xff800000), lanes[2] = {0.0F, 0.0F};
#pragma unroll
        for (int j = 0; j < KEYS; j++)
            if (key_of(j) < p.T && scores[i][j] > largest) largest = scores[i][j];
        largest = largest_of_eight(largest);
        const uint32_t bits = w.threshold > 0 ? eight_kept(index, row_in(p, i), place(), w.threshold) : 0xffU;
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            const float weight = exp_below_zero(scores[i][j] - largest);
            if (key_of(j) < p.T) lanes[j % 2] += weight;
            const float left = bits >> j & 1 ? weight * w.keep_scale : 0.0F;
            scores[i][j] = key_of(j) < p.T ? left : 0.0F;
        }
        const float inverse = 1.0F / total_of_eight(lanes[0], lanes[1]);
        const uint32_t row = p.base + row_in(p, i);
        if (!p.real || row_in(p, i) >= p.T) continue;
        if (w.pass.training) eights_of(t)[row * EIGHT + place()] = (uint8_t)bits;
        if (place() > 0) continue;
        w.shared.row_values[row] = inverse;
        if (w.pass.training) t.stats[row] = make_float2(largest, inverse);
    }
}

template <int KEYS> __device__ inline void put_keys(float *to, const Part &p, const float (&values)[R][KEYS]) {
    if (!p.real) return;
#pragma unroll
    for (int i = 0; i < R; i++)
        if (row_in(p, i) < p.T)
#pragma unroll
            for (int j = 0; j < KEYS; j++) to[(p.base + row_in(p, i)) * LD + key_of(j)] = values[i][j];
}

/* q lies in b and k in a; the context comes to b. */
template <int KEYS, sf_precision P> __device__ inline void dense_forward(Work &w, const Trace &t, uint32_t layer) {
    const Member &m = *w.m;
    const Shared &s = w.shared;
    for (uint32_t first = 0; first < w.count; first += sequences_at_once(w.T)) {
        const Part p = part_of(w, first);
        const uint32_t end = w.count - first < sequences_at_once(w.T) ? w.count : first + sequences_at_once(w.T);
        float *const own = s.b + (p.base + p.g) * LD;
        {
            float scores[R][KEYS];
            multiply_rows<KEYS, true>(scores, own, p.G * LD, s.a + (p.base + place()) * LD, m.score_scale);
            dense_weights<KEYS>(w, p, t, layer, scores);
            __syncthreads();
            fetch_rows(s.a, t.v, first * p.T, end * p.T);
            put_keys<KEYS>(s.b, p, scores);
        }
        wait_and_meet();
        Tile<SF_F32> sums;
        clear(sums);
        if (p.real) multiply<0>(sums, own, p.G * LD, s.a + p.base * LD + 4 * place(), LD, p.T);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < R; i++) {
            const uint32_t row = p.base + row_in(p, i);
            if (!p.real || row_in(p, i) >= p.T) continue;
#pragma unroll
            for (int j = 0; j < EIGHT; j++) sums.at[i][j] = s.row_values[row] * sums.at[i][j];
            make_factors<P>(sums.at[i]);
            put_side_by_side(s.b, row * LD, sums.at[i]);
            if (w.pass.training) put_side_by_side(t.context, row * WIDTH, sums.at[i]);
        }
    }
}

/* Scores become gradients of scores and, in place of them, weights after dropout. */
template <int KEYS>
__device__ inline void dense_slopes(const Work &w, const Part &p, const Trace &t, float (&weights)[R][KEYS],
                                    float (&slopes)[R][KEYS]) {
    const Member &m = *w.m;
    const float score_scale = m.score_scale;
    const bool drops = w.threshold > 0;
#pragma unroll
    for (int i = 0; i < R; i++) {
        const bool real = p.real && row_in(p, i) < p.T;
        const uint32_t row = p.base + row_in(p, i);
        const float mean = real ? w.shared.row_values[row] : 0.0F;
        const uint32_t kept = real ? eights_of(t)[row * EIGHT + place()] : 0;
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            const float weight = weights[i][j], factor = kept >> j & 1 ? w.keep_scale : 0.0F;
            float slope = drops ? __fmaf_rn(slopes[i][j], factor, -mean) : slopes[i][j] - mean;
            slope = (score_scale * weight) * slope;
            const bool both = real && key_of(j) < p.T;
            weights[i][j] = !both ? 0.0F : !drops ? weight : factor == 0.0F ? 0.0F : weight * factor;
            slopes[i][j] = both ? slope : 0.0F;
        }
    }
}

template <sf_precision P>
__device__ inline void put_keys_rows(float *to /* [ROWS,WIDTH] */, const Part &p, Tile<SF_F32> &sums) {
#pragma unroll
    for (int i = 0; i < R; i++) {
        make_factors<P>(sums.at[i]);
        if (p.real && R * p.g + i < p.T) put_side_by_side(to, (p.base + R * p.g + i) * WIDTH, sums.at[i]);
    }
}

/* From dcontext, in scratch, to dq, dk and dv there. Means of the weights' gradients lie in row_values. */
template <int KEYS, sf_precision P>
__device__ inline void dense_backward(Work &w, const Trace &t, const Scratch &scratch) {
    const Member &m = *w.m;
    const Shared &s = w.shared;
    for (uint32_t first = 0; first < w.count; first += sequences_at_once(w.T)) {
        const Part p = part_of(w, first);
        const uint32_t begin = first * p.T;
        const uint32_t end =
            (w.count - first < sequences_at_once(w.T) ? w.count : first + sequences_at_once(w.T)) * p.T;
        const float *const own = s.b + (p.base + p.g) * LD;
        float weights[R][KEYS];
        __syncthreads();
        fetch_rows(s.b, t.q, begin, end);
        fetch_rows(s.a, t.k, begin, end);
        wait_and_meet();
        multiply_rows<KEYS, true>(weights, own, p.G * LD, s.a + (p.base + place()) * LD, m.score_scale);
#pragma unroll
        for (int i = 0; i < R; i++) {
            const float2 stat = p.real && row_in(p, i) < p.T ? t.stats[p.base + row_in(p, i)] : make_float2(0.0F, 0.0F);
#pragma unroll
            for (int j = 0; j < KEYS; j++) weights[i][j] = exp_below_zero(weights[i][j] - stat.x) * stat.y;
        }
        __syncthreads();
        fetch_rows(s.b, scratch.dcontext, begin, end);
        fetch_rows(s.a, t.v, begin, end);
        wait_and_meet();
        {
            float slopes[R][KEYS];
            multiply_rows<KEYS, false>(slopes, own, p.G * LD, s.a + (p.base + place()) * LD, 1.0F);
            dense_slopes<KEYS>(w, p, t, weights, slopes);
            __syncthreads();
            put_keys<KEYS>(s.a, p, weights);
            __syncthreads();
            Tile<SF_F32> sums;
            clear(sums);
            multiply_across(sums, s.a + p.base * LD + R * p.g, s.b + p.base * LD + 4 * place(), p.T);
            put_keys_rows<P>(scratch.dv, p, sums);
            __syncthreads();
            fetch_rows(s.b, t.q, begin, end);
            put_keys<KEYS>(s.a, p, slopes);
        }
        wait_and_meet();
        Tile<SF_F32> sums;
        clear(sums);
        multiply_across(sums, s.a + p.base * LD + R * p.g, s.b + p.base * LD + 4 * place(), p.T);
        put_keys_rows<P>(scratch.dk, p, sums);
        __syncthreads();
        fetch_rows(s.b, t.k, begin, end);
        wait_and_meet();
        clear(sums);
        multiply<0>(sums, s.a + (p.base + p.g) * LD, p.G * LD, s.b + p.base * LD + 4 * place(), LD, p.T);
#pragma unroll
        for (int i = 0; i < R; i++) {
            make_factors<P>(sums.at[i]);
            if (p.real && row_in(p, i) < p.T) put_side_by_side(scratch.dq, (p.base + row_in(p, i)) * WIDTH, sums.at[i]);
        }
    }
    __syncthreads();
}

} // namespace whole
} // namespace sf

#endif
