/* Attention of one block over a group of sequences. */
#ifndef SF_KERNELS_CPU_ATTENTION_H
#define SF_KERNELS_CPU_ATTENTION_H

#include <stdatomic.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/plan.h"
#include "kernels/cpu/rows.h"

#define sf_dense_forward          ISA(sf_dense_forward)
#define sf_dense_backward         ISA(sf_dense_backward)
#define sf_scaled_keys            ISA(sf_scaled_keys)
#define sf_share_queries          ISA(sf_share_queries)
#define sf_prepare_selection      ISA(sf_prepare_selection)
#define sf_score_for_all          ISA(sf_score_for_all)
#define sf_turn                   ISA(sf_turn)
#define sf_turn_backward          ISA(sf_turn_backward)
#define sf_rowwise_forward        ISA(sf_rowwise_forward)
#define sf_rowwise_backward       ISA(sf_rowwise_backward)
#define sf_rowwise_open           ISA(sf_rowwise_open)
#define sf_rowwise_keep           ISA(sf_rowwise_keep)
#define sf_row_select             ISA(sf_row_select)
#define sf_row_factors            ISA(sf_row_factors)
#define sf_row_score              ISA(sf_row_score)
#define sf_row_scores_backward    ISA(sf_row_scores_backward)
#define sf_blocks_forward         ISA(sf_blocks_forward)
#define sf_blocks_backward        ISA(sf_blocks_backward)
#define sf_lists_score            ISA(sf_lists_score)
#define sf_lists_mix              ISA(sf_lists_mix)
#define sf_lists_slopes           ISA(sf_lists_slopes)
#define sf_lists_queries_backward ISA(sf_lists_queries_backward)
#define sf_lists_keys_backward    ISA(sf_lists_keys_backward)
#define sf_score_tile             ISA(sf_score_tile)
#define sf_matrix_forward         ISA(sf_matrix_forward)
#define sf_matrix_backward        ISA(sf_matrix_backward)
#define sf_matrix_list            ISA(sf_matrix_list)
#define sf_matrix_mix             ISA(sf_matrix_mix)
#define sf_matrix_slopes          ISA(sf_matrix_slopes)
#define sf_matrix_finish          ISA(sf_matrix_finish)
#define sf_factored_forward       ISA(sf_factored_forward)
#define sf_factored_backward      ISA(sf_factored_backward)
#define sf_lone_forward           ISA(sf_lone_forward)
#define sf_lone_backward          ISA(sf_lone_backward)
#define sf_kept_forward           ISA(sf_kept_forward)
#define sf_kept_clear             ISA(sf_kept_clear)
#define sf_kept_backward          ISA(sf_kept_backward)

/* One head of one sequence: where its rows lie and the addresses of its random numbers. */
typedef struct sf_head {
    const sf_job *job;
    size_t first_query, queries; /* that are computed; the dense kernel computes all */
    const sf_trace *trace;
    size_t stride;         /* of q, k, v rows: 3 * H * Dp */
    size_t context_stride; /* H * Dp */
    size_t block, slot;    /* slot: sequence * H + head */
    const float *q, *k, *v;
    float *context;
    float *dq, *dk, *dv; /* backward */
    const float *dcontext;
    sf_weight_drop drop;
    sf_index key_index;
    bool saved;                 /* thresholds of an earlier pass are there */
    const sf_head_state *state; /* for selectors that use vectors or prepare() */
    atomic_size_t *turns;       /* of parts that add to dk and dv; NULL: nobody else does */
    size_t part;                /* the number of this one */
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

/* Fills in `state` for selectors that use vectors or prepare(). Called before the queries are shared: helpers read what
 * the owner of the head prepared. */
void sf_prepare_selection(sf_head_state *state, const sf_head *head);
/* In a joint pass: the scores that a selector looks at for the whole batch. */
void sf_score_for_all(const sf_head *head);

/* The same for mechanisms that may keep any number of keys: rows are computed again in the backward pass, so that
 * nothing of the size of T x T is stored. They add to dk and dv, like the kept kernel. */
void sf_rowwise_forward(const sf_head *head);
void sf_rowwise_backward(const sf_head *head);
/* What all queries of a head need, and the keys that one of them keeps; returns their number. */
typedef struct sf_opened_head {
    sf_head head;
    sf_head_state state;
    sf_right keys_t;
} sf_opened_head;
void sf_rowwise_open(sf_opened_head *out, const sf_head *head);
size_t sf_rowwise_keep(uint32_t *kept /* [2T] */, const sf_opened_head *opened, size_t query);
/* The rowwise kernel of blocktopk, where the plan says so. */
void sf_blocks_forward(const sf_opened_head *opened);
void sf_blocks_backward(const sf_head *head);
/* For weightings over the whole matrix. */
void sf_matrix_forward(const sf_head *head);
void sf_matrix_backward(const sf_head *head);
/* Their parts, between which a joint pass calls the weighting for the whole batch: kept keys and scores; contexts from
 * the weights; backward, gradients of the weights; and from those of the scores the rest. */
void sf_matrix_list(const sf_head *head);
void sf_matrix_mix(const sf_head *head);
void sf_matrix_slopes(const sf_head *head);
void sf_matrix_finish(const sf_head *head);
/* For fastmax with every key kept and no dropout: linear in T. Overwrites dk and dv. */
void sf_factored_forward(const sf_head *head);
void sf_factored_backward(const sf_head *head);

typedef struct sf_attention_kernels {
    void (*forward)(const sf_head *head), (*backward)(const sf_head *head);
} sf_attention_kernels;

static inline sf_attention_kernels sf_attention_kernels_of(const sf_cpu_plan *plan, bool drops_weights) {
    if (plan->dense) return (sf_attention_kernels){sf_dense_forward, sf_dense_backward};
    if (plan->slices != NULL && !drops_weights)
        return (sf_attention_kernels){sf_factored_forward, sf_factored_backward};
    if (plan->matrix) return (sf_attention_kernels){sf_matrix_forward, sf_matrix_backward};
    if (plan->rowwise) return (sf_attention_kernels){sf_rowwise_forward, sf_rowwise_backward};
    return (sf_attention_kernels){sf_kept_forward, sf_kept_backward};
}

/* Attention of a head between plain arrays, without the rest of a model. */
void sf_lone_forward(const sf_lone_head *lone);
void sf_lone_backward(const sf_lone_head *lone);

/* One query of the kernels above. */
typedef struct sf_row {
    size_t query, count;
    uint32_t *keys;   /* [count], with room for 2T while they are chosen; rows of a group have the same list, */
    bool adds_own;    /* to which the query's own key is added, */
    size_t own;       /* in this place: `keys` lists one key less */
    float *scores;    /* [count]: of the kept keys, after the score transforms */
    float *weights;   /* [count]; under softmax the place of the scores */
    float *factors;   /* [count]: of dropout; NULL: no dropout */
    float *slopes;    /* [count]: gradients of the weights, then of the scores */
    float *raw;       /* [count]: scores before the transforms */
    double *exact;    /* [count]: weights, if the weighting is not softmax */
    const float *all; /* [visible]: scores of all visible keys after the transforms; NULL: not computed */
} sf_row;

/* Scores of up to SF_QUERY_TILE queries with all keys, before the score transforms, to the worker's tile. */
void sf_score_tile(const sf_head *head, sf_right keys_t, size_t first, size_t queries);
/* The kept keys, and their scores if they are known. `raw`: the query's row of the tile; NULL: sf_row_score() computes
 * those of the kept keys. */
void sf_row_select(sf_row *row, const sf_head *head, const float *raw);
void sf_row_score(sf_row *row, const sf_head *head);
void sf_row_factors(sf_row *row, const sf_head *head);
/* Slopes: through the score transforms, and times the scale of the scores. `raw`: scores before the transforms, of the
 * listed keys. */
void sf_row_scores_backward(const sf_row *row, const sf_head *head, const float *raw);

/* How many keys a row's list has without the query's own. */
static inline size_t sf_row_listed(const sf_row *row) {
    return row->count - row->adds_own;
}

/* Products of up to SF_LIST_TILE queries with the keys and values that they list (attention_lists.c). The queries
 * follow each other, in any order; those of a group are side by side. Scores; the context from the weights; the
 * gradients of the weights, with the factors of dropout; dq, dk and dv from the slopes of the rows `through` and the
 * weights of `rows`. The last waits for the head's turns. */
void sf_lists_score(const sf_row *rows, size_t count, const sf_head *head);
void sf_lists_mix(const sf_row *rows, size_t count, const sf_head *head);
void sf_lists_slopes(const sf_row *rows, size_t count, const sf_head *head);
void sf_lists_queries_backward(const sf_row *rows, size_t count, const sf_head *head);
void sf_lists_keys_backward(const sf_row *rows, const sf_row *through, size_t count, const sf_head *head);

/* Turns queries and keys of some rows in place, as the transforms of queries and keys say, and back. */
void sf_turn(float *qkv /* [R,3,H,Dp] */, float *norms /* [R,2,H] */, const sf_cpu_plan *plan, size_t first_row,
             size_t R);
void sf_turn_backward(float *dqkv /* [R,3,H,Dp] */, const float *qkv, const float *norms, const sf_cpu_plan *plan,
                      size_t first_row, size_t R);

#endif
