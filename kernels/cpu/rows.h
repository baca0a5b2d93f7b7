/* Layers that work row by row: LayerNorm, activation, dropout, sums. Rows are padded with zeros, which stay zero. */
#ifndef SF_KERNELS_CPU_ROWS_H
#define SF_KERNELS_CPU_ROWS_H

#include "base/random.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/plan.h"

#define sf_classify               ISA(sf_classify)
#define sf_classify_each          ISA(sf_classify_each)
#define sf_pack_block             ISA(sf_pack_block)
#define sf_pack_head              ISA(sf_pack_head)
#define sf_rows_norm              ISA(sf_rows_norm)
#define sf_rows_norm_backward     ISA(sf_rows_norm_backward)
#define sf_rows_activate          ISA(sf_rows_activate)
#define sf_rows_activate_backward ISA(sf_rows_activate_backward)
#define sf_rows_drop              ISA(sf_rows_drop)
#define sf_rows_add               ISA(sf_rows_add)
#define sf_rows_sum               ISA(sf_rows_sum)
#define sf_rows_draw              ISA(sf_rows_draw)
#define sf_keep_factors_of        ISA(sf_keep_factors_of)
#define sf_keep_factors_of_row    ISA(sf_keep_factors_of_row)
#define sf_add_scaled             ISA(sf_add_scaled)
#define sf_row_scale              ISA(sf_row_scale)
#define sf_dot                    ISA(sf_dot)
#define sf_softmax_draw           ISA(sf_softmax_draw)
#define sf_softmax_rows           ISA(sf_softmax_rows)
#define sf_softmax_rows_backward  ISA(sf_softmax_rows_backward)

typedef struct sf_drop_mask { /* threshold 0: nothing is dropped */
    uint32_t threshold;
    float scale;
} sf_drop_mask;

/* y = (x - mean) * rstd over the first C columns. */
void sf_rows_norm(float *y /* [R,Cp] */, float *rstd /* [R] */, const float *x /* [R,Cp] */, float epsilon, size_t R,
                  size_t C);
/* dx = (add ? dx : 0) + the gradient through the norm; dx may be dy without add. */
void sf_rows_norm_backward(float *dx /* [R,Cp] */, const float *dy /* [R,Cp] */, const float *y /* [R,Cp] */,
                           const float *rstd /* [R] */, bool add, size_t R, size_t C);

void sf_rows_activate(float *y, const float *z, sf_activation activation, size_t count);
void sf_rows_activate_backward(float *dz /* in: dy */, const float *z, sf_activation activation, size_t count);

/* Which elements of a matrix of `columns` columns dropout keeps, one bit each: backward needs them again. */
void sf_rows_draw(uint64_t *kept /* [R,columns / 64 rounded up] */, sf_drop_mask mask, const sf_index *index,
                  size_t first_row, size_t R, size_t columns);
/* y = (add ? y : 0) + what dropout leaves of x; its own backward. */
void sf_rows_drop(float *y, bool add, const float *x /* [R,padded columns] */, sf_drop_mask mask,
                  const uint64_t *kept /* [R,columns / 64 rounded up] */, size_t R, size_t columns);

void sf_rows_add(float *x, const float *y, size_t count);
/* sums[n] = (add ? sums[n] : 0) + the sum over rows of x[r][n]. */
void sf_rows_sum(float *sums /* [N] */, bool add, const float *x /* [R,N] */, size_t x_row, size_t R, size_t N);

/* Factors (0 or scale) of listed elements of R rows, from first_row on, of a matrix [any,columns]: those of row
 * first_row + r are listed from offsets[r] to offsets[r + 1]. */
void sf_keep_factors_of(float *factors /* [offsets[R]] */, sf_drop_mask mask, const sf_index *index, size_t columns,
                        const size_t *offsets /* [R+1] */, const uint32_t *listed /* [offsets[R]] */, size_t first_row,
                        size_t R);

/* The same for one row whose listed elements ascend and may be many. */
void sf_keep_factors_of_row(float *factors /* [count] */, sf_drop_mask mask, const sf_index *index, size_t columns,
                            const uint32_t *listed /* [count] */, size_t count, size_t row);

float sf_dot(const float *a, const float *b, size_t N);               /* N a multiple of 16 */
void sf_row_scale(float *row, float factor, size_t N);                /* row *= factor, N a multiple of 16 */
void sf_add_scaled(float *y, float factor, const float *x, size_t N); /* y += factor x, N a multiple of 16 */

/* Readout, linear head and loss of sequence n of the job; with a gradient, starts the backward pass: dx. */
void sf_classify(const sf_job *job, size_t n);
/* The same for all sequences of the job under the readout `each`. */
void sf_classify_each(const sf_job *job);
void sf_pack_block(sf_packed_block *packed, const sf_cpu_plan *plan, const float *params, size_t block);
void sf_pack_head(sf_packed_head *packed, const sf_cpu_plan *plan, const float *params);

typedef struct sf_softmax_stats { /* enough to compute a row's weights again */
    float largest, inverse_total;
} sf_softmax_stats;

typedef struct sf_weight_drop { /* dropout of a head's weights */
    sf_drop_mask mask;
    sf_index index;
    size_t draws_per_row;
} sf_weight_drop;

typedef struct sf_softmax_tile { /* of some queries and keys */
    float *at;                   /* weights, `row` floats per query */
    size_t row;
    float *scores; /* may be `at`; `scores_row` floats per query */
    size_t scores_row;
    uint64_t *kept; /* what dropout keeps of their weights, one bit each, `kept_row` words per query */
    size_t kept_row;
    size_t first_query, queries; /* at most SF_QUERY_TILE */
    size_t first_key, keys;      /* first_key is a multiple of 64 */
    bool causal;                 /* keys after a query have weight 0 */
} sf_softmax_tile;

typedef struct sf_softmax_sums {                        /* of the keys seen so far, one number per query */
    float largest[SF_QUERY_TILE], total[SF_QUERY_TILE]; /* -INFINITY and 0 before the first */
    float shrink[SF_QUERY_TILE]; /* rescales the sums over earlier keys to the new largest score */
} sf_softmax_sums;

/* Fills `kept` if anything is dropped; only then do the other functions read it. For a whole tile at once, because a
 * draw is a long chain of steps that would delay the exponentials of a row. */
void sf_softmax_draw(const sf_softmax_tile *tile, const sf_weight_drop *drop);
/* Scores become weights, exp(s - largest so far), not yet divided by their total; then dropout is applied. Padding
 * becomes 0. */
void sf_softmax_rows(const sf_softmax_tile *tile, sf_softmax_sums *sums, sf_drop_mask mask);
/* The tile's scores become weights after dropout. slopes, laid out like the tile: gradients of those weights in, those
 * of the scores times `scale` out. `means` are the weighted means of the weights' gradients over all keys, one number
 * per query, like stats. */
void sf_softmax_rows_backward(const sf_softmax_tile *tile, float *slopes, const sf_softmax_stats *stats,
                              const float *means, float scale, sf_drop_mask mask);

#endif
