/* One model over several ranks (docs/decisions.md, "One model over ranks").
 *
 * Training: chunk c of a batch belongs to rank (c mod K + 1) mod R, where R is the number of ranks and K the smaller of
 * R and the number of chunks. Each of these K ranks also adds up one K-th of the parameters: it receives that stretch
 * of every chunk as soon as the chunk is computed, adds the chunks in order, and sends the sum to all. So every rank
 * has the gradient that one process would have, bit for bit, and updates its own copy of the weights. Rank 1 mod R
 * collects the losses and tells all ranks whether the step counts: a rank that was stopped, or whose mechanism broke
 * its rules, still sends what it has, so that all ranks give up the same step and no message is left behind.
 *
 * Evaluation: the sequences of both sets are shared out evenly, and rank 0 adds their losses in order. */
#ifndef SF_TRAIN_CPU_EXCHANGE_H
#define SF_TRAIN_CPU_EXCHANGE_H

#include "kernels/cpu/cpu.h"
#include "semfocus/fleet.h"

typedef struct sf_exchange sf_exchange;

/* For batches of up to `batch` sequences, and `sequences` in both sets together. */
sf_status sf_exchange_create(sf_exchange **out, const sf_model *model, size_t batch, size_t sequences);
void sf_exchange_destroy(sf_exchange *x); /* NULL is legal */

/* Like sf_cpu_gradient(), by all ranks together. SF_INTERRUPTED at all of them if one was stopped or broke a rule;
 * SF_IO_ERROR at rank 0 if another rank is lost. */
sf_status sf_exchange_gradient(sf_exchange *x, double *loss, float *gradient /* [size] */, sf_cpu_team *team,
                               const sf_cpu_plan *plan, const float *params /* [size] */, const sf_batch *batch,
                               const sf_moment *moment, const atomic_int *stop);

/* The sequences that this rank evaluates, counted over the training set and then the held-out set, and where it puts
 * their results. */
typedef struct sf_exchange_slice {
    size_t first, end;
    double *losses;    /* [sequences], sums over their labels: only those of the slice are ours; at rank 0, all after
                          sf_exchange_gather() */
    uint32_t *correct; /* [sequences] */
} sf_exchange_slice;
sf_exchange_slice sf_exchange_slice_of(const sf_exchange *x);
/* Sends the slice to rank 0. `stopped` and `broken` say why it is incomplete. */
sf_status sf_exchange_gather(sf_exchange *x, bool stopped, bool broken);
/* Rank 0 tells all others how the epoch ended: its row. SF_INTERRUPTED at all of them if a slice was incomplete. */
sf_status sf_exchange_share(sf_exchange *x, sf_epoch *row);

/* Why the last call was interrupted: a mechanism broke its rules, here or elsewhere; else a stop. */
bool sf_exchange_is_broken(const sf_exchange *x);

#endif
