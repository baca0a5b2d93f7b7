/* Where a worker gets its runs from, and where it records what happens to them: this process, which has the store, or
 * rank 0, which has the store of the whole job. */
#ifndef SF_STUDY_RECORDER_H
#define SF_STUDY_RECORDER_H

#include "study/active_run.h"

typedef struct sf_wanted { /* what a worker can take */
    const sf_backend *backend;
    const sf_config *like; /* models of the same sizes and precision; NULL: of any */
    bool (*fits)(const void *worker, const sf_listed_run *run);
    const void *worker;
} sf_wanted;

struct sf_recorder {
    /* A run that may be taken now, under a claim; false: there is none. */
    bool (*take)(size_t *index, int *claim, sf_session_state *session, const sf_wanted *wanted);
    /* For a worker without any run: waits a moment; false: there is nothing to wait for. */
    bool (*wait)(sf_session_state *session, const sf_wanted *wanted);
    /* Runs that this worker may still get, about. */
    size_t (*count_open)(sf_session_state *session, const sf_backend *backend);
    /* The run was taken but is left to others. `begun`: the store says that it is under way. */
    void (*put_back)(sf_session_state *session, size_t index, int claim, bool begun);
    /* The run is over: done, stopped (SF_INTERRUPTED) or failed with the message of this thread. */
    void (*end)(sf_session_state *session, size_t index, int claim, sf_status status, bool begun);

    /* The steps of a run that was taken, as study/run_records.h has them. */
    sf_status (*look)(sf_active_run *run); /* run->rows, run->lost */
    sf_status (*begin)(sf_active_run *run, const sf_run_place *place);
    sf_status (*measures)(sf_active_run *run);
    sf_status (*row)(sf_active_run *run, double seconds, size_t points);
    sf_status (*checkpoint)(sf_active_run *run);
    sf_status (*complete)(sf_active_run *run, const sf_ending *ending);
    sf_status (*restored)(bool *again, sf_active_run *run);
    sf_status (*pause)(sf_active_run *run);
};

extern const sf_recorder sf_store_recorder;

#endif
