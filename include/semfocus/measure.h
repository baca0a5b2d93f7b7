/* Why a mechanism learns as it does: the quantities of the theory, measured on a stored run.
 *
 *   sf_analysis *analysis;
 *   sf_analyze(&analysis, store, &run, &(sf_analysis_request){.at = SF_AT_LAST, .split = SF_HELDOUT});
 *   sf_analysis_overall(analysis)->measures[SF_DISPERSION].at[5]       the median
 *   sf_analysis_destroy(analysis);
 *
 * Over every block, head, sequence and query; D are the scores before softmax, K the kept keys. Without dropout.
 * Results do not depend on threads. Quantiles are exact up to 4096 values and otherwise too close to zero, with a
 * relative error below 2^-11; the extremes and whole numbers up to 4096 are always exact. */
#ifndef SEMFOCUS_MEASURE_H
#define SEMFOCUS_MEASURE_H

#include "semfocus/api.h"
#include "semfocus/store.h"
#include "semfocus/task.h"

SF_API_BEGIN

typedef enum sf_measure {
    SF_DISPERSION,      /* delta_s: max D - min D over all keys, kept or not */
    SF_KEPT_DISPERSION, /* delta_h: the same over the kept keys */
    SF_SEPARATION,      /* Delta_h: distance of the kept scores from the others; only if chosen by score */
    SF_IN_DEGREE,       /* of each key: how many queries keep it */
    SF_EFFECTIVE_KEYS,  /* of each query: 1 / sum w^2 of its weights, divided by their sum: 1 to the number of kept keys
                         */
    SF_ENTROPY,         /* of each query: -sum w ln w of the same */
    SF_LN_STABILITY,    /* ln xi, the stability of softmax in its input under this mechanism; like the next two, only
                           defined where the theory of softmax holds */
    SF_CONDITION_W,     /* left side, per query: delta_s over all keys of this run */
    SF_CONDITION_X,     /* the same; the sink ratio is the largest of the query's sequence and head */
    SF_MEASURES
} sf_measure;
const char *sf_measure_name(sf_measure measure);

enum { SF_QUANTILES = 11 };
extern const double sf_quantile_percents[SF_QUANTILES]; /* 0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100 */

typedef struct sf_measured {
    uint64_t count, not_numbers; /* values; NaN are left out and counted by themselves */
    double at[SF_QUANTILES];     /* NaN: there are no values, the measure is not defined here */
} sf_measured;

typedef struct sf_block_measures { /* of one block, or of all */
    sf_measured measures[SF_MEASURES];
    uint64_t queries, holds_w, holds_x; /* queries with a separation; how many of them meet the conditions */
    double sink_keys;                   /* divisor of the sink ratio: k, or the mean number of kept keys */
    double largest_token;               /* Xi: largest norm of an input row of attention */
    double gamma, upsilon, w1, w2;      /* spectral norms with the bias as a column; the largest of the heads */
} sf_block_measures;

typedef struct sf_analysis_request {
    sf_weights_at at;
    sf_split split;
    size_t samples;         /* the first of the split; 0: all */
    sf_execution execution; /* only threads, device and notes are used */
    double perturbed;       /* how far the weights are moved along the first direction of the loss surface */
    uint32_t direction_seed;
} sf_analysis_request;

typedef struct sf_analysis sf_analysis;

typedef struct sf_analysis_info {
    const sf_stored_run *run;
    sf_analysis_request request;
    size_t epoch; /* of the weights; 0: initial */
    size_t samples, positions, blocks, heads;
    double ln_positions;                 /* the same bits on every machine, unlike libm's */
    size_t k;                            /* from the spelling, or all keys */
    bool has_separation;                 /* and conditions W and X, if has_theory */
    bool has_theory;                     /* of softmax; if not, stability and conditions are not defined */
    const char *lacks_kind, *lacks_name; /* if not: because of this weighting, selector, ... */
} sf_analysis_info;

/* Weights of another instruction set are analyzed as they are; those of another numerics version are refused. For a
 * diverged run, the last weights are the last finite ones. */
sf_status sf_analyze(sf_analysis **out, sf_store *store, const sf_stored_run *run, const sf_analysis_request *request);
void sf_analysis_destroy(sf_analysis *analysis);

sf_analysis_info sf_analysis_describe(const sf_analysis *analysis);
const sf_block_measures *sf_analysis_block(const sf_analysis *analysis, size_t block);
const sf_block_measures *sf_analysis_overall(const sf_analysis *analysis);
void sf_analysis_head_norms(double *gamma, double *upsilon, const sf_analysis *analysis, size_t block, size_t head);

/* The published comparison, quantile by quantile: delta_s of the run with full attention, everything else of the other
 * run; separation at 100 - percent and at least 1e-9. */
typedef struct sf_comparison {
    double percent, dispersion, kept_dispersion, separation, in_degree, sink_ratio, w, x;
} sf_comparison;

/* Whether the first is full attention, the second chooses by score, and nothing else differs. */
bool sf_analysis_comparable(const sf_analysis *full, const sf_analysis *sparse);
void sf_analysis_compare(sf_comparison out[SF_QUANTILES], const sf_analysis *full, const sf_analysis *sparse);

/* The condition (SF_CONDITION_W or SF_CONDITION_X) in the plane of c1 = delta_h / delta_s and c2 = Delta_h / delta_s:
 * it holds where c1 is less than this. */
double sf_condition_limit(sf_measure condition, double dispersion, double sink_ratio, double c2);
/* The same boundary as a function of c1: the condition holds where c2 is greater than this; INFINITY: for no c2. */
double sf_condition_least_c2(sf_measure condition, double dispersion, double sink_ratio, double c1);

/* What training with --every recorded. Block -1: all blocks. */
typedef struct sf_curve_point {
    size_t epoch; /* 0: at initialization */
    int64_t block;
    char measure[16];
    double at[SF_QUANTILES]; /* NaN: not defined */
} sf_curve_point;
sf_status sf_store_each_measure(sf_store *store, const sf_stored_run *run,
                                void (*each)(void *context, const sf_curve_point *point), void *context);
/* How many of the epochs 0, every, 2 every, ... up to the last one were recorded. */
sf_status sf_store_count_measured(size_t *count, sf_store *store, const sf_stored_run *run, size_t every, size_t last);

SF_API_END

#endif
