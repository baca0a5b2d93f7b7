/* Shows the attention of a model at work on sequences of its data, a batch at a time: memory does not grow with their
 * number. Without dropout, at the addresses of an evaluation. */
#ifndef SF_MEASURE_LOOKER_H
#define SF_MEASURE_LOOKER_H

#include "kernels/cpu/cpu.h"
#include "train/data.h"

typedef struct sf_subject { /* what is looked at */
    const sf_model *model;
    const float *params; /* [size] */
    const sf_run_data *data;
    sf_split split;
    size_t samples; /* the first so many sequences of the split, or all if it has fewer */
    uint32_t seed;  /* of the run */
    size_t threads; /* 0: every core */
} sf_subject;

typedef struct sf_looker {
    sf_subject subject; /* with the samples and threads there are */
    size_t batch;       /* sequences at a time, at most */
    size_t first, now;  /* the sequences loaded */
    sf_cpu_plan *plan;
    sf_cpu_crew *crew;
    int32_t *tokens; /* [batch,T] */
    int32_t *labels; /* [batch] */
} sf_looker;

sf_status sf_looker_open(sf_looker *out, const sf_subject *subject, size_t batch);
void sf_looker_close(sf_looker *looker);

/* Loads the next sequences; false when there are none. Starts again after that. */
bool sf_looker_next(sf_looker *looker);

/* Runs the loaded sequences. `noise` is the deviation of Gaussian noise on the embedded tokens. An observer's
 * sight.sequence counts from looker->first. */
void sf_looker_show(const sf_looker *looker, const sf_observer *observer, double noise);

/* Scores of one query of a sight, as the kernels see them but in double. */
void sf_sight_scores(double *scores /* [T] */, const sf_sight *sight, const sf_shape *shape, size_t head, size_t query);

/* The keys that query keeps of those scores, in ascending order; gives their number. */
size_t sf_sight_keep(uint32_t *kept /* [T] */, const sf_looker *looker, const sf_sight *sight,
                     const double *scores /* [T] */, size_t head, size_t query);

/* Least kept score minus the largest other one; of a selector that keeps the smallest the other way round. Infinite if
 * every key is kept. */
double sf_separation(const double *scores /* [T] */, const uint32_t *kept /* [count], ascending */, size_t count,
                     size_t T);

#endif
