/* Launches of every kernel, in the order of a step: rows forward and attention in turn, head, rows backward and
 * attention in turn, gradients, update. */
#ifndef SF_KERNELS_CUDA_LAUNCH_H
#define SF_KERNELS_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "kernels/cuda/member.h"
#include "semfocus/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sf_cuda_launch {
    sf_cuda_member *fleet; /* [members], in device memory */
    uint32_t members;
    uint32_t most_rows, most_sequences, most_heads, most_length, most_blocks, most_size, most_width, most_chosen;
    size_t rows_shared;
    bool dense, kept;       /* whether any member's attention is of this kind */
    bool whole;             /* all members' sequences are taken whole */
    uint32_t whole_classes; /* bit sf_cuda_whole_class(T) of every member */
    uint32_t most_groups;   /* of sequences that an evaluation takes together */
    bool placed;            /* whether any keeps keys by their position or by chance */
    bool paper;             /* all have width and MLP width 64 and one head */
    bool on_tensor_cores;   /* tensor_launch.h has their kernels */
    bool reads;             /* any has another readout than the mean */
    bool each, tied;        /* any has the readout `each`, or tied weights */
    bool listed;            /* any causal one chooses keys by score or by chance */
    bool turns, parts;      /* any turns queries and keys, or has a mechanism of the generic kernels */
    bool matrix;            /* any of these weighs the whole matrix */
    bool prepared;          /* any of these has a selector by vectors */
    uint32_t most_units, most_rounds, most_key_tiles;       /* of these */
    uint32_t most_features, most_factored, factored_rounds; /* of fastmax in linear time; 0: none */
    uint32_t most_channels, most_classes, most_tokens;
    uint32_t processors;
    size_t shared_most;     /* shared memory of a block of threads, at most */
    sf_precision precision; /* of products */
    cudaStream_t stream;
} sf_cuda_launch;

size_t sf_cuda_rows_shared(uint32_t Cp, uint32_t Fp);
cudaError_t sf_cuda_prepare_rows(size_t shared);
cudaError_t sf_cuda_prepare_dense(void);
cudaError_t sf_cuda_prepare_kept(void);

/* Forward and backward pass of a step, or forward pass of an evaluation, of members whose sequences are taken whole. */
void sf_cuda_whole(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
void sf_cuda_arrange(const sf_cuda_launch *launch);
int sf_cuda_whole_class(uint32_t T);
cudaError_t sf_cuda_prepare_whole(void);

void sf_cuda_rows_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_rows_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_dense_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_dense_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_kept_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
/* Before the backward pass: who chose each key, in all blocks. */
void sf_cuda_list_queries(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
void sf_cuda_kept_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
/* @rope and @qknorm: after the projections of a block, and before their backward pass. */
void sf_cuda_turn(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_turn_back(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_prepare_parts(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_factored_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_factored_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_matrix_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block, uint32_t round);
void sf_cuda_matrix_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block, uint32_t round);
void sf_cuda_parts_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_parts_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t block);
void sf_cuda_head(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
/* The readout `each`: after the other heads; logits of sequence n of a pass; after the step was judged. */
void sf_cuda_head_each(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
void sf_cuda_logits_each(const sf_cuda_launch *launch, const sf_cuda_pass *pass, uint32_t n);
void sf_cuda_withhold(const sf_cuda_launch *launch);
cudaError_t sf_cuda_prepare_each(uint32_t channels);
/* For it and for tied weights, after the gradients of the others. */
void sf_cuda_head_part_gradients(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
void sf_cuda_tally(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
void sf_cuda_gradients(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
void sf_cuda_update(const sf_cuda_launch *launch, const sf_cuda_pass *pass);

typedef struct sf_cuda_stretches { /* the same stretch of chunks' gradients, in device memory */
    const float *at[SF_CUDA_CHUNKS];
    uint32_t count;
} sf_cuda_stretches;
void sf_cuda_add_parts(cudaStream_t stream, float *sum /* [width] */, const sf_cuda_stretches *parts, uint32_t width);

#ifdef __cplusplus
}
#endif

#endif
