/* What a backend provides: it holds the weights of a fleet's members, advances them by one epoch and evaluates them. */
#ifndef SF_TRAIN_BACKEND_H
#define SF_TRAIN_BACKEND_H

#include "kernels/kernels.h"
#include "semfocus/fleet.h"
#include "train/data.h"

typedef struct sf_member { /* one model of a fleet */
    sf_config config;
    sf_model model;
    const sf_run_data *data;
    sf_result result; /* status decides whether the member takes part in the next epoch */
} sf_member;

typedef struct sf_backend {
    unsigned version; /* 1; members are only ever appended */
    const char *name, *summary;
    sf_status (*open)(void **state, sf_member *members /* [S] */, size_t S, size_t threads);
    /* Trains every running member for one epoch and evaluates it: fills result.last, or marks it diverged. A member
     * that diverged, and all of them if the watch said stop (then false is returned), are as after their last epoch. */
    bool (*advance)(void *state, const sf_watch *watch);
    /* A member's state is 1 block of weights and sf_optimizer_moments() more; they are copied out and in. */
    void (*read)(const void *state, size_t s, size_t block, float *values /* [size] */);
    void (*write)(void *state, size_t s, size_t block, const float *values /* [size] */);
    /* Evaluates the weights as they are, without training. */
    void (*evaluate)(void *state, size_t s, sf_epoch *out);
    void (*close)(void *state);
} sf_backend;

extern const sf_backend sf_backend_cpu;

enum { SF_EVALUATION_BATCH = 512 }; /* wherever a loss is to be the run's own bit by bit */

/* Evaluation depends on the weights alone, not on when it happens: its random keys know no epoch. */
static inline sf_moment sf_evaluation_moment(uint32_t seed, sf_split split, size_t first_sample) {
    return (sf_moment){.seed = seed, .step = split == SF_TRAINING ? 0 : 1, .first_sample = (uint32_t)first_sample};
}

#endif
