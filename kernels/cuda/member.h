/* A model of a fleet as the kernels see it, in device memory. Dimension letters as in model/model.h. */
#ifndef SF_KERNELS_CUDA_MEMBER_H
#define SF_KERNELS_CUDA_MEMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <vector_types.h>

enum { SF_CUDA_CHUNKS = 8, SF_CUDA_STRETCH = 1024, SF_CUDA_BLOCK_PARAMS = 12 };
/* Widths and heads up to which models have kernels on tensor cores of their own; 16-byte chunks of a packed 64 x 64
 * matrix, at most. */
enum { SF_CUDA_NARROW = 64, SF_CUDA_HEADS = 16, SF_CUDA_PACKED = 1024 };
enum { SF_CUDA_TENSOR_SHARED = 160 * 1024 }; /* what these kernels need of a block's shared memory */

/* Memory of the kernels for whole sequences (whole.cuh), in floats: of one layer, and besides the layers, per chunk. */
enum {
    SF_CUDA_WHOLE_ROWS = 128,
    SF_CUDA_WHOLE_WIDTH = 64,
    SF_CUDA_WHOLE_LENGTH = 64,
    SF_CUDA_WHOLE_VOCABULARY = 128,
    SF_CUDA_WHOLE_TILE = SF_CUDA_WHOLE_ROWS * SF_CUDA_WHOLE_WIDTH,
    SF_CUDA_WHOLE_MATRIX = SF_CUDA_WHOLE_WIDTH * SF_CUDA_WHOLE_WIDTH,
    SF_CUDA_WHOLE_WEIGHT = SF_CUDA_WHOLE_MATRIX + SF_CUDA_WHOLE_WIDTH, /* with its bias */
    SF_CUDA_WHOLE_LAYER = 8 * SF_CUDA_WHOLE_TILE + 14 * SF_CUDA_WHOLE_ROWS + SF_CUDA_WHOLE_MATRIX,
    SF_CUDA_WHOLE_SCRATCH = 5 * SF_CUDA_WHOLE_TILE + 2 * SF_CUDA_WHOLE_ROWS
};

enum { SF_CUDA_MEAN, SF_CUDA_LAST, SF_CUDA_CLS, SF_CUDA_EACH }; /* readouts, as sf_readout */
enum {
    SF_CUDA_DENSE,
    SF_CUDA_BY_PARTS, /* as sf_cuda_parts says, by the generic kernels */
    SF_CUDA_BY_PATTERN,
    SF_CUDA_BY_LARGEST,
    SF_CUDA_BY_SMALLEST,
    SF_CUDA_BY_CHANCE
};

/* Parts of a mechanism that the generic kernels know. */
enum {
    SF_CUDA_FULL,
    SF_CUDA_PATTERN,
    SF_CUDA_TOPK,
    SF_CUDA_BOTTOMK,
    SF_CUDA_RANDOM,
    SF_CUDA_TOPP,
    SF_CUDA_WITHIN,
    SF_CUDA_BLOCKTOPK,
    SF_CUDA_KMEANS,
    SF_CUDA_LSH,
    SF_CUDA_SINK,
    SF_CUDA_WINDOW
};
enum {
    SF_CUDA_SOFTMAX,
    SF_CUDA_SOFTMAX1,
    SF_CUDA_SIGMOID,
    SF_CUDA_SOFTPLUS,
    SF_CUDA_ENTMAX, /* sparsemax and entmax15, too */
    SF_CUDA_FASTMAX,
    SF_CUDA_DOUBLY /* over the whole matrix: units are those of whole heads */
};
enum { SF_CUDA_NO_FEATURE, SF_CUDA_ONE, SF_CUDA_CHANNEL, SF_CUDA_PRODUCT }; /* of fastmax */
enum { SF_CUDA_ALIBI, SF_CUDA_SOFTCAP, SF_CUDA_LOGN };
enum { SF_CUDA_MOST_PARTS = 6, SF_CUDA_UNIT = 64 }; /* extras or transforms; queries whose rows are held side by side */

typedef struct sf_cuda_transform {
    uint32_t what;
    double argument;
} sf_cuda_transform;

/* A mechanism of the generic kernels, and their memory: that of `units` units, which are all queries, or are taken in
 * rounds. Element n of query q of a unit is at [n][q]. */
typedef struct sf_cuda_parts {
    uint32_t selector, k, globals;
    double arguments[2];
    uint32_t extras[SF_CUDA_MOST_PARTS], extra_k[SF_CUDA_MOST_PARTS], extra_count;
    uint32_t weighting;
    double weighting_argument;
    sf_cuda_transform transforms[SF_CUDA_MOST_PARTS]; /* of scores */
    uint32_t steps;                                   /* how many of these */
    bool scores_all;                                  /* before it selects */
    bool rounds_weights;                              /* to float, before the backward pass of the weighting */
    bool straight_through;
    uint32_t most_kept, units;
    uint32_t *counts;              /* [units,UNIT]: kept keys */
    uint32_t *keys;                /* [units,most_kept,UNIT], as the next three */
    float *scores, *weights, *raw; /* before and after weighting (the same under softmax); before the transforms */
    double *exact, *wide;          /* weights, and their gradients, under other weightings */
    float *slopes;                 /* [units,most_kept or T,UNIT] */
    float *all_raw, *all;          /* [units,T,UNIT]: of all keys, before and after the transforms */
    double *gates;                 /* [units,blocks,UNIT], blocktopk */
    double *vectors;               /* [sequences,H,vectors_size]: what selectors by vectors prepare; NULL: others */
    double *potentials;            /* [heads of a round,(2 rounds + 1),T], doubly */
    uint32_t *groups;              /* [sequences,H,2,assignments,T] */
    size_t vectors_size, groups_size, blocks;
    uint32_t *bits, *own, *heap; /* [units,words,UNIT] twice, [units,T,UNIT]: while keys are selected */
    /* fastmax in time linear in T, where no weight is dropped; features 0: never */
    uint32_t features, slices, factored_heads;       /* held at a time */
    const uint32_t *codes, *run_begins, *slice_ends; /* [features], [D+1], [slices] (factored.c) */
    float *sums;                                     /* [factored_heads], see parts_factored.cu */
} sf_cuda_parts;

/* What only feeds products lies as products take it where they are computed on tensor cores: rounded, as bf16 if that
 * is the precision. Bits of dropout lie in another order there (kernels/cuda/tensor.cuh). */
typedef struct sf_cuda_trace {                            /* of one block; R = capacity rows of all sequences */
    float *input;                                         /* [R,Cp], where the norm comes after, or on tensor cores */
    float *mean1;                                         /* [R], on tensor cores */
    float *normed1, *rstd1;                               /* [R,Cp], [R] */
    float *qkv;                                           /* [R,3 HDp] */
    float2 *stats;                                        /* [sequences,H,T]: largest score, 1 / total; dense only */
    uint32_t *kept_weights;                               /* [sequences,H,T/16,T/64,32], dense on tensor cores */
    uint32_t *keys;                                       /* [sequences,H,T,K], chosen while training */
    uint32_t *key_offsets, *key_places;                   /* [sequences,H,T+1], [sequences,H,kept]: who chose a key */
    float *weights, *factors;                             /* [sequences,H,kept]: of the kept keys */
    float *dscores;                                       /* [sequences,H,kept] */
    float *norms;                                         /* [R,2,H]: what @qknorm multiplied by */
    float *context;                                       /* [R,HDp] */
    float *normed2, *rstd2;                               /* [R,Cp], [R] */
    float *hidden;                                        /* [R,Fp] */
    uint64_t *kept_attention, *kept_hidden, *kept_mlp;    /* [R,words] */
    float *dmlp, *dhidden, *dattention, *dqkv, *dcontext; /* gradients of what the linear layers give */
} sf_cuda_trace;

typedef struct sf_cuda_rates { /* of one step */
    float lr;                  /* sgd */
    float rate, widen, keep;   /* adam, adamw */
} sf_cuda_rates;

typedef struct sf_cuda_split {
    const int32_t *tokens;    /* [count,T], padding and global tokens included */
    const int32_t *labels;    /* [count], or [count,T] under the readout `each`; below 0: none */
    const uint32_t *last;     /* [count]: the position that is read; the readout `last` alone */
    const uint32_t *labelled; /* [count]: how many labels a sequence has; the readout `each` alone */
    uint32_t count;
} sf_cuda_split;

typedef struct sf_cuda_member {
    /* shape */
    uint32_t V, T, C, Cp, F, Fp, H, D, Dp, HDp, L, classes, size;
    uint32_t activation, readout; /* SF_CUDA_MEAN .. */
    bool tied;                    /* head_weight is embedding */
    bool pre_norm;
    bool on_tensor_cores; /* its products, in kernels of their own */
    float score_scale, embedding_scale;
    uint32_t embedding, block_params[SF_CUDA_BLOCK_PARAMS], block_size, blocks, head_weight, head_bias; /* offsets */
    /* attention */
    uint32_t selection;      /* SF_CUDA_DENSE .. */
    bool causal;             /* a query sees the keys up to its own position */
    uint32_t K;              /* kept keys per query where they are chosen during forward */
    uint32_t kept;           /* of all T queries of a head */
    const uint32_t *offsets; /* [T+1] */
    const uint32_t *pattern; /* [kept], BY_PATTERN */
    const uint32_t *key_offsets, *key_queries, *key_places; /* [T+1], [kept]: who keeps a key, and where in its row */
    sf_cuda_parts parts;                                    /* BY_PARTS */
    const float *angles;                                    /* [T,2,D/2]: cosines and sines of @rope; NULL: none */
    uint32_t angles_count;
    float norm_factors[2];  /* of queries and keys, @qknorm; 0: none */
    const float *positions; /* [T,Cp] */
    const float *noise;     /* [R,Cp], added to the embedded tokens; NULL: none */
    /* training */
    uint32_t seed, batch, sequences; /* sequences: how many the workspace holds */
    uint32_t threshold;              /* of dropout, 0: none */
    float keep_scale;
    uint32_t optimizer; /* 0 sgd, 1 adam, 2 adamw */
    float momentum, weight_decay, beta1, beta2, epsilon, fresh1, fresh2;
    double clip;
    sf_cuda_split splits[2];       /* training, held out */
    const uint32_t *order;         /* [training count] */
    const sf_cuda_rates *schedule; /* [steps] */
    /* state */
    float *params, *moments[2];
    uint4 *packed;           /* weights as products on tensor cores take them */
    float *gradient;         /* [size]: the sum of the chunks' */
    float *chunks;           /* [chunks,size] */
    double *squares;         /* [stretches] */
    double *losses;          /* [sequences] */
    uint32_t *correct;       /* [sequences] */
    double *pooled, *slopes; /* [sequences,C], [sequences,classes] */
    float *logits;        /* [sequences,classes]; readout `each`: [T,classes] of one sequence, if it only evaluates */
    double *row_losses;   /* [R], readout `each`, as the next two */
    float4 *row_slopes;   /* [R]: what turns logits into their gradients (kernels/cuda/each.cuh) */
    uint8_t *row_correct; /* [R] */
    uint32_t labelled;    /* labels of the batch under way, readout `each` */
    float *x, *dx;        /* [R,Cp] */
    uint64_t *kept_embedding;
    sf_cuda_trace *traces; /* [L] */
    uint32_t epoch, step;  /* the step under way, from 0 */
    bool updates;          /* the step under way ends with an update: */
    float clipping;
    sf_cuda_rates now;
    uint32_t diverged_step;    /* from 1; 0: not */
    double sums[2], batch_sum; /* losses and */
    uint32_t right[2];         /* right answers of the evaluation, by split */
    bool active;
    bool is_whole;                    /* the kernels for whole sequences serve it */
    float *whole;                     /* their memory: [chunks][L layers and scratch] */
    float *arranged;                  /* [L,6,2,WEIGHT]: weights as their products take them */
    const uint64_t *pattern_masks;    /* [T], BY_PATTERN: bits of the keys that each query keeps */
    const volatile uint32_t *stopped; /* not 0: nothing more is to be computed */
} sf_cuda_member;

/* What a launch works on. */
typedef struct sf_cuda_pass {
    bool training;         /* keeps what the backward pass needs */
    bool evaluation_keys;  /* training: random keys are those of an evaluation */
    uint32_t split, first; /* evaluation: sequences from `first` on */
    uint32_t at_once;      /* evaluation: how many */
    uint32_t epoch, step;  /* of its random numbers; training adds the member's own */
    uint32_t first_sample; /* of its random numbers: the number of the first sequence */
    uint32_t skipped;      /* training: bit c: chunk c of the batch is computed elsewhere, or in another pass */
    bool summed;           /* training: the sum of the chunks is there, and the losses are judged elsewhere */
} sf_cuda_pass;

#endif
