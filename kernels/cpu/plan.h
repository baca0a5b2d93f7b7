/* Shapes and memory of the CPU path, shared by the copies for each instruction set and by their callers. */
#ifndef SF_KERNELS_CPU_PLAN_H
#define SF_KERNELS_CPU_PLAN_H

#include "base/random.h"
#include "base/sizes.h"
#include "base/stop.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/offer.h"
#include "kernels/cpu/operand.h"

enum {
    SF_QUERY_TILE = 96, /* queries whose scores are held at once: no T x T matrix anywhere */
    SF_KEY_TILE = 128,  /* keys of a tile of the dense kernel */
    SF_DRAWN_KEYS =
        1024, /* first keys of a query, for which the dense kernel stores the dropout mask: 128 bytes at most */
    SF_SCORED_KEYS = 640, /* the dense kernel keeps the scores of sequences up to here for the backward pass */
    SF_GROUP_ROWS =
        128, /* a group is as many sequences as fit in these rows, at least one; layers take as many at a time */
    SF_FAST_TOPK_MOST = 32, /* larger k go through the generic selection */
    SF_LIST_TILE = 512      /* most queries of the rowwise kernel whose lists of kept keys are held at once */
};

typedef struct sf_rows { /* padded widths and rows of the model */
    size_t Cp, Fp, Tp;   /* C, F, T rounded up to 16 */
    size_t Dp;           /* D likewise */
    size_t HDp;          /* H * Dp: one of q, k, v */
} sf_rows;

typedef struct sf_packed_weight { /* in the layout of a right factor */
    sf_right at;
    float *transposed; /* forward only */
    float *room;       /* for its prepared form */
} sf_packed_weight;

typedef struct sf_packed_block { /* a block's weights as its products read them */
    sf_packed_weight qkv;        /* [Cp,3,H,Dp]: forward, as the next three */
    sf_packed_weight o;          /* [H,Dp,Cp] */
    sf_packed_weight w1;         /* [Cp,Fp] */
    sf_packed_weight w2;         /* [Fp,Cp] */
    float *qkv_bias;             /* [3,H,Dp] */
    sf_packed_weight *back;      /* [SF_BLOCK_WEIGHTS,H]: backward, a group of outputs each */
} sf_packed_block;

typedef struct sf_packed_head { /* of the readout `each` */
    sf_packed_weight across;    /* [Cp,classes padded]: forward */
    sf_packed_weight back;      /* [classes,Cp] */
} sf_packed_head;

typedef struct sf_reach { /* of the queries of a stretch of rows */
    size_t ahead;         /* rows from here on are after these queries, and kept neither by them nor by earlier ones */
    size_t behind;        /* keys before this one are kept neither by them nor by later ones */
} sf_reach;

typedef struct sf_feature_slice { /* of the features of a query or key for fastmax */
    size_t first, end; /* runs: 0 is 1 and the channels, c the products of channel c-1 with those from it on */
    size_t at, width;  /* where they begin, and how many, both multiples of 16 */
} sf_feature_slice;

struct sf_cpu_plan {
    const sf_model *model;
    const struct sf_cpu_kernels *kernels;
    sf_rows rows;
    size_t group;                 /* sequences in a group */
    bool dense;                   /* every key kept under softmax: the dense kernel */
    bool rowwise;                 /* any number of keys kept: rows are computed again in the backward pass */
    size_t block_width, block_m;  /* of blocktopk where its own kernel computes it; 0 elsewhere */
    bool grouped;                 /* the rowwise kernel computes queries that keep the same keys together */
    bool matrix;                  /* a weighting over the whole matrix */
    bool joint;                   /* a part is called once for all sequences of a batch: joint passes */
    bool scores_all;              /* queries are scored with all keys, a tile at a time; not set for the dense kernel */
    sf_pattern pattern;           /* what the kept kernel walks */
    sf_reach *reach;              /* [stretches of a sequence], of a fixed pattern; NULL: any query may reach any key */
    float *positions;             /* [T,Cp] */
    float score_scale;            /* inverse temperature / sqrt(D) */
    sf_feature_slice *slices;     /* [slice_count]: of the linear kernel of fastmax; NULL: not used */
    size_t slice_count, features; /* features: of all slices, with padding */
    float *angles;                /* [T,2,D/2]: cosines and sines of rope; NULL: queries and keys are not rotated */
    float norm_factors[2]; /* what qknorm multiplies normalized queries and keys by; 0: they are not normalized */
    uint32_t *every;       /* [T]: 0, 1, 2, ... */
    float embedding_scale;
};

typedef struct sf_threshold { /* the least kept score of a query, and the last key that has it */
    float score;
    uint32_t key;
} sf_threshold;

/* Whether the kept keys of every query are those above a threshold. */
static inline bool sf_saves_threshold(const sf_attention *attention) {
    return (attention->selector == &sf_selector_topp || attention->selector == &sf_selector_within) &&
           !sf_attention_has_extras(attention) && attention->globals == 0;
}

typedef struct sf_trace { /* what the backward pass needs of a block, for a group of R = group * T rows */
    float *input;         /* [R,Cp], post-norm only */
    float *normed1, *rstd1;
    float *qkv;               /* [R,3,H,Dp] */
    float *stats;             /* [group,H,T,2]: dense kernel */
    uint64_t *drawn;          /* [group,H,T,sf_drawn_words]: dense kernel, which weights dropout keeps */
    float *scores;            /* [group,H,T,sf_scored_row]: dense kernel */
    float *weights;           /* [group,H,kept]: kept kernel */
    float *factors;           /* [group,H,kept]: of dropout on the weights */
    double *kept_scores;      /* [group,H,kept]: kept kernel with a weighting other than softmax */
    uint32_t *keys;           /* [group,H,kept]: kept kernel, selected during forward */
    uint32_t *counts;         /* [group,H,T]: how many, where that varies; else NULL */
    sf_threshold *thresholds; /* [group,H,T]: rowwise kernel, selectors that keep the scores above one; else NULL */
    uint32_t *blocks;         /* [group,H,T,block_m]: kernel of blocktopk, with weights and factors [group,H,T,kept] */
    float *sums;              /* [group,H,features * (Dp + 1) + T]: linear kernel of fastmax */
    float *norms;             /* [R,2,H]: what qknorm multiplied queries and keys by */
    float *context;           /* [R,H,Dp] */
    float *normed2, *rstd2;   /* [R,Cp], [R] */
    float *hidden;            /* [R,Fp] */
    uint64_t *kept_attention, *kept_hidden, *kept_mlp; /* [R,C or F / 64]: what dropout keeps, one bit per element */
} sf_trace;

/* Words of `drawn` per query. */
static inline size_t sf_drawn_words(size_t T) {
    return sf_kept_words(sf_smaller(T, SF_DRAWN_KEYS));
}

/* Floats of `scores` per query: none for long sequences, so that memory stays linear in T. */
static inline size_t sf_scored_row(size_t T) {
    return T <= SF_SCORED_KEYS ? sf_padded(T) : 0;
}

typedef struct sf_row_space { /* a tile of queries of the rowwise kernel, or one of the matrix kernel */
    uint32_t *keys;           /* [sf_list_tile+1,sf_list_row]: a selector may use twice as much room as it keeps */
    float *weights, *factors, *slopes; /* [sf_list_tile,sf_list_row] */
    float *scores;                     /* the same; those of softmax become weights in place */
    float *raw;                        /* the same: scores before the transforms */
    double *exact;                     /* the same: weights, if the weighting is not softmax */
    float *all;                        /* [T] */
    double *steps;                     /* [score transforms + 1,T] */
    atomic_size_t *turns;              /* [parts]: as those of the workspace */
} sf_row_space;

/* Queries of a part of the rowwise kernel. Many of them read a key from the nearest cache, and more of them share a
 * list; few need little memory and make enough parts for several workers. */
static inline size_t sf_list_tile(const sf_cpu_plan *plan, size_t T) {
    enum { LEAST = 32, PARTS = 16, MOST_KEPT = 1 << 20, GROUPED_PARTS = 8, MOST_KEPT_GROUPED = 1 << 22 };
    if (plan->grouped)
        return sf_larger(LEAST, sf_smaller(SF_LIST_TILE, sf_smaller(T / GROUPED_PARTS, MOST_KEPT_GROUPED / T)));
    const size_t most = plan->scores_all ? SF_QUERY_TILE : SF_LIST_TILE / 2;
    return sf_larger(LEAST, sf_smaller(most, sf_smaller(T / PARTS, MOST_KEPT / T)));
}

/* Floats of a row: an odd number of cache lines, so that the same columns of several rows do not compete for a place in
 * the nearest cache. */
static inline size_t sf_list_row(size_t T) {
    return sf_padded(T) | 16;
}

typedef struct sf_matrix_space {       /* all queries of a head, for weightings over the whole matrix */
    size_t *offsets;                   /* [T+1] */
    uint32_t *keys;                    /* [T*T+T] */
    float *raw;                        /* [T*T]: scores before the transforms */
    double *scores, *weights, *slopes; /* [T*T] */
    double *scratch;
} sf_matrix_space;

static inline sf_weighing_matrix sf_matrix_rows(const sf_matrix_space *space, size_t T) {
    return (sf_weighing_matrix){.T = T, .offsets = space->offsets, .keys = space->keys, .scratch = space->scratch};
}

typedef struct sf_joint {      /* of the sequences of a joint pass, which have seats 0..seats-1 (kernels/cpu/joint.c) */
    size_t seats;              /* that there are; those taken are fewer in the last pass of a batch */
    size_t choice_size;        /* what the selector writes for a sequence; 0: it is not called for all at once */
    unsigned char *choices;    /* [L,H,seats,choice_size] */
    double *scores;            /* [seats,T,T] without globals: one head's, for the selector */
    sf_head_input *inputs;     /* [seats] */
    void **places;             /* [seats] */
    sf_matrix_space *matrices; /* [seats]: one head's, for the weighting; NULL: it is not called for all at once */
    sf_weighed_batch weighed;
} sf_joint;

typedef struct sf_block_space { /* of the kernel of blocktopk */
    float *slopes;              /* [T,kept keys] */
    uint32_t *first, *places;   /* [blocks+1], [T,block_m]: which queries keep a block */
} sf_block_space;

typedef struct sf_factored_space { /* of the linear kernel of fastmax */
    float *features, *across;      /* [SF_QUERY_TILE,widest slice] and a vector on both sides, [Dp,widest slice] */
    float *contexts;               /* [SF_QUERY_TILE,Dp] */
    float *row, *done;             /* [Dp] */
    float *dS, *dz, *dtotals;      /* [features,Dp], [features], [T] */
} sf_factored_space;

typedef struct sf_workspace { /* one worker's */
    sf_trace *traces;         /* [L] */
    float *x, *dx;            /* [R,Cp] */
    float *branch, *dbranch;  /* [stretch of R,Cp] */
    float *active, *dhidden;  /* [stretch of R,Fp] */
    float *dqkv;              /* [R,3,H,Dp] */
    float *dcontext;          /* [R,H,Dp] */
    float *keys_t, *values_t; /* one head's, transposed, in panels of 64 positions */
    float *tile;              /* [SF_QUERY_TILE,SF_KEY_TILE], or Tp where keys are chosen by score */
    float *dtile;             /* the dense kernel's, as tile */
    float *across[2];         /* room for keys_t and values_t prepared, */
    float *upright[2];        /* for keys and values, */
    float *queries[2];        /* for queries and dcontext of a part as right factors, */
    float *left_queries[2];   /* and as left ones */
    atomic_size_t *turns;     /* [stretches of R, or query tiles]: of parts that add to the same gradients */
    uint64_t *kept_embedding; /* [R,C / 64 rounded up] */
    float *drow;              /* [T] */
    double *wide[4];          /* [T]: the generic kernels' rows */
    uint32_t *kept;           /* [2T] */
    sf_row_space rowwise;
    sf_matrix_space matrix;
    sf_factored_space factored;
    sf_block_space blocked;
    double *vectors[2];       /* [T,D]: one head's queries and keys, for selectors that look at them */
    unsigned char *scratch;   /* of the selector */
    double *pooled, *dpooled; /* [C] */
    double *logits;           /* [classes] */
    float *tile_rows;         /* [SF_GROUP_ROWS,Cp]: what the readout `each` reads at a time, */
    float *tile_logits;       /* [SF_GROUP_ROWS,classes padded] */
    uint32_t *tile_listed;    /* [SF_GROUP_ROWS]: and which rows of the group these are */
} sf_workspace;

typedef struct sf_job { /* one group of sequences on one worker */
    const sf_cpu_plan *plan;
    const sf_packed_block *packed; /* [L] */
    const sf_packed_head *head;    /* of the readout `each` */
    const float *params;           /* [size] */
    const sf_workspace *work;
    sf_offer *offer;       /* of its queries and rows to idle workers */
    const int32_t *tokens; /* [n,T] */
    const int32_t *labels; /* [n,sf_shape_labels()] */
    const uint32_t *last;  /* [n]: what the readout `last` reads; NULL: the last position before the globals */
    size_t n;              /* sequences, at most plan->group */
    size_t first;          /* index of the first one within the batch */
    const sf_moment *moment;
    double *losses;              /* [n]: of all labels of a sequence, */
    uint32_t *correct;           /* [n]: and how many are guessed */
    float *logits;               /* [n,labels,classes], may be NULL */
    float *gradient;             /* [size], added to; NULL: forward only */
    bool fresh;                  /* the gradient is not set yet, except that embedding and head are 0 */
    double gradient_scale;       /* 1 / labels of the batch */
    const sf_observer *observer; /* may be NULL */
    size_t worker;
    const sf_joint *joint;  /* NULL: not in a joint pass */
    size_t seat;            /* of the first sequence */
    const atomic_int *stop; /* asks to give up: the results are then invalid; may be NULL */
} sf_job;

/* What the attention kernels need besides: of a trace for the backward pass, and of a worker. */
void sf_lay_out_choices(sf_trace *t, sf_arena *arena, const sf_cpu_plan *plan);
void sf_lay_out_attention(sf_workspace *w, sf_arena *arena, const sf_cpu_plan *plan);
void sf_lay_out_matrix(sf_matrix_space *m, sf_arena *arena, const sf_cpu_plan *plan);
void sf_lay_out_workspace(sf_workspace *w, sf_arena *arena, const sf_cpu_plan *plan); /* team.c */

typedef struct sf_lone_head {  /* attention alone: one head of one sequence, between arrays that are not ours */
    sf_job job;                /* plan, work, offer */
    const sf_cpu_plan *single; /* the plan as if there were one head: what queries and keys are turned by */
    sf_trace trace;            /* of all heads of the sequence */
    size_t head;
    sf_index key_index;
    float *qkv, *dqkv;         /* [T,3,Cp] */
    float *context, *dcontext; /* [T,Cp] */
    float *norms;              /* [T,2] */
    const float *q, *k, *v;    /* [T,D] */
    float *out;                /* [T,D]: written forward, read backward */
    float *dq, *dk, *dv;       /* [T,D] */
    const float *dout;         /* [T,D] */
} sf_lone_head;

static inline void *sf_joint_choice(const sf_joint *joint, const sf_cpu_plan *plan, size_t block, size_t head,
                                    size_t seat) {
    return joint->choices + ((block * plan->model->shape.H + head) * joint->seats + seat) * joint->choice_size;
}

/* The steps of run(), for joint passes, in which all groups take a step before any takes the next. */
typedef enum sf_step {
    SF_STEP_EMBED,
    SF_STEP_PROJECT, /* of a block */
    SF_STEP_SCORE,   /* of a block and head: for the selector */
    SF_STEP_LIST,    /* of a block and head, like the next one: for the weighting */
    SF_STEP_ATTEND,
    SF_STEP_JOIN, /* of a block */
    SF_STEP_CLASSIFY,
    SF_STEP_JOIN_BACK,   /* of a block */
    SF_STEP_SLOPES,      /* of a block and head, like the next one: for the weighting */
    SF_STEP_ATTEND_BACK, /* with a weighting for the whole batch, the rest of it */
    SF_STEP_PROJECT_BACK,
    SF_STEP_EMBED_BACK
} sf_step;

typedef struct sf_cpu_kernels { /* one instruction set */
    const char *name;
    void (*pack)(sf_packed_block *packed, const sf_cpu_plan *plan, const float *params, size_t block);
    void (*pack_head)(sf_packed_head *packed, const sf_cpu_plan *plan, const float *params);
    void (*run)(const sf_job *job);
    void (*step)(const sf_job *job, sf_step step, size_t block, size_t head);
    void (*help)(sf_offer *offer, const sf_workspace *mine); /* once inside */
    void (*add)(float *x, const float *y, size_t count);     /* x += y, count a multiple of 16 */
    double (*peak_work)(size_t rounds);                      /* multiply-adds alone; returns the number of operations */
    size_t (*prepared_size)(size_t K, size_t N);             /* floats */
    void (*attend)(const sf_lone_head *lone), (*attend_backward)(const sf_lone_head *lone);
    void (*select)(uint32_t *keys, const float *scores, size_t row, bool greatest, size_t queries, size_t T,
                   size_t K); /* as sf_select */
} sf_cpu_kernels;

extern const sf_cpu_kernels sf_cpu_kernels_scalar;
#if defined(SF_HAVE_X86_SETS)
extern const sf_cpu_kernels sf_cpu_kernels_avx2, sf_cpu_kernels_avx512, sf_cpu_kernels_amx;
#elif defined(SF_HAVE_NEON)
extern const sf_cpu_kernels sf_cpu_kernels_neon;
#endif
const sf_cpu_kernels *sf_cpu_kernels_for(sf_precision precision);

#endif
