/* What the files of train/cpu/exchange.h share. */
#ifndef SF_TRAIN_CPU_EXCHANGE_INSIDE_H
#define SF_TRAIN_CPU_EXCHANGE_INSIDE_H

#include "ranks/transfer.h"
#include "train/cpu/exchange.h"
#include "train/gpu_part.h"

enum { SF_RANK_STOPPED = 1, SF_RANK_BROKEN = 2, SF_RANK_FAILED = 4 }; /* faults of a chunk or a slice */
enum { SF_FAILURE_SIZE = 512 };

typedef struct verdict { /* on a step, or on an evaluation */
    double loss;
    sf_epoch row;
    unsigned faults;
} verdict;

typedef struct stretch { /* of parameters */
    size_t first, width;
} stretch;

typedef struct batch_plan { /* who does what of a batch */
    size_t B, chunks;
    size_t labelled; /* labels of the batch */
    size_t summing;  /* K: so many ranks compute and add up */
} batch_plan;

struct sf_exchange {
    const sf_model *model;
    size_t ranks, rank;
    size_t sequences;
    batch_plan now;
    const atomic_int *stop;
    float *computed;        /* [own chunks,size]: gradients of the chunks of this rank */
    float *own;             /* the same, unless a GPU computes them */
    float *received;        /* [chunks,width]: stretches of the others */
    double *notes;          /* [batch + chunks]: faults and losses of each chunk */
    double *losses;         /* [sequences] */
    uint32_t *correct;      /* [sequences] */
    unsigned *slice_faults; /* [ranks] */
    verdict verdict;
    sf_transfer parts_sent[SF_CHUNKS][SF_CHUNKS], notes_sent[SF_CHUNKS];
    sf_transfer parts_received[SF_CHUNKS], notes_received[SF_CHUNKS], sums_received[SF_CHUNKS];
    sf_transfer *sums_sent, *verdicts_sent; /* [ranks] */
    sf_transfer verdict_received;
    sf_transfer *slices; /* [3,ranks] */

    sf_gpu_part *gpu;     /* NULL: the CPU computes */
    bool linked;          /* gradients go from GPU to GPU, the rest through the host */
    bool sent[SF_CHUNKS]; /* in this step, by a rank with a GPU */
    double patience;      /* seconds, where another rank may have failed */
    sf_status failure;    /* of this rank's GPU: it computes nothing any more, and says so with every message */
    char why[SF_FAILURE_SIZE];
};

/* The k-th of the ranks that compute; and the inverse for this rank: as many or more, and it computes no chunk. */
size_t sf_exchange_rank_at(const sf_exchange *x, size_t k);
size_t sf_exchange_place(const sf_exchange *x);
bool sf_exchange_is_summing(const sf_exchange *x);
bool sf_exchange_is_judge(const sf_exchange *x);
/* Of the parameters that the k-th adds up: the first. */
size_t sf_exchange_boundary(const sf_exchange *x, size_t k);

/* A step: the sum will be in `gradient`, unless there are links. */
sf_status sf_exchange_begin(sf_exchange *x, float *gradient, size_t B, size_t labelled);
void sf_exchange_send_chunk(void *x, size_t chunk, const double *losses);
sf_status sf_exchange_add_up(sf_exchange *x, float *gradient, const sf_cpu_plan *plan);
/* SF_INTERRUPTED if any rank was stopped, broke a rule or failed. */
sf_status sf_exchange_finish(sf_exchange *x, double *loss);

sf_status sf_exchange_wait(sf_exchange *x, sf_transfer *transfers, size_t count);

#endif
