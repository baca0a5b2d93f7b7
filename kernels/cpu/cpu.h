/* The model in f32 on CPU cores.
 *
 * A batch is cut into chunks of consecutive sequences that depend on the batch size alone. A chunk belongs to one
 * worker, which computes it in groups of a few sequences whose activations stay in its cache. Other workers may help,
 * but the order in which numbers are added to a gradient does not depend on them, and the chunks are summed in order.
 * So every bit is the same for any number of workers.
 *
 *   plan   what one model needs besides its weights: patterns, positions, sizes. One per model.
 *   team   workers with their memory. One per model that is trained at the same time; models use it in turn. */
#ifndef SF_KERNELS_CPU_CPU_H
#define SF_KERNELS_CPU_CPU_H

#include <stdatomic.h>

#include "kernels/kernels.h"

typedef struct sf_cpu_plan sf_cpu_plan;
typedef struct sf_cpu_team sf_cpu_team;

sf_status sf_cpu_plan_create(sf_cpu_plan **out, const sf_model *model, sf_precision precision);
void sf_cpu_plan_destroy(sf_cpu_plan *plan);

/* Memory for `workers` threads, enough for each of the plans and batches of up to B sequences. */
sf_status sf_cpu_team_create(sf_cpu_team **out, sf_cpu_plan *const *plans, size_t count, size_t workers, size_t B);
void sf_cpu_team_destroy(sf_cpu_team *team);
/* Whether the memory is enough for this plan, too, and for batches of up to B sequences. */
bool sf_cpu_team_fits(const sf_cpu_team *team, const sf_cpu_plan *plan, size_t B);
/* The bytes of such a team for one plan. */
size_t sf_cpu_team_bytes(const sf_cpu_plan *plan, size_t workers, size_t B);

/* From now on the calls below return soon after *stop is set to a nonzero value, also in the middle of a long sequence.
 * Their results are then useless: check the flag after each call. NULL, the default: no flag. */
void sf_cpu_team_obey(sf_cpu_team *team, const atomic_int *stop);

/* Mean loss over the labels of the batch, and its gradient. */
void sf_cpu_gradient(sf_cpu_team *team, double *loss, float *gradient /* [size] */, const sf_cpu_plan *plan,
                     const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);

/* The same for several processes: each computes some chunks of the batch, and the sums are made elsewhere, in order. */
enum { SF_CHUNKS = 8 }; /* of a batch, at most; part of the numerics */
size_t sf_cpu_chunk_count(size_t B);
void sf_cpu_chunk_bounds(size_t *first, size_t *end, size_t B, size_t c); /* its sequences */

typedef struct sf_cpu_chunks {
    float *gradients[SF_CHUNKS]; /* [size] each, where to put it; NULL: another process computes this chunk */
    /* A worker has computed a chunk; others may call at the same time. The losses are those of its sequences, sums
     * over their labels. */
    void (*on_done)(void *context, size_t chunk, const double *losses);
    void *context;
} sf_cpu_chunks;
void sf_cpu_some_chunks(sf_cpu_team *team, const sf_cpu_chunks *mine, const sf_cpu_plan *plan,
                        const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);
/* Adds the same stretch of every chunk's gradient, in order; width is a multiple of 16. */
void sf_cpu_add_chunks(const sf_cpu_plan *plan, float *sum /* [width] */,
                       const float *const *parts /* [count][width] */, size_t count, size_t width);

/* Forward only. `logits` may be NULL. */
void sf_cpu_evaluate(sf_cpu_team *team, sf_evaluation *out, float *logits /* [B,labels,classes] */,
                     const sf_cpu_plan *plan, const float *params /* [size] */, const sf_batch *batch,
                     const sf_moment *moment);

/* The same for every sequence on its own: sums over its labels. */
void sf_cpu_evaluate_each(sf_cpu_team *team, double *losses /* [B] */, uint32_t *correct /* [B] */,
                          const sf_cpu_plan *plan, const float *params /* [size] */, const sf_batch *batch,
                          const sf_moment *moment);

/* Forward only; calls the observer. */
void sf_cpu_observe(sf_cpu_team *team, const sf_observer *observer, const sf_cpu_plan *plan,
                    const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);

/* scalar, avx2 or avx512: the widest the machine has, or the one SEMFOCUS_ISA names; amx under bf16. Without AMX
 * hardware, or if SEMFOCUS_ISA is avx512, vectors compute the same bits as amx. sf_cpu_check_isa says whether the
 * machine can run it. */
const char *sf_cpu_isa_name(sf_precision precision);
sf_status sf_cpu_check_isa(sf_precision precision);

/* Runs independent multiply-adds on one core for this many rounds; returns the number of operations. */
double sf_cpu_peak_work(sf_precision precision, size_t rounds);

#endif
