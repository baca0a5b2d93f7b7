/* Layers that see one position at a time: embedding, norms, linear layers, dropout, activation, residuals. A block of
 * threads takes 64 rows of a model through everything between two attention layers, in shared memory. Order and names
 * follow kernels/cpu/network.c. */
#include "kernels/cuda/fleet.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_launch.h"
#include "kernels/cuda/tile.cuh"

namespace sf {

struct Rows {              /* of a model that a block of threads is at */
    uint32_t first, count; /* of the pass's rows */
};

struct Buffers {
    float *x;            /* [Cp,LD]: what flows, channels outermost; backward its gradient */
    float *a;            /* [Cp,LD] */
    float *hidden;       /* [Fp,LD] */
    float *left, *right; /* [TILE,LD]: staged factors */
    uint64_t *kept;      /* [TILE,words] */
};

static __host__ __device__ uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static __device__ Buffers buffers_of(const Member &m, const Shape &s, float *shared) {
    Buffers b;
    b.x = shared;
    b.a = b.x + s.Cp * LD;
    b.hidden = b.a + s.Cp * LD;
    b.left = b.hidden; /* one of them at a time */
    b.right = b.hidden + larger(s.Fp, TILE) * LD;
    b.kept = reinterpret_cast<uint64_t *>(b.right + TILE * LD);
    return b;
}

/* Draws what dropout keeps of the rows' `columns`, into shared memory and the trace. */
static __device__ void draw(uint64_t *kept, uint64_t *trace, const Member &m, const Shape &s, const Pass &pass,
                            Rows rows, uint32_t purpose, uint32_t block, uint32_t columns) {
    const uint32_t threshold = threshold_of(m, pass), words = (columns + 63) / 64;
    if (threshold == 0) return;
    for (uint32_t i = threadIdx.x; i < TILE * words * 8; i += THREADS) {
        const uint32_t in_eight = i % 8, word = i / 8 % words, r = i / 8 / words;
        uint64_t bits = 0;
        if (r < rows.count) {
            const uint32_t n = (rows.first + r) / m.T, t = (rows.first + r) % m.T;
            const Index index = index_of(m, pass, purpose, block, 0, n);
            bits = kept_of_draw(index, t * draws_per_row(columns) + word * 8 + in_eight, in_eight, threshold);
        }
        for (int other = 1; other < 8; other *= 2) bits |= __shfl_xor_sync(0xffffffffU, bits, other, 8);
        if (in_eight == 0) {
            kept[r * words + word] = bits;
            if (r < rows.count) trace[(size_t)(rows.first + r) * words + word] = bits;
        }
    }
}

static __device__ void fetch_kept(uint64_t *kept, const uint64_t *trace, const Member &m, const Shape &s,
                                  const Pass &pass, Rows rows, uint32_t columns) {
    const uint32_t words = (columns + 63) / 64;
    if (threshold_of(m, pass) == 0) return;
    for (uint32_t i = threadIdx.x; i < rows.count * words; i += THREADS)
        kept[i] = trace[(size_t)rows.first * words + i];
}

/* What dropout multiplies an element with. */
static __device__ float factor_of(const uint64_t *kept, const Member &m, const Shape &s, const Pass &pass, uint32_t row,
                                  uint32_t column, uint32_t columns) {
    if (threshold_of(m, pass) == 0) return 1.0F;
    if (column >= columns) return 0.0F;
    const uint32_t words = (columns + 63) / 64;
    return kept[row * words + column / 64] >> column % 64 & 1 ? m.keep_scale : 0.0F;
}

/* A weight matrix whose outputs come in padded groups. */
struct Weight {
    const float *at, *bias;
    uint32_t stride, width, padded, rows; /* width and padded: of a group of outputs */
};

static __device__ Weight weight_of(const Member &m, const Shape &s, uint32_t block, int which) {
    Weight w;
    w.at = block_param(m, block, which);
    w.bias = block_param(m, block, which + 1);
    w.stride = which == WO ? s.HDp : which == W2 ? s.Fp : s.Cp;
    w.width = which == W1 ? s.F : which < WO ? s.D : s.C;
    w.padded = which == W1 ? s.Fp : which < WO ? s.Dp : s.Cp;
    w.rows = which == W1 ? s.F : which < WO ? s.H * s.D : s.C;
    return w;
}

/* right[k][n] = W[first_output + n][first_input + k]. */
static __device__ void stage_outputs(float *right, const Weight &w, uint32_t first_output, uint32_t first_input,
                                     uint32_t outputs) {
    const uint32_t output = first_output + threadIdx.x % TILE;
    const uint32_t group = output / w.padded, inside = output % w.padded;
    stage_row_across(right, w.at + (size_t)(group * w.width + inside) * w.stride + first_input,
                     output < outputs && inside < w.width, w.stride - first_input, 1.0F);
}

/* The first tile of outputs from n0 on: x [rows,inputs] lies in shared memory, inputs outermost. */
static __device__ void forward(Accumulators &sums, const float *x, const Weight &w, float *right, uint32_t n0,
                               uint32_t outputs) {
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j++) {
        const uint32_t n = n0 + first_column() + j;
        const float bias = n < outputs ? w.bias[n] : 0.0F;
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++) sums.at[i][j] = bias;
    }
    for (uint32_t k = 0; k < w.stride; k += TILE) {
        __syncthreads();
        stage_outputs(right, w, n0, k, outputs);
        __syncthreads();
        multiply(sums, x + k * LD, right, w.stride - k < TILE ? w.stride - k : TILE);
    }
}

/* The same with x in global memory. */
static __device__ void forward_from(Accumulators &sums, const float *x, size_t row, Rows rows, const Weight &w,
                                    const Buffers &b, uint32_t n0, uint32_t outputs) {
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j++) {
        const uint32_t n = n0 + first_column() + j;
        const float bias = n < outputs ? w.bias[n] : 0.0F;
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++) sums.at[i][j] = bias;
    }
    for (uint32_t k = 0; k < w.stride; k += TILE) {
        __syncthreads();
        stage_across(b.left, x + (size_t)rows.first * row + k, row, rows.count, w.stride - k, 1.0F);
        stage_outputs(b.right, w, n0, k, outputs);
        __syncthreads();
        multiply(sums, b.left, b.right, w.stride - k < TILE ? w.stride - k : TILE);
    }
}

/* sums += dy W for the inputs from n0 on; dy lies in shared memory, the outputs of one group outermost. */
static __device__ void backward(Accumulators &sums, const float *dy, const Weight &w, float *right, uint32_t n0,
                                uint32_t group) {
    for (uint32_t k = 0; k < w.width; k += TILE) {
        const uint32_t depth = w.width - k < TILE ? w.width - k : TILE;
        __syncthreads();
        stage(right, w.at + (size_t)(group * w.width + k) * w.stride + n0, w.stride, depth, w.stride - n0);
        __syncthreads();
        multiply(sums, dy + k * LD, right, depth);
    }
}

/* The same with dy in global memory. */
static __device__ void backward_from(Accumulators &sums, const float *dy, size_t row, Rows rows, const Weight &w,
                                     const Buffers &b, uint32_t n0) {
    for (uint32_t group = 0; group * w.width < w.rows; group++)
        for (uint32_t k = 0; k < w.width; k += TILE) {
            const uint32_t depth = w.width - k < TILE ? w.width - k : TILE;
            __syncthreads();
            stage_across(b.left, dy + (size_t)rows.first * row + group * w.padded + k, row, rows.count, depth, 1.0F);
            stage(b.right, w.at + (size_t)(group * w.width + k) * w.stride + n0, w.stride, depth, w.stride - n0);
            __syncthreads();
            multiply(sums, b.left, b.right, depth);
        }
}

/* Sixteen threads per row, one for each lane of its sums. */
struct RowOfLanes {
    uint32_t lane, first; /* rows first, first + ROWS_AT_ONCE, ... */
};
enum { ROWS_AT_ONCE = THREADS / SUM_LANES };

static __device__ RowOfLanes row_of_lanes() {
    return {threadIdx.x % SUM_LANES, threadIdx.x / SUM_LANES};
}

/* y may be x. */
static __device__ void norm(float *y, float *normed, float *rstd, const float *x, const Member &m, const Shape &s,
                            Rows rows, float epsilon) {
    const RowOfLanes at = row_of_lanes();
    const float inverse = 1.0F / (float)s.C;
#pragma unroll
    for (uint32_t i = 0; i < TILE / ROWS_AT_ONCE; i++) {
        const uint32_t r = at.first + i * ROWS_AT_ONCE;
        float sum = 0.0F, squares = 0.0F;
        bool equal = true;
        const float begin = x[r];
        for (uint32_t c = at.lane; c < s.Cp; c += SUM_LANES) sum += x[c * LD + r];
        const float mean = total_of_threads(sum, 0xffffffffU) * inverse;
        for (uint32_t c = at.lane; c < s.Cp; c += SUM_LANES) {
            const float value = x[c * LD + r], centred = c < s.C ? value - mean : 0.0F;
            squares = __fmaf_rn(centred, centred, squares);
            equal = equal && (c >= s.C || value == begin);
        }
        const float variance = total_of_threads(squares, 0xffffffffU) * inverse;
        const uint32_t mine = 0xffffU << threadIdx.x % 32 / SUM_LANES * SUM_LANES;
        const bool all_equal = (__ballot_sync(0xffffffffU, equal) & mine) == mine;
        const float factor = epsilon == 0.0F && all_equal ? 0.0F : 1.0F / sqrtf(variance + epsilon);
        if (rstd != nullptr && at.lane == 0 && r < rows.count) rstd[rows.first + r] = factor;
        for (uint32_t c = at.lane; c < s.Cp; c += SUM_LANES) {
            const float value = (c < s.C ? x[c * LD + r] - mean : 0.0F) * factor;
            y[c * LD + r] = value;
            if (normed != nullptr && r < rows.count) normed[(size_t)(rows.first + r) * s.Cp + c] = value;
        }
    }
}

/* dx = rstd t, or dx + rstd t. dx may be dy. */
static __device__ void norm_backward(float *dx, const float *dy, const float *normed, const float *rstd, bool add,
                                     const Member &m, const Shape &s, Rows rows) {
    const RowOfLanes at = row_of_lanes();
    const float inverse = 1.0F / (float)s.C;
#pragma unroll
    for (uint32_t i = 0; i < TILE / ROWS_AT_ONCE; i++) {
        const uint32_t r = at.first + i * ROWS_AT_ONCE;
        const uint32_t real = r < rows.count ? r : 0;
        const float *y = normed + (size_t)(rows.first + real) * s.Cp;
        float sum = 0.0F, dot = 0.0F;
        for (uint32_t c = at.lane; c < s.Cp; c += SUM_LANES) {
            const float slope = dy[c * LD + r];
            sum += slope;
            dot = __fmaf_rn(slope, y[c], dot);
        }
        const float mean = total_of_threads(sum, 0xffffffffU) * inverse;
        const float along = total_of_threads(dot, 0xffffffffU) * inverse, factor = rstd[rows.first + real];
        for (uint32_t c = at.lane; c < s.Cp; c += SUM_LANES) {
            const float across = __fmaf_rn(-y[c], along, dy[c * LD + r] - mean);
            const float slope = c < s.C ? across : 0.0F;
            dx[c * LD + r] = add ? __fmaf_rn(factor, slope, dx[c * LD + r]) : factor * slope;
        }
    }
}

static __device__ float norm_epsilon(uint32_t block, bool attention) {
    return block == 0 && attention ? 0.0F : 1e-5F;
}

/* Rows in shared memory, channels outermost, to or from global memory. */
static __device__ void load_rows(float *to, const float *from, Rows rows, uint32_t columns) {
    for (uint32_t c = 0; c < columns; c += TILE)
        for (uint32_t i = threadIdx.x / TILE * 4; i < TILE && c + i < columns; i += 4 * THREADS / TILE) {
            const uint32_t r = threadIdx.x % TILE;
            const float4 four =
                r < rows.count ? *reinterpret_cast<const float4 *>(from + (size_t)(rows.first + r) * columns + c + i)
                               : make_float4(0, 0, 0, 0);
            float *at = to + (c + i) * LD + r;
            at[0] = four.x;
            at[LD] = four.y;
            at[2 * LD] = four.z;
            at[3 * LD] = four.w;
        }
}
static __device__ void store_rows(float *to, const float *from, Rows rows, uint32_t columns) {
    for (uint32_t i = threadIdx.x / TILE * 4; i < columns; i += 4 * THREADS / TILE) {
        const uint32_t r = threadIdx.x % TILE;
        const float *at = from + i * LD + r;
        if (r < rows.count)
            *reinterpret_cast<float4 *>(to + (size_t)(rows.first + r) * columns + i) =
                make_float4(at[0], at[LD], at[2 * LD], at[3 * LD]);
    }
}

/* x += branch * dropout, for the tile of columns from n0 on. */
static __device__ void join(float *x, const Accumulators &sums, const uint64_t *kept, const Member &m, const Shape &s,
                            const Pass &pass, uint32_t n0) {
#pragma unroll
    for (int j = 0; j < THREAD_COLUMNS; j++) {
        const uint32_t c = n0 + first_column() + j;
        if (c >= s.Cp) continue;
#pragma unroll
        for (int i = 0; i < THREAD_ROWS; i++) {
            float &at = x[c * LD + first_row() + i];
            at = __fmaf_rn(sums.at[i][j], factor_of(kept, m, s, pass, first_row() + i, c, s.C), at);
        }
    }
}

static __device__ void embed(const Buffers &b, const Member &m, const Shape &s, const Pass &pass, Rows rows) {
    const float *table = m.params + m.embedding;
    draw(b.kept, m.kept_embedding, m, s, pass, rows, DROP_EMBEDDING, 0, s.C);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < TILE * s.Cp; i += THREADS) {
        const uint32_t r = i / s.Cp, c = i % s.Cp;
        float value = 0.0F;
        if (r < rows.count) {
            const uint32_t n = (rows.first + r) / m.T, t = (rows.first + r) % m.T;
            const int32_t token = m.splits[pass.split].tokens[(size_t)sequence_at(m, pass, n) * m.T + t];
            value = __fmaf_rn(m.embedding_scale, table[(size_t)token * s.Cp + c], m.positions[t * s.Cp + c]);
            if (m.noise != nullptr) value += m.noise[(size_t)(rows.first + r) * s.Cp + c];
            if (threshold_of(m, pass) > 0) value *= factor_of(b.kept, m, s, pass, r, c, s.C);
        }
        b.x[c * LD + r] = value;
    }
}

static __device__ void project(const Buffers &b, const Member &m, const Shape &s, const Pass &pass, Rows rows,
                               uint32_t block) {
    const Trace &t = m.traces[pass.training ? block : 0];
    const float *from = b.x;
    __syncthreads();
    if (m.pre_norm) {
        norm(b.a, pass.training ? t.normed1 : nullptr, pass.training ? t.rstd1 : nullptr, b.x, m, s, rows,
             norm_epsilon(block, true));
        from = b.a;
    } else if (pass.training) {
        store_rows(t.input, b.x, rows, s.Cp);
    }
    for (int i = 0; i < 3; i++) {
        const Weight w = weight_of(m, s, block, WQ + 2 * i);
        for (uint32_t n0 = 0; n0 < s.HDp; n0 += TILE) {
            Accumulators sums;
            forward(sums, from, w, b.right, n0, s.HDp);
            put_rows(t.qkv + (size_t)rows.first * 3 * s.HDp + i * s.HDp + n0, 3 * s.HDp, sums, rows.count, s.HDp - n0);
        }
    }
}

static __device__ void join_and_transform(const Buffers &b, const Member &m, const Shape &s, const Pass &pass,
                                          Rows rows, uint32_t block) {
    const Trace &t = m.traces[pass.training ? block : 0];
    float *const normed1 = pass.training ? t.normed1 : nullptr, *const normed2 = pass.training ? t.normed2 : nullptr;
    float *const rstd1 = pass.training ? t.rstd1 : nullptr, *const rstd2 = pass.training ? t.rstd2 : nullptr;
    Accumulators sums;
    load_rows(b.x, m.x, rows, s.Cp);
    draw(b.kept, t.kept_attention, m, s, pass, rows, DROP_ATTENTION, block, s.C);
    for (uint32_t n0 = 0; n0 < s.Cp; n0 += TILE) {
        forward_from(sums, t.context, s.HDp, rows, weight_of(m, s, block, WO), b, n0, s.Cp);
        join(b.x, sums, b.kept, m, s, pass, n0);
    }
    __syncthreads();
    if (m.pre_norm)
        norm(b.a, normed2, rstd2, b.x, m, s, rows, norm_epsilon(block, false));
    else
        norm(b.x, normed1, rstd1, b.x, m, s, rows, norm_epsilon(block, true));
    draw(b.kept, t.kept_hidden, m, s, pass, rows, DROP_HIDDEN, block, s.F);
    for (uint32_t n0 = 0; n0 < s.Fp; n0 += TILE) {
        forward(sums, m.pre_norm ? b.a : b.x, weight_of(m, s, block, W1), b.right, n0, s.Fp);
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) {
            const uint32_t n = n0 + first_column() + j;
            if (n >= s.Fp) continue;
#pragma unroll
            for (int i = 0; i < THREAD_ROWS; i++) {
                const uint32_t r = first_row() + i;
                float z = sums.at[i][j];
                if (threshold_of(m, pass) > 0) z *= factor_of(b.kept, m, s, pass, r, n, s.F);
                b.hidden[n * LD + r] = activate(z, m.activation);
                if (pass.training && r < rows.count) t.hidden[(size_t)(rows.first + r) * s.Fp + n] = z;
            }
        }
    }
    __syncthreads();
    draw(b.kept, t.kept_mlp, m, s, pass, rows, DROP_MLP, block, s.C);
    for (uint32_t n0 = 0; n0 < s.Cp; n0 += TILE) {
        forward(sums, b.hidden, weight_of(m, s, block, W2), b.right, n0, s.Cp);
        join(b.x, sums, b.kept, m, s, pass, n0);
    }
    __syncthreads();
    if (!m.pre_norm) norm(b.x, normed2, rstd2, b.x, m, s, rows, norm_epsilon(block, false));
    __syncthreads();
}

/* False: there are none, or the pass skips all their sequences. */
static __device__ bool rows_of(Rows &rows, const Member &m, const Shape &s, const Pass &pass) {
    const uint32_t B = sequences_of(m, pass), all = B * m.T;
    rows.first = blockIdx.x * TILE;
    if (rows.first >= all) return false;
    rows.count = all - rows.first < TILE ? all - rows.first : TILE;
    if (pass.skipped == 0) return true;
    const uint32_t last = (rows.first + rows.count - 1) / m.T;
    for (uint32_t n = rows.first / m.T; n <= last; n++)
        if (!skips_sequence(pass, B, n)) return true;
    return false;
}

/* Finishes block `block` - 1 (or embeds) and projects for block `block`, if there is one. */
template <bool PAPER>
static __global__ void __launch_bounds__(THREADS, PAPER ? 3 : 1)
    rows_forward(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(float, shared);
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    Rows rows;
    if (!rows_of(rows, m, s, pass)) return;
    const Buffers b = buffers_of(m, s, shared);
    if (block == 0)
        embed(b, m, s, pass, rows);
    else
        join_and_transform(b, m, s, pass, rows, block - 1);
    __syncthreads();
    store_rows(m.x, b.x, rows, s.Cp);
    if (block < m.L) project(b, m, s, pass, rows, block);
}

/* ---- backward */

/* What a projection's inputs get: dbranch on b.a, and from there dx on b.x. */
static __device__ void project_backward(const Buffers &b, const Member &m, const Shape &s, Rows rows, uint32_t block) {
    const Trace &t = m.traces[block];
    for (uint32_t n0 = 0; n0 < s.Cp; n0 += TILE) {
        Accumulators sums;
        clear(sums);
        for (int i = 0; i < 3; i++)
            backward_from(sums, t.dqkv + i * s.HDp, 3 * s.HDp, rows, weight_of(m, s, block, WQ + 2 * i), b, n0);
        if (n0 + first_column() < s.Cp) put_across(b.a + n0 * LD, sums);
    }
    __syncthreads();
    if (m.pre_norm) {
        norm_backward(b.x, b.a, t.normed1, t.rstd1, true, m, s, rows);
    } else {
        for (uint32_t i = threadIdx.x; i < TILE * s.Cp; i += THREADS) {
            const uint32_t at = i / TILE * LD + i % TILE;
            b.x[at] = b.x[at] + b.a[at];
        }
    }
    __syncthreads();
}

/* a = x * dropout, also to the trace: what the linear layer's output gets. */
static __device__ void drop_backward(const Buffers &b, float *trace, const Member &m, const Shape &s, const Pass &pass,
                                     Rows rows) {
    for (uint32_t i = threadIdx.x; i < TILE * s.Cp; i += THREADS) {
        const uint32_t r = i / s.Cp, c = i % s.Cp;
        const float value = r < rows.count ? b.x[c * LD + r] * factor_of(b.kept, m, s, pass, r, c, s.C) : 0.0F;
        b.a[c * LD + r] = value;
        if (r < rows.count) trace[(size_t)(rows.first + r) * s.Cp + c] = value;
    }
}

static __device__ void join_and_transform_backward(const Buffers &b, const Member &m, const Shape &s, const Pass &pass,
                                                   Rows rows, uint32_t block) {
    const Trace &t = m.traces[block];
    Accumulators sums;
    if (!m.pre_norm) norm_backward(b.x, b.x, t.normed2, t.rstd2, false, m, s, rows);
    fetch_kept(b.kept, t.kept_mlp, m, s, pass, rows, s.C);
    __syncthreads();
    drop_backward(b, t.dmlp, m, s, pass, rows);
    __syncthreads();
    fetch_kept(b.kept, t.kept_hidden, m, s, pass, rows, s.F);
    for (uint32_t n0 = 0; n0 < s.Fp; n0 += TILE) {
        clear(sums);
        backward(sums, b.a, weight_of(m, s, block, W2), b.right, n0, 0);
#pragma unroll
        for (int j = 0; j < THREAD_COLUMNS; j++) {
            const uint32_t n = n0 + first_column() + j;
            if (n >= s.Fp) continue;
#pragma unroll
            for (int i = 0; i < THREAD_ROWS; i++) {
                const uint32_t r = first_row() + i;
                float slope = 0.0F;
                if (r < rows.count) {
                    const size_t at = (size_t)(rows.first + r) * s.Fp + n;
                    slope = sums.at[i][j] * activate_slope(t.hidden[at], m.activation);
                    if (threshold_of(m, pass) > 0) slope *= factor_of(b.kept, m, s, pass, r, n, s.F);
                    t.dhidden[at] = slope;
                }
                b.hidden[n * LD + r] = slope;
            }
        }
    }
    for (uint32_t n0 = 0; n0 < s.Cp; n0 += TILE) {
        clear(sums);
        backward(sums, b.hidden, weight_of(m, s, block, W1), b.right, n0, 0);
        __syncthreads();
        if (n0 + first_column() < s.Cp) put_across(b.a + n0 * LD, sums);
    }
    __syncthreads();
    if (m.pre_norm) {
        norm_backward(b.x, b.a, t.normed2, t.rstd2, true, m, s, rows);
    } else {
        for (uint32_t i = threadIdx.x; i < TILE * s.Cp; i += THREADS) {
            const uint32_t at = i / TILE * LD + i % TILE;
            b.x[at] = b.x[at] + b.a[at];
        }
        __syncthreads();
        norm_backward(b.x, b.x, t.normed1, t.rstd1, false, m, s, rows);
    }
    fetch_kept(b.kept, t.kept_attention, m, s, pass, rows, s.C);
    __syncthreads();
    drop_backward(b, t.dattention, m, s, pass, rows);
    for (uint32_t n0 = 0; n0 < s.HDp; n0 += TILE) {
        clear(sums);
        backward(sums, b.a, weight_of(m, s, block, WO), b.right, n0, 0);
        put_rows(t.dcontext + (size_t)rows.first * s.HDp + n0, s.HDp, sums, rows.count, s.HDp - n0);
    }
}

/* Projects back from block `block`, if there is one, and differentiates block `block` - 1 down to its attention, or the
 * embedding's dropout. */
template <bool PAPER>
static __global__ void __launch_bounds__(THREADS, PAPER ? 3 : 1)
    rows_backward(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(float, shared);
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    Rows rows;
    if (!rows_of(rows, m, s, pass)) return;
    const Buffers b = buffers_of(m, s, shared);
    load_rows(b.x, m.dx, rows, s.Cp);
    __syncthreads();
    if (block < m.L) project_backward(b, m, s, rows, block);
    if (block > 0) {
        join_and_transform_backward(b, m, s, pass, rows, block - 1);
    } else {
        fetch_kept(b.kept, m.kept_embedding, m, s, pass, rows, s.C);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < TILE * s.Cp; i += THREADS) {
            const uint32_t r = i / s.Cp, c = i % s.Cp;
            b.x[c * LD + r] *= r < rows.count ? factor_of(b.kept, m, s, pass, r, c, s.C) : 0.0F;
        }
    }
    __syncthreads();
    store_rows(m.dx, b.x, rows, s.Cp);
}

} // namespace sf

using namespace sf;

size_t sf_cuda_rows_shared(uint32_t Cp, uint32_t Fp) {
    const size_t words = (larger(Cp, Fp) + 63) / 64;
    return ((size_t)(2 * Cp + larger(Fp, TILE) + TILE) * LD) * sizeof(float) + TILE * words * sizeof(uint64_t);
}

void sf_cuda_rows_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->on_tensor_cores) return sf_cuda_tensor_rows_forward(launch, pass, block);
    const dim3 grid((launch->most_rows + TILE - 1) / TILE, launch->members);
    const auto kernel = launch->paper ? rows_forward<true> : rows_forward<false>;
    launch_kernel(kernel, grid, THREADS, launch->rows_shared, launch->stream, launch->fleet, *pass, block);
}

void sf_cuda_rows_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->on_tensor_cores) return sf_cuda_tensor_rows_backward(launch, pass, block);
    const dim3 grid((launch->most_rows + TILE - 1) / TILE, launch->members);
    const auto kernel = launch->paper ? rows_backward<true> : rows_backward<false>;
    launch_kernel(kernel, grid, THREADS, launch->rows_shared, launch->stream, launch->fleet, *pass, block);
}

cudaError_t sf_cuda_prepare_rows(size_t shared) {
    void (*const kernels[])(const Member *, Pass, uint32_t) = {rows_forward<true>, rows_forward<false>,
                                                               rows_backward<true>, rows_backward<false>};
    for (const auto kernel : kernels) {
        const cudaError_t error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}
