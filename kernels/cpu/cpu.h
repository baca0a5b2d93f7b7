/* The model in f32 on CPU cores.
 *
 * A batch is cut into chunks of consecutive sequences that depend on the batch size alone. A chunk belongs to one
 * worker, which takes it in groups of a few sequences whose activations stay in its cache; others may help, but what is
 * added to a gradient comes in an order that does not depend on them, and the chunks are summed in theirs. So every bit
 * is the same for any number of workers.
 *
 *   plan   what one model needs besides its weights: patterns, positions, sizes. One per model.
 *   team   workers with their memory. One per model in flight; models take turns on it. */
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

/* From now on the calls below end within moments once *stop is not 0, also in the middle of a long sequence. Their
 * results are then useless: check the flag after each call. NULL, the default: never. */
void sf_cpu_team_obey(sf_cpu_team *team, const atomic_int *stop);

/* Mean loss and its gradient over the batch. */
void sf_cpu_gradient(sf_cpu_team *team, double *loss, float *gradient /* [size] */, const sf_cpu_plan *plan,
                     const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);

/* Forward only. `logits` may be NULL. */
void sf_cpu_evaluate(sf_cpu_team *team, sf_evaluation *out, float *logits /* [B,classes] */, const sf_cpu_plan *plan,
                     const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);

/* Forward only, while an observer looks on. */
void sf_cpu_observe(sf_cpu_team *team, const sf_observer *observer, const sf_cpu_plan *plan,
                    const float *params /* [size] */, const sf_batch *batch, const sf_moment *moment);

/* scalar, avx2 or avx512: the widest the machine has, or the one SEMFOCUS_ISA names; amx under bf16. Where there are no
 * tiles in hardware, or SEMFOCUS_ISA is avx512, vectors compute the bits of amx. sf_cpu_check_isa says if it can be. */
const char *sf_cpu_isa_name(sf_precision precision);
sf_status sf_cpu_check_isa(sf_precision precision);

/* Multiply-adds of one core that wait for nothing, as many rounds as asked; gives their FLOP. */
double sf_cpu_peak_work(sf_precision precision, size_t rounds);

#endif
