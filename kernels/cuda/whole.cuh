/* Whole sequences: a block of 256 threads takes up to 128 rows, which are whole sequences of one chunk, through the
 * whole model and back, so that nothing but what the backward pass needs leaves the multiprocessor. For sequences of at
 * most 64 positions and the paper's model: width and MLP width 64, one head.
 *
 * Here: how threads share a tile, the products, and the memory of a block of threads. */
#ifndef SF_KERNELS_CUDA_WHOLE_CUH
#define SF_KERNELS_CUDA_WHOLE_CUH

#include "kernels/cuda/copy.cuh"
#include "kernels/cuda/fleet.cuh"
#include "semfocus/settings.h"

namespace sf {
namespace whole {

enum { ROWS = SF_CUDA_WHOLE_ROWS, WIDTH = SF_CUDA_WHOLE_WIDTH, LD = WIDTH + 8 };
enum { MATRIX = SF_CUDA_WHOLE_MATRIX, WEIGHT = SF_CUDA_WHOLE_WEIGHT }; /* a weight is a matrix and its bias */
enum {
    THREADS = 256,
    EIGHT = 8,
    GROUPS = THREADS / EIGHT,
    R = ROWS / GROUPS
}; /* R rows and eight columns per thread */

/* Eight threads share a row: they differ in bits 1 to 3 of their number. Two loads of 16 bytes by neighbours (bit 0) of
 * a column's four, or by threads that differ in bit 1 of a row's four, are then one: shared memory is read half as
 * often as with neighbours along a row. */
__device__ inline uint32_t lane() {
    return threadIdx.x % 32;
}
__device__ inline uint32_t group() {
    return threadIdx.x / 32 * 4 + lane() / 16 * 2 + lane() % 2;
}
__device__ inline uint32_t place() { /* of the thread in its eight */
    return lane() / 2 % EIGHT;
}

/* Which threads exchange values: where eight threads may be at another row than their warp, EIGHT_OF_THEM; the other is
 * faster. */
enum Together { WHOLE_WARP, EIGHT_OF_THEM };

template <Together T = WHOLE_WARP> __device__ inline unsigned partners() {
    return T == WHOLE_WARP ? 0xffffffffU : 0x5555U << (lane() & 17);
}

/* The value of the thread whose place differs in these bits. */
template <Together T = WHOLE_WARP, typename Value> __device__ inline Value from_place(Value value, int different) {
    return __shfl_xor_sync(partners<T>(), value, 2 * different);
}

/* A tile of 128 rows and 64 columns as its threads hold it. With products in f32, a thread has the rows group,
 * group + 32, ... and the columns place, place + 8, ...: lanes of a sum over the row (docs/numerics.md) then lie two in
 * each thread, and one draw of random numbers is eight elements of one thread. Products whose columns need neither take
 * 4 * place .. + 3 and 32 + 4 * place .. + 3 instead: columns side by side. With products on tensor cores it is what
 * these leave behind (mma.cuh): a warp has 16 rows, a thread two of them and sixteen columns, again whole draws. */
template <sf_precision P> struct Tile {
    static constexpr int R = 2, C = 16;
    float at[R][C];
};
template <> struct Tile<SF_F32> {
    static constexpr int R = whole::R, C = EIGHT;
    float at[R][C];
};

template <sf_precision P> __device__ inline uint32_t row_of(int i) {
    return P == SF_F32 ? group() + GROUPS * i : threadIdx.x / 32 * 16 + lane() / 4 + 8 * i;
}
template <sf_precision P> __device__ inline uint32_t column_of(int j) {
    return P == SF_F32 ? place() + EIGHT * j : j / 2 * 8 + lane() % 4 * 2 + j % 2;
}
__device__ inline uint32_t key_of(int j) { /* of the eight threads that share a query */
    return place() + EIGHT * j;
}

/* Where a weight's column lies in shared memory, so that a thread finds its eight in two loads. */
__device__ inline uint32_t interleaved(uint32_t column) {
    const uint32_t of = column % EIGHT, j = column / EIGHT;
    return j / 4 * 32 + of * 4 + j % 4;
}

/* Sum over a row's 16 lanes, of which the thread holds `place` and `place` + 8. All eight threads get it. */
template <Together T = WHOLE_WARP> __device__ inline float total_of_eight(float lane, float lane_and_eight) {
    float sum = lane + lane_and_eight;
    sum = sum + from_place<T>(sum, 4);
    sum = sum + from_place<T>(sum, 2);
    return sum + from_place<T>(sum, 1);
}

template <Together T = WHOLE_WARP> __device__ inline float largest_of_eight(float value) {
#pragma unroll
    for (int other = 4; other > 0; other /= 2) {
        const float there = from_place<T>(value, other);
        value = there > value ? there : value;
    }
    return value;
}

__device__ inline uint64_t union_of_eight(uint64_t bits) {
#pragma unroll
    for (int other = 4; other > 0; other /= 2) bits |= from_place<EIGHT_OF_THEM>(bits, other);
    return bits;
}

/* A factor of products as it is stored: tf32 keeps 11 bits. Ties and infinities are those of the split (Veltkamp's),
 * which takes three operations and keeps NaN. */
template <sf_precision P> __device__ inline float factor(float x) {
    if (P != SF_TF32) return x;
    const float far = 8193.0F * x;
    return far - (far - x);
}

__device__ inline float4 four_at(const float *from) {
    return *reinterpret_cast<const float4 *>(from);
}
__device__ inline void put_four(float *to, float a, float b, float c, float d) {
    *reinterpret_cast<float4 *>(to) = make_float4(a, b, c, d);
}

template <int N> __device__ inline void add_products(float (&sums)[N], float left, const float (&right)[N]) {
#pragma unroll
    for (int j = 0; j < N; j++) sums[j] = __fmaf_rn(left, right[j], sums[j]);
}

__device__ inline void load_eight(float (&to)[EIGHT], const float *from /* 4 here, 4 at + 32 */) {
    const float4 low = four_at(from), high = four_at(from + 32);
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}

__device__ inline float component(const float4 &four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

/* sums[i][j] += rows of `left` (depth inside) times `right` (depth outside, the thread's columns in two fours). */
template <uint32_t DEPTH>
__device__ inline void multiply(Tile<SF_F32> &sums, const float *left, uint32_t left_step, const float *right,
                                uint32_t right_row, uint32_t depth) {
    const uint32_t end = DEPTH > 0 ? DEPTH : depth;
#pragma unroll(DEPTH > 0 ? 2 : 1)
    for (uint32_t k = 0; k + 4 <= end; k += 4) {
        float4 rows[R];
#pragma unroll
        for (int i = 0; i < R; i++) rows[i] = four_at(left + i * left_step + k);
#pragma unroll
        for (int inner = 0; inner < 4; inner++) {
            float columns[EIGHT];
            load_eight(columns, right + (k + inner) * right_row);
#pragma unroll
            for (int i = 0; i < R; i++) add_products(sums.at[i], component(rows[i], inner), columns);
        }
    }
    for (uint32_t k = end / 4 * 4; k < end && end % 4 != 0; k++) {
        float columns[EIGHT];
        load_eight(columns, right + k * right_row);
#pragma unroll
        for (int i = 0; i < R; i++) add_products(sums.at[i], left[i * left_step + k], columns);
    }
}

/* sums[i][j] += left^T right, both with their depth outside: R outputs side by side at `left`. */
__device__ inline void multiply_across(Tile<SF_F32> &sums, const float *left, const float *right, uint32_t depth) {
#pragma unroll 4
    for (uint32_t k = 0; k < depth; k++) {
        float columns[EIGHT];
        load_eight(columns, right + k * LD);
        const float4 four = four_at(left + k * LD);
#pragma unroll
        for (int i = 0; i < R; i++) add_products(sums.at[i], component(four, i), columns);
    }
}
static_assert(R == 4, "multiply_across loads four outputs");

/* sums[i][j] = rows of `left` times (scale * rows of `right`), the depth inside both: R rows left_step apart, KEYS
 * rows eight apart. */
template <int KEYS, bool SCALED>
__device__ inline void multiply_rows(float (&sums)[R][KEYS], const float *left, uint32_t left_step, const float *right,
                                     float scale) {
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < KEYS; j++) sums[i][j] = 0.0F;
#pragma unroll 1
    for (uint32_t k = 0; k < WIDTH; k += 4) {
        float4 rows[R], keys[KEYS];
#pragma unroll
        for (int i = 0; i < R; i++) rows[i] = four_at(left + i * left_step + k);
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            keys[j] = four_at(right + j * EIGHT * LD + k);
            if (SCALED)
                keys[j] = make_float4(scale * keys[j].x, scale * keys[j].y, scale * keys[j].z, scale * keys[j].w);
        }
#pragma unroll
        for (int inner = 0; inner < 4; inner++)
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < KEYS; j++)
                    sums[i][j] = __fmaf_rn(component(rows[i], inner), component(keys[j], inner), sums[i][j]);
    }
}

/* ---- memory */

struct Shared {
    float *a, *b;              /* [ROWS,LD] */
    float *weights;            /* [2,WEIGHT] */
    float *row_values;         /* [ROWS] */
    uint64_t *masks, *columns; /* [ROWS]: keys that a query keeps; queries that keep a key */
};

__device__ inline Shared shared_at(float *memory) {
    Shared s;
    s.a = memory;
    s.b = s.a + ROWS * LD;
    s.weights = s.b + ROWS * LD;
    s.row_values = s.weights + 2 * WEIGHT;
    s.masks = reinterpret_cast<uint64_t *>(s.row_values + ROWS);
    s.columns = s.masks + ROWS;
    return s;
}

static_assert(ROWS / 2 * WIDTH * sizeof(double) <= ROWS * LD * sizeof(float), "means of 64 sequences fit into b");

enum { SHARED_FLOATS = 2 * ROWS * LD + 2 * WEIGHT + ROWS + 4 * ROWS };

/* What the forward pass of one layer keeps for the backward pass, of one round of a chunk: global memory that only this
 * block of threads uses. */
struct Trace {
    float *input, *normed1, *q, *k, *v, *context, *normed2, *hidden; /* [ROWS,WIDTH] */
    float *rstd1, *rstd2;                                            /* [ROWS] */
    float2 *stats;                                                   /* [ROWS]: largest score, 1 / total */
    uint64_t *masks;                                                 /* [ROWS]: keys kept */
    uint64_t *undropped;                                             /* [ROWS]: weights that dropout keeps */
    uint32_t *drops; /* [3,THREADS]: what dropout keeps of a thread's tile */
    float *weights;  /* kept weights, queries in order */
};

enum { TILE_FLOATS = ROWS * WIDTH };

__device__ inline Trace trace_at(float *memory, uint32_t layer) {
    Trace t;
    float *at = memory + (size_t)layer * SF_CUDA_WHOLE_LAYER;
    float **const tiles[] = {&t.v, &t.input, &t.normed1, &t.q, &t.k, &t.context, &t.normed2, &t.hidden};
    for (float **tile : tiles) {
        *tile = at;
        at += TILE_FLOATS;
    }
    t.rstd1 = at;
    t.rstd2 = t.rstd1 + ROWS;
    t.stats = reinterpret_cast<float2 *>(t.rstd2 + ROWS);
    t.masks = reinterpret_cast<uint64_t *>(t.stats + ROWS);
    t.undropped = t.masks + ROWS;
    t.drops = reinterpret_cast<uint32_t *>(t.undropped + ROWS);
    t.weights = reinterpret_cast<float *>(t.drops + 3 * THREADS);
    return t;
}

/* What the backward pass of one layer uses, the same for every layer. */
struct Scratch {
    float *dcontext, *dq, *dk, *dv, *dx; /* [ROWS,WIDTH] */
    uint32_t *embedding_drops;           /* [THREADS] */
};

__device__ inline Scratch scratch_at(float *memory, uint32_t layers) {
    Scratch s;
    s.dcontext = memory + (size_t)layers * SF_CUDA_WHOLE_LAYER;
    s.dq = s.dcontext + TILE_FLOATS;
    s.dk = s.dq + TILE_FLOATS;
    s.dv = s.dk + TILE_FLOATS;
    s.dx = s.dv + TILE_FLOATS;
    s.embedding_drops = reinterpret_cast<uint32_t *>(s.dx + TILE_FLOATS);
    return s;
}

static_assert(SF_CUDA_WHOLE_LAYER == 8 * TILE_FLOATS + 2 * ROWS + 2 * ROWS + 4 * ROWS + 3 * THREADS + MATRIX,
              "a layer's trace");
static_assert(SF_CUDA_WHOLE_SCRATCH == 5 * TILE_FLOATS + THREADS, "the backward pass's memory");

/* ---- what a block of threads is at */

struct Work {
    const Member *m;
    Pass pass;
    uint32_t first, count, rows; /* sequences of the pass, and their rows */
    Shared shared;
    float *memory;
    float *gradient; /* of the chunk */
    bool begins;     /* the first sequences of the chunk */
    uint32_t slot;   /* of shared.weights: the one that is read */
    uint32_t T;
    uint32_t threshold; /* of dropout, 0: none */
    float keep_scale;   /* 1 without dropout */
};

__device__ inline Work work_of(const Member &m, const Pass &pass, float *shared) {
    Work w = {};
    w.m = &m;
    w.pass = pass;
    w.shared = shared_at(shared);
    w.T = m.T;
    w.threshold = threshold_of(m, pass);
    w.keep_scale = w.threshold > 0 ? m.keep_scale : 1.0F;
    return w;
}

enum { FORWARD, BACKWARD };

__device__ inline const float *arranged(const Work &w, uint32_t layer, int which /* 0..5 */, int direction) {
    return w.m->arranged + ((size_t)(layer * 6 + which) * 2 + direction) * WEIGHT;
}

/* Starts to copy a weight for the product after next. */
__device__ inline void fetch_weight(const Work &w, uint32_t slot, const float *from) {
    float *const to = w.shared.weights + slot * WEIGHT;
#pragma unroll
    for (int i = 0; i < MATRIX / 4 / THREADS; i++) {
        const uint32_t at = (i * THREADS + threadIdx.x) * 4;
        copy_async(to + at, from + at);
    }
    if (threadIdx.x < WIDTH / 4) copy_async(to + MATRIX + threadIdx.x * 4, from + MATRIX + threadIdx.x * 4);
}

/* The weight that was fetched last; begins to fetch the next one, if any. All threads have then finished the product
 * before, and see what was written for this one. */
__device__ inline const float *take_weight(Work &w, const float *next) {
    wait_for_copies();
    __syncthreads();
    const uint32_t slot = w.slot;
    w.slot ^= 1;
    if (next != nullptr) fetch_weight(w, w.slot, next);
    return w.shared.weights + slot * WEIGHT;
}

/* Rows of a trace that will be fetched soon come nearer. */
__device__ inline void expect_rows(const float *from /* [ROWS,WIDTH] */, uint32_t rows) {
    for (uint32_t i = threadIdx.x; i < rows * 2; i += THREADS) expect(from + i * (WIDTH / 2));
}

/* Rows of a trace to a buffer, while the threads compute. */
__device__ inline void fetch_rows(float *to /* [ROWS,LD] */, const float *from /* [ROWS,WIDTH] */, uint32_t first,
                                  uint32_t end) {
    for (uint32_t i = first * (WIDTH / 4) + threadIdx.x; i < end * (WIDTH / 4); i += THREADS)
        copy_async(to + i / (WIDTH / 4) * LD + i % (WIDTH / 4) * 4, from + i * 4);
}

__device__ inline void wait_and_meet() {
    wait_for_copies();
    __syncthreads();
}

__device__ inline void put_side_by_side(float *to, uint32_t row, const float (&values)[EIGHT]) {
    put_four(to + row + 4 * place(), values[0], values[1], values[2], values[3]);
    put_four(to + row + 32 + 4 * place(), values[4], values[5], values[6], values[7]);
}

template <sf_precision P> __device__ inline void make_factors(float (&values)[EIGHT]) {
#pragma unroll
    for (int j = 0; j < EIGHT; j++) values[j] = factor<P>(values[j]);
}

__device__ inline void clear(Tile<SF_F32> &tile) {
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < EIGHT; j++) tile.at[i][j] = 0.0F;
}

/* What dropout keeps of eight elements of a row: those whose column is `which` more than a multiple of eight. */
__device__ inline uint32_t eight_kept(const Index &index, uint32_t row, uint32_t which, uint32_t threshold) {
    uint32_t words[4], kept = 0;
    philox(words, index, row * EIGHT + which);
#pragma unroll
    for (int j = 0; j < EIGHT; j++) kept |= (uint32_t)((words[j / 2] >> 16 * (j % 2) & 0xffffU) >= threshold) << j;
    return kept;
}

} // namespace whole
} // namespace sf

#endif
