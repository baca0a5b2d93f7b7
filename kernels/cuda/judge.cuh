/* Cross-entropy of one sequence, in double. */
#ifndef SF_KERNELS_CUDA_JUDGE_CUH
#define SF_KERNELS_CUDA_JUDGE_CUH

#include "kernels/cuda/fleet.cuh"

namespace sf {

/* Sequence n of the pass: its logits, in m.slopes, become their gradients. One thread. */
__device__ inline void judge(const Member &m, const Pass &pass, uint32_t n) {
    double *logits = m.slopes + (size_t)n * m.classes;
    const int32_t label = m.splits[pass.split].labels[sequence_at(m, pass, n)];
    double largest = logits[0], total = 0;
    uint32_t guess = 0;
    for (uint32_t i = 1; i < m.classes; i++)
        if (logits[i] > largest) {
            largest = logits[i];
            guess = i;
        }
    const double target = logits[label];
    for (uint32_t i = 0; i < m.classes; i++) total += logits[i] = exp_of_double(logits[i] - largest);
    for (uint32_t i = 0; i < m.classes; i++) logits[i] /= total;
    logits[label] -= 1.0;
    m.correct[n] = guess == (uint32_t)label;
    m.losses[n] = log_of_double(total) + largest - target;
    const double scale = 1.0 / (double)sequences_of(m, pass);
    for (uint32_t i = 0; i < m.classes && pass.training; i++) logits[i] = logits[i] * scale;
}

} // namespace sf

#endif
