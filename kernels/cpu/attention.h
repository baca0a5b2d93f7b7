/* Attention of one block over a group of sequences. */
#ifndef SF_KERNELS_CPU_ATTENTION_H
#define SF_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/plan.h"
#include "kernels/cpu/rows.h"

#define sf_dense_forward  ISA(sf_dense_forward)
#define sf_dense_backward ISA(sf_dense_backward)
#define sf_scaled_keys    ISA(sf_scaled_keys)
#define sf_share_queries  ISA(sf_share_queries)
#define sf_kept_forward   ISA(sf_kept_forward)
#define sf_kept_clear     ISA(sf_kept_clear)
#define sf_kept_backward  ISA(sf_kept_backward)

/* One head of one sequence: where its rows lie and the addresses of its random numbers. */
typedef struct sf_head {
    const sf_job *job;
    size_t first_query, queries; /* that are computed; the dense kernel computes all */
    const sf_trace *trace;
    size_t stride;         /* of q, k, v rows: 3 * H * Cp */
    size_t context_stride; /* H * Cp */
    size_t block, slot;    /* slot: sequence * H + head */
    const float *q, *k, *v;
    float *context;
    float *dq, *dk, *dv; /* backward */
    const float *dcontext;
    sf_weight_drop drop;
    sf_index key_index;
    const sf_head_state *state; /* for selectors that use vectors or prepare() */
} sf_head;

/* score_scale * k, transposed: the right factor in scores = queries times keys. */
sf_right sf_scaled_keys(const sf_head *head);

/* Offers the head's queries to other workers, one part per tile of queries. */
void sf_share_queries(const sf_head *head, const void *task, sf_take_parts *take_parts);

/* context = weights(q, k) v;  backward fills dq, dk, dv from dcontext. The kept kernel adds to dk and dv, which must be
 * cleared before. */
void sf_dense_forward(const sf_head *head);
void sf_dense_backward(const sf_head *head);
void sf_kept_forward(const sf_head *head);
void sf_kept_clear(const sf_head *head, size_t first_key, size_t keys);
void sf_kept_backward(const sf_head *head);

#endif
