/* One run under way in a session: its claim, its place in a fleet, its rows and checkpoints. */
#ifndef SF_STUDY_ACTIVE_RUN_H
#define SF_STUDY_ACTIVE_RUN_H

#include "store/run_state.h"
#include "study/session_state.h"
#include "study/training_measures.h"

typedef struct sf_active_run {
    sf_session_state *session;
    size_t index; /* into the session's runs */
    int claim;
    bool begun; /* the store says that it is under way */
    sf_run_state state;
    sf_training_measures measures;
    sf_epoch *rows; /* [lost]: rows that must come out again after the checkpoint was lost; NULL: none */
    size_t lost;
    size_t epoch;            /* the last one that the store and the listeners know of */
    double checkpointed;     /* when */
    double saving;           /* seconds that its last checkpoint took */
    double saving_elsewhere; /* seconds that the store takes for one checkpoint of every run of other ranks */
} sf_active_run;

/* The model to train, or to compute again where the checkpoint is gone. `others` may share their data with it. */
sf_status sf_active_run_prepare(sf_member **out, sf_active_run *run, sf_member *const *others /* [count] */,
                                size_t count);

typedef struct sf_run_place { /* where a run is trained */
    sf_fleet *fleet;
    size_t s;
    sf_machine machine; /* with the fleet's own backend */
    int runs_at_a_time; /* 0: runs of one fleet share their seconds */
} sf_run_place;

/* Once the model is in a fleet: loads the state of its checkpoint, and records that the run is under way. */
sf_status sf_active_run_begin(sf_active_run *run, const sf_run_place *place);

/* After each call of sf_fleet_advance(): records what is new. */
sf_status sf_active_run_record(sf_active_run *run, double seconds);

/* Whether nothing is left to train. */
bool sf_active_run_is_finished(const sf_active_run *run);

/* Records how the run ended: finished, or stopped on request. *again: it was only computed up to its lost checkpoint,
 * and now continues from there like any other run. */
sf_status sf_active_run_finish(bool *again, sf_active_run *run);
sf_status sf_active_run_stop(sf_active_run *run);

/* For the record: what the run is computed on. *environment is JSON text, after `before` (NULL: no epochs yet); free()
 * it. The variant is the instruction set or the architecture. */
sf_status sf_active_run_environment(char **environment, const sf_active_run *run, const sf_run_place *place,
                                    const char *before);
const char *sf_active_run_variant(const sf_active_run *run, const sf_run_place *place);

/* Releases everything but the claim and the place in the fleet. */
void sf_active_run_close(sf_active_run *run);

#endif
