/* The theory applied to a stored model, and measurements of it: Lipschitz bounds from its weights, the local Lipschitz
 * constants of its attention layers, and how stable its kept keys are. docs/theory.md derives every constant and states
 * its norms and domain.
 *
 *   sf_theory *theory;
 *   const sf_bounds *bounds;
 *   sf_theory_open(&theory, store, &run, &(sf_theory_options){.samples = 100, .share = 1});
 *   sf_theory_bounds(&bounds, theory);
 *   bounds->blocks[0].attention_input[SF_BOUND_PROVEN]
 *   sf_theory_close(theory);
 *
 * A constant may be infinite (a separation of 0, e^dispersion beyond double): in JSON it is then null. */
#ifndef SEMFOCUS_THEORY_H
#define SEMFOCUS_THEORY_H

#include <stdbool.h>
#include <stddef.h>

#include "semfocus/api.h"
#include "semfocus/settings.h"
#include "semfocus/status.h"
#include "semfocus/store.h"
#include "semfocus/task.h"

SF_API_BEGIN

typedef struct sf_theory sf_theory;

typedef struct sf_theory_options {
    sf_weights_at at;
    sf_split split;         /* the sequences examined */
    size_t samples;         /* how many, at least 1; as many as there are if there are fewer */
    sf_execution execution; /* only threads, device and notes are used */
    double perturbed;       /* how far the weights are moved along the first direction of the loss surface */
    uint32_t direction_seed;
    double share; /* of queries, keys and rows that lie in the domain of the bounds, above 0; 1: all of them */
} sf_theory_options;

sf_status sf_theory_open(sf_theory **out, sf_store *store, const sf_stored_run *run, const sf_theory_options *options);
void sf_theory_close(sf_theory *theory); /* NULL is legal; also frees the results */

/* Three constants for each quantity. */
typedef enum sf_bound_kind {
    SF_BOUND_PUBLISHED, /* the form of Ram et al. 2025, with e^dispersion; a true bound between any two inputs */
    SF_BOUND_PROVEN,    /* the sharpest we prove between any two inputs, changes of the kept sets included */
    SF_BOUND_LOCAL,     /* of the derivative, kept sets held fixed */
    SF_BOUND_KINDS
} sf_bound_kind;

const char *sf_bound_kind_name(sf_bound_kind kind); /* published, proven, local */

typedef struct sf_bound_domain { /* what the inputs of a block have in common; the constants hold for all such inputs */
    double dispersion;           /* of the kept scores of a query, at most */
    double separation;           /* of kept from other scores, at least; INFINITY where no kept set depends on scores */
    double in_degree;            /* queries that keep a key, at most */
    double fewest_kept, most_kept;             /* keys of a query */
    double token_norm;                         /* of an input row of the attention, at most */
    double attention_deviation, mlp_deviation; /* sqrt(variance + epsilon) of an input row of a norm, at least */
} sf_bound_domain;

typedef struct sf_block_bounds {
    sf_bound_domain domain;
    double gamma, upsilon;                    /* largest over heads; biases are a column of every matrix */
    double wo, w1, w2;                        /* operator norms */
    double sink_ratio;                        /* in_degree / fewest_kept */
    double softmax[SF_BOUND_KINDS];           /* scores of a query to its weights, l2 to l2 */
    double attention_input[SF_BOUND_KINDS];   /* rows to rows, Frobenius, with the output projection */
    double attention_weights[SF_BOUND_KINDS]; /* parameters (l2) to rows, Frobenius over sqrt(T) */
    double attention_norm, mlp_norm;          /* LayerNorm on its domain */
    double mlp_input, mlp_weights;
    double block_input[SF_BOUND_KINDS], block_weights[SF_BOUND_KINDS]; /* norms and residuals included */
    double length_law; /* of the attention layer: the sqrt(T) law of Castin, Ablin and Peyre 2024 */
} sf_block_bounds;

typedef struct sf_bounds {
    size_t count, samples, positions;
    sf_block_bounds *blocks; /* [count] */
    /* Logarithms to base 10: the composition of many blocks may be beyond double. */
    double log10_loss_embedding[SF_BOUND_KINDS]; /* embedded rows (Frobenius) to the loss of a sequence */
    double log10_loss_weights[SF_BOUND_KINDS];   /* all parameters (l2) to the loss of a sequence */
} sf_bounds;

/* SF_UNSUPPORTED, with a sentence, under a weighting that the theory of softmax does not hold for. */
sf_status sf_theory_bounds(const sf_bounds **out, sf_theory *theory);

typedef struct sf_block_lipschitz { /* of one attention layer, over the samples */
    double least, lower_quartile, median, upper_quartile, largest;
    double largest_over_root;  /* largest / sqrt(T) */
    double largest_over_law;   /* largest / length_law; like the next, NAN under a weighting without bounds */
    double largest_over_bound; /* largest / the local bound of the same weights and inputs */
    double mean_iterations;
    size_t most_iterations, unconverged; /* unconverged: samples that reached the limit */
} sf_block_lipschitz;

typedef struct sf_local_lipschitz {
    size_t count, samples, positions;
    double tolerance;           /* relative growth at which an iteration ends */
    sf_block_lipschitz *blocks; /* [count] */
    double *values;             /* [count,samples] */
} sf_local_lipschitz;

/* The largest singular value of each attention layer's Jacobian (input rows to rows after the output projection, kept
 * sets held fixed) at each sample, by power iteration. */
sf_status sf_theory_local_lipschitz(const sf_local_lipschitz **out, sf_theory *theory);

enum { SF_SEPARATION_BINS = 6 };
double sf_separation_bin_start(size_t bin); /* 0, 1e-3, 1e-2, 1e-1, 1, 10 */

typedef struct sf_kept_shares {
    size_t queries;
    double keys_unchanged;  /* share of kept keys that are kept under noise too */
    double masks_unchanged; /* share of queries whose kept keys are all the same */
} sf_kept_shares;

typedef struct sf_block_stability { /* of one block under noise of one scale */
    double noise;
    sf_kept_shares all;
    sf_kept_shares by_separation[SF_SEPARATION_BINS]; /* by the query's separation without noise; shares NAN if empty */
} sf_block_stability;

typedef struct sf_mask_stability {
    size_t count, scales, samples, k;
    bool fixed;                 /* kept keys do not depend on the input: everything is 1, nothing was run */
    sf_block_stability *blocks; /* [count,scales] */
} sf_mask_stability;

/* Gaussian noise of each deviation is added to the embedded tokens (after the positions, before the first block). */
sf_status sf_theory_mask_stability(const sf_mask_stability **out, sf_theory *theory, const double *scales,
                                   size_t scale_count);

SF_API_END

#endif
