/* /doubly: weights that depend on all queries of a head, so that the lists, scores and weights of a whole head are held
 * at once. Sums over queries and over keys in double, in ascending order, as attention/doubly.c takes them: one thread
 * per key, which finds its place in the list of every query, or one per query. */
#include "kernels/cuda/parts_select.cuh"
#include "kernels/cuda/parts_walk.cuh"

namespace sf {

/* A head whose units are held, and what its rounds have subtracted. */
struct Matrix {
    uint32_t first_unit;           /* among those that are held */
    double *columns, *rows, *sums; /* [rounds,T], [rounds,T], [T] */
};

static __device__ uint32_t rounds_of(const Parts &p) {
    return (uint32_t)p.weighting_argument;
}

static __device__ Matrix matrix_of(const Member &m, uint32_t first_unit) {
    const Parts &p = m.parts;
    const size_t each = (size_t)rounds_of(p) * m.T, held = first_unit / ((m.T + UNIT - 1) / UNIT);
    Matrix matrix;
    matrix.first_unit = first_unit;
    matrix.columns = p.potentials + held * (2 * each + m.T);
    matrix.rows = matrix.columns + each;
    matrix.sums = matrix.rows + each;
    return matrix;
}

/* Element n of query i of the head is at cell(i, n). */
static __device__ size_t cell(const Matrix &matrix, const Parts &p, uint32_t i, uint32_t n) {
    return ((size_t)(matrix.first_unit + i / UNIT) * p.most_kept + n) * UNIT + i % UNIT;
}

static __device__ uint32_t count_at(const Matrix &matrix, const Parts &p, uint32_t i) {
    return p.counts[(matrix.first_unit + i / UNIT) * UNIT + i % UNIT];
}

static __device__ uint32_t place_in(const Matrix &matrix, const Parts &p, uint32_t i, uint32_t key) {
    return place_of(p.keys + cell(matrix, p, i, 0), count_at(matrix, p, i), key);
}

/* The logarithm of a weight, with the potentials of two steps; NULL: none yet. */
static __device__ double log_weight(double score, const double *a, const double *b, uint32_t i, uint32_t j) {
    return score - (b != nullptr ? b[j] : 0) - (a != nullptr ? a[i] : 0);
}

static __device__ double log_weight_at(const Matrix &matrix, const Parts &p, const double *a, const double *b,
                                       uint32_t i, uint32_t n) {
    const size_t at = cell(matrix, p, i, n);
    return log_weight((double)p.scores[at], a, b, i, p.keys[at]);
}

static __device__ double minus_infinity() {
    return __longlong_as_double((long long)0xfff0000000000000ULL);
}

/* b grows by the logarithm of each column's sum of e^l. */
static __device__ void normalize_columns(double *b, const double *old_a, const double *old_b, const Matrix &matrix,
                                         const Member &m) {
    const Parts &p = m.parts;
    for (uint32_t j = threadIdx.x; j < m.T; j += THREADS) {
        double largest = minus_infinity(), sum = 0;
        for (uint32_t i = 0; i < m.T; i++) {
            const uint32_t n = place_in(matrix, p, i, j);
            if (n == NOT_KEPT) continue;
            const double l = log_weight_at(matrix, p, old_a, old_b, i, n);
            largest = l > largest ? l : largest;
        }
        for (uint32_t i = 0; i < m.T; i++) {
            const uint32_t n = place_in(matrix, p, i, j);
            if (n != NOT_KEPT) sum += exp_of_double(log_weight_at(matrix, p, old_a, old_b, i, n) - largest);
        }
        b[j] = (old_b != nullptr ? old_b[j] : 0) + (sum > 0 ? largest + log_of_double(sum) : 0);
    }
    __syncthreads();
}

/* a grows by the logarithm of each row's sum of e^l. */
static __device__ void normalize_rows(double *a, const double *old_a, const double *b, const Matrix &matrix,
                                      const Member &m) {
    const Parts &p = m.parts;
    for (uint32_t i = threadIdx.x; i < m.T; i += THREADS) {
        const uint32_t count = count_at(matrix, p, i);
        double largest = minus_infinity(), sum = 0;
        for (uint32_t n = 0; n < count; n++) {
            const double l = log_weight_at(matrix, p, old_a, b, i, n);
            largest = l > largest ? l : largest;
        }
        for (uint32_t n = 0; n < count; n++) sum += exp_of_double(log_weight_at(matrix, p, old_a, b, i, n) - largest);
        a[i] = (old_a != nullptr ? old_a[i] : 0) + largest + log_of_double(sum);
    }
    __syncthreads();
}

/* Whether the member has such a weighting, and the block of threads a head of the round. */
static __device__ bool matrix_of_block(Matrix &matrix, const Member &m, const Shape &s, const Pass &pass,
                                       uint32_t block, uint32_t round) {
    const Parts &p = m.parts;
    if (m.selection != BY_PARTS || p.weighting != SF_CUDA_DOUBLY || sequences_of(m, pass) == 0) return false;
    const uint32_t tiles = (m.T + UNIT - 1) / UNIT, heads = p.units / tiles;
    Head head;
    matrix = matrix_of(m, blockIdx.x * tiles);
    return blockIdx.x < heads && head_at(head, m, s, pass, block, round * heads + blockIdx.x, 0);
}

/* Grid (heads of a round, members). */
static __global__ void __launch_bounds__(THREADS)
    balance(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    Matrix matrix;
    if (!matrix_of_block(matrix, m, s, pass, block, round)) return;
    const double *a = nullptr, *b = nullptr;
    for (uint32_t r = 0; r < rounds_of(m.parts); r++) {
        normalize_columns(matrix.columns + (size_t)r * m.T, a, b, matrix, m);
        b = matrix.columns + (size_t)r * m.T;
        normalize_rows(matrix.rows + (size_t)r * m.T, a, b, matrix, m);
        a = matrix.rows + (size_t)r * m.T;
    }
}

/* Gradients of the logarithms after a step, in `wide`, become those before it. */
static __device__ void rows_back(const double *a, const double *b, const Matrix &matrix, const Member &m) {
    const Parts &p = m.parts;
    for (uint32_t i = threadIdx.x; i < m.T; i += THREADS) {
        const uint32_t count = count_at(matrix, p, i);
        double sum = 0;
        for (uint32_t n = 0; n < count; n++) sum += p.wide[cell(matrix, p, i, n)];
        for (uint32_t n = 0; n < count; n++)
            p.wide[cell(matrix, p, i, n)] -= sum * exp_of_double(log_weight_at(matrix, p, a, b, i, n));
    }
    __syncthreads();
}

static __device__ void columns_back(const double *a, const double *b, const Matrix &matrix, const Member &m) {
    const Parts &p = m.parts;
    for (uint32_t j = threadIdx.x; j < m.T; j += THREADS) {
        double sum = 0;
        for (uint32_t i = 0; i < m.T; i++) {
            const uint32_t n = place_in(matrix, p, i, j);
            if (n != NOT_KEPT) sum += p.wide[cell(matrix, p, i, n)];
        }
        matrix.sums[j] = sum;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < m.T; i += THREADS)
        for (uint32_t n = 0; n < count_at(matrix, p, i); n++) {
            const size_t at = cell(matrix, p, i, n);
            p.wide[at] -= matrix.sums[p.keys[at]] * exp_of_double(log_weight_at(matrix, p, a, b, i, n));
        }
    __syncthreads();
}

static __global__ void __launch_bounds__(THREADS)
    balance_back(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    Matrix matrix;
    if (!matrix_of_block(matrix, m, s, pass, block, round)) return;
    for (uint32_t r = rounds_of(m.parts); r-- > 0;) {
        const double *b = matrix.columns + (size_t)r * m.T;
        rows_back(matrix.rows + (size_t)r * m.T, b, matrix, m);
        columns_back(r > 0 ? matrix.rows + (size_t)(r - 1) * m.T : nullptr, b, matrix, m);
    }
}

static __device__ bool listed_query_of(Query &query, Head &head, const Member &m, const Shape &s, const Pass &pass,
                                       uint32_t block, uint32_t round) {
    if (m.selection != BY_PARTS || m.parts.weighting != SF_CUDA_DOUBLY) return false;
    return query_of(query, head, m, s, pass, block, round, blockIdx.x);
}

/* Kept keys and scores. Grid (units, members), a thread per query; the next ones, too. */
static __global__ void __launch_bounds__(UNIT)
    list_keys(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    Head head;
    Query query;
    if (!listed_query_of(query, head, m, s, pass, block, round)) return;
    list_query(query, m, s, pass, block, head);
    m.parts.counts[blockIdx.x * UNIT + threadIdx.x] = query.count;
}

/* Weights after the last round. */
static __device__ void weigh_listed(Query &query, const Member &m) {
    const Parts &p = m.parts;
    const uint32_t tiles = (m.T + UNIT - 1) / UNIT;
    const Matrix matrix = matrix_of(m, blockIdx.x / tiles * tiles);
    const double *a = matrix.rows + (size_t)(rounds_of(p) - 1) * m.T;
    const double *b = matrix.columns + (size_t)(rounds_of(p) - 1) * m.T;
    query.count = p.counts[blockIdx.x * UNIT + threadIdx.x];
    for (uint32_t n = 0; n < query.count; n++) {
        query.exact[n] = exp_of_double(log_weight((double)query.scores[n], a, b, query.at, query.keys[n]));
        query.weights[n] = (float)query.exact[n];
    }
}

static __global__ void __launch_bounds__(UNIT)
    mix_listed(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    Head head;
    Query query;
    if (!listed_query_of(query, head, m, s, pass, block, round)) return;
    weigh_listed(query, m);
    mix_query(query, m, s, pass, block, head);
}

/* Gradients of the logarithms of the weights. */
static __global__ void __launch_bounds__(UNIT)
    slopes_of_listed(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    Head head;
    Query query;
    if (!listed_query_of(query, head, m, s, pass, block, round)) return;
    const uint32_t threshold = threshold_of(m, pass);
    const Index index = index_of(m, pass, DROP_WEIGHTS, block, head.h, head.n);
    weigh_listed(query, m);
    slopes_of_weights<false>(query, query.count, m, s, head, index, threshold);
    for (uint32_t n = 0; n < query.count; n++) query.wide[n] = (double)query.slopes[n] * query.exact[n];
    drop_weights(query, m, index, threshold);
}

static __global__ void __launch_bounds__(UNIT)
    listed_backward_queries(const Member *__restrict__ members, Pass pass, uint32_t block, uint32_t round) {
    const Member &m = members[blockIdx.y];
    const Shape s = shape_of<false>(m);
    Head head;
    Query query;
    if (!listed_query_of(query, head, m, s, pass, block, round)) return;
    query.count = m.parts.counts[blockIdx.x * UNIT + threadIdx.x];
    prepare_transforms(query, m, head);
    for (uint32_t n = 0; n < query.count; n++) query.slopes[n] = (float)query.wide[n];
    scores_back(query, query.count, m, s, head);
}

} // namespace sf

using namespace sf;

void sf_cuda_matrix_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block, uint32_t round) {
    launch_parts(list_keys, launch->most_units, UNIT, 0, launch, pass, block, round);
    launch_parts(balance, launch->most_units, THREADS, 0, launch, pass, block, round);
    launch_parts(mix_listed, launch->most_units, UNIT, 0, launch, pass, block, round);
}

void sf_cuda_matrix_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block, uint32_t round) {
    launch_parts(list_keys, launch->most_units, UNIT, 0, launch, pass, block, round);
    launch_parts(balance, launch->most_units, THREADS, 0, launch, pass, block, round);
    launch_parts(slopes_of_listed, launch->most_units, UNIT, 0, launch, pass, block, round);
    launch_parts(balance_back, launch->most_units, THREADS, 0, launch, pass, block, round);
    launch_parts(listed_backward_queries, launch->most_units, UNIT, 0, launch, pass, block, round);
}
