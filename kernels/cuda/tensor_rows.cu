/* Layers that see one position at a time, on tensor cores: what rows.cu does, for models of width 64 and less. A warp
 * takes 16 rows of a model through everything between two attention layers, in registers, one matrix after the other in
 * a loop: unrolled, it would not fit into the instruction cache. The weights of these layers lie in shared memory. What
 * the rows need from global memory is copied to shared memory two tensors ahead. */
#include "kernels/cuda/tensor.cuh"
#include "kernels/cuda/tensor_launch.h"
#include "kernels/cuda/tensor_rows.cuh"

namespace sf {

enum { PACK_THREADS = 256 };

/* ---- weights, as products want them */

/* Matrices of a block, in this order: q, k, v of each head, o of each head, the two of the MLP. */
struct Matrix {
    const float *at;
    uint32_t stride, outputs, inputs; /* that are real */
};

static __device__ Matrix matrix_of(const Member &m, uint32_t block, uint32_t which) {
    const uint32_t head = which % m.H;
    Matrix w = {nullptr, m.Cp, m.C, m.C};
    if (which < 3 * m.H) {
        w.at = block_param(m, block, WQ + 2 * (int)(which / m.H)) + (size_t)head * m.C * m.Cp;
    } else if (which < 4 * m.H) {
        w.at = block_param(m, block, WO) + head * m.Cp;
        w.stride = m.HDp;
    } else if (which == 4 * m.H) {
        w.at = block_param(m, block, W1);
        w.outputs = m.F;
    } else {
        w.at = block_param(m, block, W2);
        w.stride = m.Fp;
        w.inputs = m.F;
    }
    return w;
}

static __device__ float element_of(const Matrix &w, bool across, uint32_t output, uint32_t input) {
    if (across) return element_of(w, false, input, output);
    return output < w.outputs && input < w.inputs ? w.at[(size_t)output * w.stride + input] : 0.0F;
}

/* All weights of all blocks, for the forward pass and transposed for the backward pass: grid (2 * matrices, blocks,
 * members). */
template <typename P>
static __global__ void __launch_bounds__(PACK_THREADS) pack_weights(const Member *members, Pass pass) {
    const Member &m = members[blockIdx.z];
    const uint32_t block = blockIdx.y, matrices = 4 * m.H + 2, which = blockIdx.x % matrices;
    if (sequences_of(m, pass) == 0 || block >= m.L || blockIdx.x >= 2 * matrices) return;
    const bool across = blockIdx.x >= matrices;
    const bool loaded = across ? which < 3 * m.H : which >= 3 * m.H && which < 4 * m.H; /* their left factor is */
    const Matrix w = matrix_of(m, block, which);
    uint4 *to = m.packed + ((size_t)(across ? m.L : 0) * matrices + block * matrices + which) * matrix_chunks<P>;
    for (uint32_t i = threadIdx.x; i < matrix_chunks<P>; i += PACK_THREADS) {
        const uint32_t lane = i % 32, fragment = i / 32 % 8, chunk = i / 256;
        const uint32_t output = column_of_fragment<P>(fragment, lane / QUAD);
        float x[P::WIDE];
#pragma unroll
        for (int j = 0; j < P::WIDE; j++)
            x[j] = element_of(w, across, output, depth_of<P>(chunk, lane % QUAD, j, loaded));
        to[i] = rounded_chunk(x, P());
    }
}

/* The packed matrices between the attention of block - 1 and that of block, in this order: o of each head and the MLP's
 * two of the one, then q, k and v of each head of the other. Block 0 has no first part, block L no second. The paper's
 * models have them in shared memory. All threads of the block call it. */
template <typename P, bool PAPER>
static __device__ const uint4 *weights_of(uint4 *shared, const Member &m, uint32_t block, bool across) {
    const uint32_t matrices = 4 * m.H + 2, parts = m.H + 2;
    const uint4 *from = m.packed + (size_t)(across ? m.L : 0) * matrices * matrix_chunks<P>;
    if (!PAPER) return from + ((size_t)block * matrices - parts) * matrix_chunks<P>;
    const uint32_t first = block == 0 ? parts : 0, end = block == m.L ? parts : matrices;
    from += ((size_t)block * matrices - parts) * matrix_chunks<P>;
    for (uint32_t i = first * matrix_chunks<P> + threadIdx.x; i < end * matrix_chunks<P>; i += ROW_THREADS)
        copy_async(shared + i, from + i, true);
    copy_commit();
    copy_wait<0>();
    return shared;
}

/* ---- forward */

template <typename P>
static __device__ void embed(Rows16 &x, const Member &m, const Shape &s, const Pass &pass, const RowTile &at) {
    const float *table = m.params + m.embedding;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint32_t n = at.row[r] / m.T, t = at.row[r] % m.T;
        const int32_t token = m.splits[pass.split].tokens[(size_t)sequence_at(m, pass, n) * m.T + t];
#pragma unroll
        for (int v = 0; v < VALUES; v++) {
            const uint32_t c = chunk_column<P>(v / P::WIDE) + v % P::WIDE;
            float value = 0.0F;
            if (c < s.Cp) {
                value = __fmaf_rn(m.embedding_scale, table[(size_t)token * s.Cp + c], m.positions[t * s.Cp + c]);
                if (m.noise != nullptr) value += m.noise[(size_t)at.row[r] * s.Cp + c];
            }
            x.at(r, v) = value;
        }
    }
}

/* Where the rows that enter a block are kept. */
static __device__ float *input_of(const Member &m, const Pass &pass, uint32_t block) {
    return pass.training && block < m.L ? m.traces[block].input : m.x;
}

static __device__ void begin_work(Work &work, const Member &m, const Pass &pass, uint32_t block, uint32_t rows) {
    if (threadIdx.x > 0) return;
    if (block > 0) work.before = m.traces[pass.training ? block - 1 : 0];
    if (block < m.L) work.after = m.traces[pass.training ? block : 0];
    work.rows = rows;
}

/* Steps of a tile, one for each matrix, and some have an end. H - 1: the attention's output joins x. H: hidden. H + 1:
 * the MLP's output joins x, or x is embedded. From H + 2: projections. */
static __device__ const float *bias_of(const Member &m, const Shape &s, uint32_t block, uint32_t step) {
    if (step < s.H) return block_param(m, block - 1, BO);
    if (step < s.H + 2) return block_param(m, block - 1, step == s.H ? B1 : B2);
    const uint32_t which = (step - s.H - 2) / s.H, head = (step - s.H - 2) % s.H;
    return block_param(m, block, BQ + 2 * (int)which) + head * s.Cp;
}

/* Dropout of the steps H - 1, H and H + 1. */
template <typename P>
static __device__ KeptValues<P> drop(const Work &work, const Member &m, const Shape &s, const Pass &pass,
                                     uint32_t block, uint32_t step, const RowTile &at) {
    const bool embeds = block == 0;
    uint64_t *trace = embeds ? m.kept_embedding : work.before.kept_mlp;
    uint32_t purpose = embeds ? DROP_EMBEDDING : DROP_MLP;
    if (step + 1 == s.H) {
        trace = work.before.kept_attention;
        purpose = DROP_ATTENTION;
    } else if (step == s.H) {
        trace = work.before.kept_hidden;
        purpose = DROP_HIDDEN;
    }
    const uint32_t own = draw(m, pass, at, purpose, embeds ? 0 : block - 1, threshold_of(m, pass));
    __stcg(words_of(trace, at), own);
    return share_kept<P>(own, m.keep_scale);
}

/* The norm after x changed, if there is one; `normed` becomes what the next matrix takes. */
template <typename P, bool PAPER>
static __device__ void norm_joined(Rows16 &normed, Rows16 &x, const Work &work, const Member &m, const Shape &s,
                                   const Pass &pass, uint32_t block, bool after_mlp, const RowTile &at) {
    const bool pre = m.pre_norm, own = pre && after_mlp; /* own: the norm before the attention of `block` */
    if (after_mlp && block == (pre ? m.L : 0)) {
        normed = x;
        return;
    }
    const bool attention = pre == after_mlp;
    const NormStats stats = normalize<P, PAPER>(normed, x, s.C, norm_epsilon(own ? block : block - 1, attention));
    if (!pre) x = normed;
    if (!pass.training) return;
    const Trace &t = own ? work.after : work.before;
    store_per_row(attention ? t.rstd1 : t.rstd2, stats.rstd, at);
    if (own) store_per_row(t.mean1, stats.mean, at);
    float *const to = attention ? t.normed1 : t.normed2;
    if (own ? to != nullptr : !after_mlp) store<P>(to, s.Cp, s.Cp, normed, at);
}

static __device__ void add(Rows16 &x, const Rows16 &y) {
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) x.d[j][i] += y.d[j][i];
}

/* Finishes block `block` - 1 (or embeds) and projects for block `block`, if there is one. */
template <typename P, bool PAPER>
static __global__ void __launch_bounds__(ROW_THREADS, 1)
    tensor_rows_forward(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(uint4, shared);
    __shared__ Work work;
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    const uint32_t rows = sequences_of(m, pass) * m.T, tiles = (rows + WARP_ROWS - 1) / WARP_ROWS;
    if (block > m.L || blockIdx.x >= tiles) return;
    begin_work(work, m, pass, block, rows);
    if (threadIdx.x <= s.H && block > 0)
        work.sources[threadIdx.x] = threadIdx.x == 0 ? float_source(input_of(m, pass, block - 1), s.Cp)
                                                     : stored_source<P>(m.traces[pass.training ? block - 1 : 0].context,
                                                                        (threadIdx.x - 1) * s.Cp, s.HDp, s.Cp);
    if (threadIdx.x == 0) work.count = s.H + 1;
    const uint4 *const weights = weights_of<P, PAPER>(shared, m, block, false);
    __syncthreads();
    const uint32_t first = blockIdx.x + threadIdx.x / 32 * gridDim.x;
    const bool drops = threshold_of(m, pass) > 0;
    uint4 *const slots = shared + (PAPER ? 6 * matrix_chunks<P> : 0);
    Flow flow = {};
    if (block > 0) flow = begin_flow<P, PAPER>(work, slots, first);
    for (uint32_t tile = first; tile < tiles; tile += gridDim.x * ROW_WARPS) {
        const RowTile at = tile_at(tile, rows);
        Rows16 x, sums;
        Operand<P> from;
        if (block > 0)
            take<P, PAPER>(x, flow, work, slots);
        else
            embed<P>(x, m, s, pass, at);
#pragma unroll 1
        for (uint32_t step = block == 0 ? s.H + 1 : 0; step < (block == m.L ? s.H + 2 : 4 * s.H + 2); step++) {
            if (step < s.H) take<P, PAPER>(from, flow, work, slots);
            if (block > 0 || step > s.H + 1) {
                if (step == 0 || step >= s.H)
                    begin_with<P>(sums, bias_of(m, s, block, step), step == s.H ? s.Fp : s.Cp);
                multiply_packed<P>(sums, from, weights + (size_t)step * matrix_chunks<P>);
            }
            if (step + 1 < s.H) continue;
            if (step > s.H + 1) {
                const uint32_t which = (step - s.H - 2) / s.H, head = (step - s.H - 2) % s.H;
                store_rounded<P>(work.after.qkv, which * s.HDp + head * s.Cp, 3 * s.HDp, s.Cp, sums, at);
                continue;
            }
            if (drops) {
                const KeptValues<P> kept = drop<P>(work, m, s, pass, block, step, at);
                if (step == s.H)
                    multiply_kept(sums, kept);
                else if (block == 0)
                    multiply_kept(x, kept);
                else
                    add_kept(x, sums, kept);
            } else if (step != s.H && block > 0) {
                add(x, sums);
            }
            if (step == s.H) {
                if (pass.training) store<P>(work.before.hidden, s.Fp, s.Fp, sums, at);
                activate_rows(sums, m.activation);
            } else {
                norm_joined<P, PAPER>(sums, x, work, m, s, pass, block, step == s.H + 1, at);
                if (step == s.H + 1) store<P>(input_of(m, pass, block), s.Cp, s.Cp, x, at);
            }
            round_rows(from, sums);
        }
    }
}

/* ---- backward */

/* The tensors of the backward pass: dx, the gradients of q, k and v of each head, what the norm before them, or after
 * the MLP of block - 1, had or gave; hidden; what the other norm of block - 1 gave. */
template <typename P>
static __device__ void list_sources(Work &work, const Member &m, const Shape &s, const Pass &pass, uint32_t block) {
    const uint32_t projections = block < m.L ? 3 * s.H : 0, i = threadIdx.x;
    const bool normed = block < m.L ? m.pre_norm || block > 0 : !m.pre_norm;
    const uint32_t count = 1 + projections + (normed ? 1 : 0) + (block > 0 ? 2 : 0);
    if (i == 0) work.count = count;
    if (i >= count) return;
    if (i == 0)
        work.sources[i] = float_source(m.dx, s.Cp);
    else if (i <= projections)
        work.sources[i] =
            stored_source<P>(m.traces[block].dqkv, (i - 1) / s.H * s.HDp + (i - 1) % s.H * s.Cp, 3 * s.HDp, s.Cp);
    else if (normed && i == projections + 1)
        work.sources[i] = float_source(input_of(m, pass, block), s.Cp);
    else if (i == count - 2)
        work.sources[i] = float_source(m.traces[block - 1].hidden, s.Fp);
    else
        work.sources[i] = float_source(m.pre_norm ? m.traces[block - 1].normed2 : m.traces[block - 1].normed1, s.Cp);
}

/* Through a norm: dx += what dy gives, or, where norms come after, dx = what both give. `means`: the rows are those
 * before the norm. */
template <typename P, bool PAPER>
static __device__ void through_norm(Rows16 &dx, Rows16 &dy, Flow &flow, const Work &work, uint4 *slots, uint32_t C,
                                    const float *means, const float *rstds, bool pre, const RowTile &at) {
    const float rstd[2] = {rstds[at.row[0]], rstds[at.row[1]]};
    Rows16 y;
    take<P, PAPER>(y, flow, work, slots);
    if (means != nullptr) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float mean = means[at.row[r]];
#pragma unroll
            for (int v = 0; v < VALUES; v++)
                y.at(r, v) = real_column<P, PAPER>(v, C) ? (y.at(r, v) - mean) * rstd[r] : 0.0F;
        }
    }
    if (!pre) {
        add(dy, dx);
        clear(dx);
    }
    norm_backward<P, PAPER>(dx, dy, y, rstd, C);
}

/* What a linear layer gave gets this gradient: dy after dropout, rounded, also to the trace. */
template <typename P>
static __device__ void drop_backward(Operand<P> &out, float *trace, const Rows16 &dy, uint32_t word, const Member &m,
                                     bool drops, uint32_t columns, const RowTile &at) {
    Rows16 dropped = dy;
    if (drops) multiply_kept(dropped, share_kept<P>(word, m.keep_scale));
    round_rows(out, dropped);
    store_operand<P>(trace, 0, columns, columns, out, at);
}

/* Projects back from block `block`, if there is one, and differentiates block `block` - 1 down to its attention, or the
 * embedding's dropout. */
template <typename P, bool PAPER>
static __global__ void __launch_bounds__(ROW_THREADS, 1)
    tensor_rows_backward(const Member *__restrict__ members, Pass pass, uint32_t block) {
    SF_DYNAMIC_SHARED(uint4, shared);
    __shared__ Work work;
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<PAPER>(m);
    const uint32_t rows = sequences_of(m, pass) * m.T, tiles = (rows + WARP_ROWS - 1) / WARP_ROWS;
    if (block > m.L || blockIdx.x >= tiles) return;
    begin_work(work, m, pass, block, rows);
    list_sources<P>(work, m, s, pass, block);
    const uint4 *const weights = weights_of<P, PAPER>(shared, m, block, true);
    __syncthreads();
    const uint32_t first = blockIdx.x + threadIdx.x / 32 * gridDim.x;
    const bool drops = threshold_of(m, pass) > 0, pre = m.pre_norm;
    uint4 *const slots = shared + (PAPER ? 6 * matrix_chunks<P> : 0);
    Flow flow = begin_flow<P, PAPER>(work, slots, first);
    for (uint32_t tile = first; tile < tiles; tile += gridDim.x * ROW_WARPS) {
        const RowTile at = tile_at(tile, rows);
        const uint32_t word = drops ? __ldcg(words_of(block > 0 ? work.before.kept_mlp : m.kept_embedding, at)) : 0;
        Rows16 dx, sums;
        Operand<P> from;
        take<P, PAPER>(dx, flow, work, slots);
        clear(sums);
        if (block < m.L) {
#pragma unroll 1
            for (uint32_t i = 0; i < 3 * s.H; i++) {
                take<P, PAPER>(from, flow, work, slots);
                multiply_packed<P>(sums, from, weights + (size_t)(s.H + 2 + i) * matrix_chunks<P>);
            }
        }
        if (pre ? block < m.L : block > 0)
            through_norm<P, PAPER>(dx, sums, flow, work, slots, s.C, pre ? work.after.mean1 : nullptr,
                                   pre ? work.after.rstd1 : work.before.rstd2, pre, at);
        else if (block == 0)
            add(dx, sums);
        if (block > 0) {
            uint32_t next = drops ? __ldcg(words_of(work.before.kept_hidden, at)) : 0;
            drop_backward<P>(from, work.before.dmlp, dx, word, m, drops, s.Cp, at);
            clear(sums);
            multiply_packed<P>(sums, from, weights + (size_t)(s.H + 1) * matrix_chunks<P>);
            {
                Rows16 z;
                take<P, PAPER>(z, flow, work, slots);
                multiply_slopes(sums, z, m.activation);
            }
            drop_backward<P>(from, work.before.dhidden, sums, next, m, drops, s.Fp, at);
            next = drops ? __ldcg(words_of(work.before.kept_attention, at)) : 0;
            clear(sums);
            multiply_packed<P>(sums, from, weights + (size_t)s.H * matrix_chunks<P>);
            through_norm<P, PAPER>(dx, sums, flow, work, slots, s.C, nullptr,
                                   pre ? work.before.rstd2 : work.before.rstd1, pre, at);
            drop_backward<P>(from, work.before.dattention, dx, next, m, drops, s.Cp, at);
        } else if (drops) {
            multiply_kept(dx, share_kept<P>(word, m.keep_scale));
        }
        store<P>(m.dx, s.Cp, s.Cp, dx, at);
#pragma unroll 1
        for (uint32_t head = 0; head < s.H && block > 0; head++) {
            clear(sums);
            multiply_packed<P>(sums, from, weights + (size_t)head * matrix_chunks<P>);
            store_rounded<P>(work.before.dcontext, head * s.Cp, s.HDp, s.Cp, sums, at);
        }
    }
}

typedef void RowsKernel(const Member *, Pass, uint32_t);

template <typename P> constexpr size_t shared_of_rows(bool resident) {
    return ((resident ? 6 * matrix_chunks<P> : 0) + ROW_WARPS * SLOTS * SLOT_CHUNKS * 32) * sizeof(uint4);
}

/* Whether the weights lie in shared memory. Where there is less of it, every model is one of any shape. */
template <typename P> static bool is_resident(const sf_cuda_launch *launch) {
    return launch->paper && shared_of_rows<P>(true) + sizeof(Work) <= launch->shared_most;
}

/* As many blocks of threads as run at once, shared evenly by the members. */
template <typename P>
static void launch_rows(RowsKernel *resident, RowsKernel *other, const sf_cuda_launch *launch, const sf_cuda_pass *pass,
                        uint32_t block) {
    const uint32_t most = (launch->most_rows + ROW_WARPS * WARP_ROWS - 1) / (ROW_WARPS * WARP_ROWS);
    const uint32_t share = launch->processors / launch->members;
    const uint32_t across = share < 1 ? 1 : share < most ? share : most;
    const bool paper = is_resident<P>(launch);
    launch_kernel(paper ? resident : other, dim3(across, launch->members), ROW_THREADS, shared_of_rows<P>(paper),
                  launch->stream, launch->fleet, *pass, block);
}

template <typename P>
static cudaError_t prepare(RowsKernel *resident, RowsKernel *other, const sf_cuda_launch *launch) {
    const bool paper = is_resident<P>(launch);
    return cudaFuncSetAttribute(paper ? resident : other, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)shared_of_rows<P>(paper));
}

} // namespace sf

using namespace sf;

cudaError_t sf_cuda_prepare_tensor_rows(const sf_cuda_launch *launch) {
    const cudaError_t errors[] = {
        prepare<Tf32>(tensor_rows_forward<Tf32, true>, tensor_rows_forward<Tf32, false>, launch),
        prepare<Tf32>(tensor_rows_backward<Tf32, true>, tensor_rows_backward<Tf32, false>, launch),
        prepare<Bf16>(tensor_rows_forward<Bf16, true>, tensor_rows_forward<Bf16, false>, launch),
        prepare<Bf16>(tensor_rows_backward<Bf16, true>, tensor_rows_backward<Bf16, false>, launch)};
    for (const cudaError_t error : errors)
        if (error != cudaSuccess) return error;
    return cudaSuccess;
}

void sf_cuda_pack_weights(const sf_cuda_launch *launch, const sf_cuda_pass *pass) {
    const dim3 grid(2 * (4 * launch->most_heads + 2), launch->most_blocks, launch->members);
    const auto kernel = launch->precision == SF_TF32 ? pack_weights<Tf32> : pack_weights<Bf16>;
    launch_kernel(kernel, grid, PACK_THREADS, 0, launch->stream, launch->fleet, *pass);
}

void sf_cuda_tensor_rows_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->precision == SF_TF32)
        launch_rows<Tf32>(tensor_rows_forward<Tf32, true>, tensor_rows_forward<Tf32, false>, launch, pass, block);
    else
        launch_rows<Bf16>(tensor_rows_forward<Bf16, true>, tensor_rows_forward<Bf16, false>, launch, pass, block);
}

void sf_cuda_tensor_rows_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    if (launch->precision == SF_TF32)
        launch_rows<Tf32>(tensor_rows_backward<Tf32, true>, tensor_rows_backward<Tf32, false>, launch, pass, block);
    else
        launch_rows<Bf16>(tensor_rows_backward<Bf16, true>, tensor_rows_backward<Bf16, false>, launch, pass, block);
}
