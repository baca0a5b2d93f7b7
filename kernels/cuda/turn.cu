/* @rope and @qknorm: queries and keys are turned in place after their projection, and their gradients back before it.
 * One thread per query or key. Order as in kernels/cpu/turn.c. */
#include "kernels/cuda/launch.h"
#include "kernels/cuda/parts.cuh"

namespace sf {

enum { TURN_THREADS = 128 };

static __device__ void rotate(float *x /* [D] */, const float *angles /* [2,D/2] */, uint32_t pairs, float direction) {
    for (uint32_t i = 0; i < pairs; i++) {
        const float even = x[2 * i], odd = x[2 * i + 1], cosine = angles[i], sine = angles[pairs + i];
        x[2 * i] = even * cosine + -direction * odd * sine;
        x[2 * i + 1] = odd * cosine + direction * even * sine;
    }
}

struct Turned { /* a query or a key */
    size_t row;
    uint32_t n; /* of the row's 2 H: queries, then keys */
    float f;
    const float *angles; /* of its position, or NULL */
};

/* False: the thread has none. */
static __device__ bool turned_of(Turned &turned, const Member &m, const Pass &pass) {
    const uint32_t B = sequences_of(m, pass), at = blockIdx.x * TURN_THREADS + threadIdx.x;
    if (B == 0 || at / (2 * m.H) >= B * m.T || skips_sequence(pass, B, at / (2 * m.H) / m.T)) return false;
    turned.row = at / (2 * m.H);
    turned.n = at % (2 * m.H);
    turned.f = m.norm_factors[turned.n / m.H];
    turned.angles = m.angles != nullptr ? m.angles + turned.row % m.T * (m.D / 2 * 2) : nullptr;
    return turned.f != 0.0F || m.angles != nullptr;
}

/* Grid (queries and keys, members). */
static __global__ void __launch_bounds__(TURN_THREADS)
    turn(const Member *__restrict__ members, Pass pass, uint32_t block) {
    const Member &m = members[blockIdx.y];
    Turned turned;
    if (block >= m.L || !turned_of(turned, m, pass)) return;
    const Trace &t = m.traces[pass.training ? block : 0];
    float *x = t.qkv + turned.row * 3 * m.HDp + turned.n * m.Dp;
    if (turned.angles != nullptr) rotate(x, turned.angles, m.D / 2, 1.0F);
    if (turned.f == 0.0F) return;
    const float factor = turned.f / sqrtf(dot_of_rows(x, x, m.Dp) + 1e-12F);
    t.norms[turned.row * 2 * m.H + turned.n] = factor;
    for (uint32_t c = 0; c < m.Dp; c++) x[c] = x[c] * factor;
}

static __global__ void __launch_bounds__(TURN_THREADS)
    turn_back(const Member *__restrict__ members, Pass pass, uint32_t block) {
    const Member &m = members[blockIdx.y];
    Turned turned;
    if (block >= m.L || !turned_of(turned, m, pass)) return;
    const Trace &t = m.traces[block];
    const size_t at = turned.row * 3 * m.HDp + turned.n * m.Dp;
    float *dx = t.dqkv + at;
    if (turned.f != 0.0F) {
        const float *y = t.qkv + at;
        const float along = dot_of_rows(y, dx, m.Dp) / (turned.f * turned.f);
        const float factor = t.norms[turned.row * 2 * m.H + turned.n];
        for (uint32_t c = 0; c < m.Dp; c++) dx[c] = __fmaf_rn(-along, y[c], dx[c]) * factor;
    }
    if (turned.angles != nullptr) rotate(dx, turned.angles, m.D / 2, -1.0F);
}

} // namespace sf

using namespace sf;

static dim3 grid_of(const sf_cuda_launch *launch) {
    const uint32_t turned = launch->most_rows * 2 * launch->most_heads;
    return dim3((turned + TURN_THREADS - 1) / TURN_THREADS, launch->members);
}

void sf_cuda_turn(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    launch_kernel(turn, grid_of(launch), TURN_THREADS, 0, launch->stream, launch->fleet, *pass, block);
}

void sf_cuda_turn_back(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block) {
    launch_kernel(turn_back, grid_of(launch), TURN_THREADS, 0, launch->stream, launch->fleet, *pass, block);
}
