/* What a backend provides: it holds the weights of a fleet's members, advances them by one epoch and evaluates them. */
#ifndef SF_TRAIN_BACKEND_H
#define SF_TRAIN_BACKEND_H

#include "model/model.h"
#include "semfocus/fleet.h"
#include "train/data.h"

typedef struct sf_member { /* one model of a fleet */
    sf_config config;
    sf_model model;
    const sf_run_data *data;
    sf_report report; /* status decides whether the member takes part in the next epoch */
} sf_member;

typedef struct sf_backend {
    unsigned version; /* 1; members are only ever appended */
    const char *name, *summary;
    sf_status (*open)(void **state, sf_member *members /* [S] */, size_t S, size_t threads);
    /* Trains every running member for one epoch and evaluates it: fills report.last, or marks it diverged. */
    void (*advance)(void *state);
    /* Copies a member's weights out of the backend. */
    void (*read)(const void *state, size_t s, float *params /* [size] */);
    void (*close)(void *state);
} sf_backend;

extern const sf_backend sf_backend_cpu;

#endif
