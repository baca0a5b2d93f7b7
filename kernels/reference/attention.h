/* Attention of a block in double, one sequence: any mechanism, as plainly as possible. */
#ifndef SF_KERNELS_REFERENCE_ATTENTION_H
#define SF_KERNELS_REFERENCE_ATTENTION_H

#include "kernels/reference/layers.h"

typedef struct sf_ref_block {    /* what the backward pass needs of a block's forward pass */
    double *input;               /* [T,C] */
    double *normed1, *rstd1;     /* [T,C], [T]: the attention norm */
    double *q, *k, *v;           /* [T,H,D] */
    double *turned_q, *turned_k; /* [T,H,D]: after the transforms of queries and keys */
    double *plain_scores;        /* [H,T,T]: before the score transforms */
    double *scores;              /* [H,T,T] */
    bool *kept;                  /* [H,T,T] */
    double *weights;             /* [H,T,T], 0 where not kept, before dropout */
    double *context;             /* [T,H,D] */
    double *normed2, *rstd2;     /* [T,C], [T]: the MLP norm */
    double *hidden;              /* [T,F], after dropout, before the activation */
    double *active;              /* [T,F] */
} sf_ref_block;

typedef struct sf_ref_attention { /* gradients, and room for one head */
    double *dq, *dk, *dv;         /* [T,H,D] */
    double *dcontext;             /* [T,H,D] */
    double *dscores;              /* [T,T] */
    double *packed[4];            /* [T*T]: scores, weights and their gradients of the kept keys of all queries */
    double *steps;                /* [score steps + 1,T]: scores of one query before and after each transform */
    double *turning;              /* [SF_MOST_TRANSFORMS+2,D] */
    double *matrix_scratch;       /* of a weighting over the whole matrix */
    size_t *offsets;              /* [T+1] */
    uint32_t *keys;               /* [T*T+T] */
    unsigned char *scratch;       /* of the selector */
} sf_ref_attention;

typedef struct sf_ref_location { /* where in the computation: the addresses of dropout and random keys */
    const sf_moment *moment;
    size_t sample, block;
    double rate; /* of dropout, 0 in evaluation */
} sf_ref_location;

static inline sf_index sf_ref_index_at(const sf_ref_location *at, sf_purpose purpose, size_t head) {
    return sf_moment_index(at->moment, purpose, at->block, head, at->sample);
}

void sf_ref_block_lay_out(sf_ref_block *block, sf_arena *arena, const sf_shape *shape);
void sf_ref_attention_lay_out(sf_ref_attention *a, sf_arena *arena, const sf_shape *shape);

/* From q, k and v to the context. `given`: the kept keys of all sequences and blocks, [B,L,H,T,T]; NULL: as the
 * mechanism chooses. */
void sf_ref_attend(sf_ref_attention *a, sf_ref_block *b, const sf_shape *shape, const sf_ref_location *at,
                   const bool *given);
/* From dcontext to dq, dk and dv. */
void sf_ref_attend_backward(sf_ref_attention *a, const sf_ref_block *b, const sf_shape *shape,
                            const sf_ref_location *at);

#endif
