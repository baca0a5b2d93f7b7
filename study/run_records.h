/* What a session writes into its store about one of its runs. `index` is into the session's runs; the run is claimed by
 * the caller. None of these is called under the session's lock. */
#ifndef SF_STUDY_RUN_RECORDS_H
#define SF_STUDY_RUN_RECORDS_H

#include "store/run_state.h"
#include "study/session_state.h"

/* The rows of a run whose checkpoint is gone, up to the epoch of that checkpoint: they must come out again. *rows is
 * NULL if the checkpoint is there, or there never was one. */
sf_status sf_record_look(sf_epoch **rows, size_t *count, sf_session_state *session, size_t index);

/* What the run continues from; *environment is that of its epochs so far, NULL if there are none: free() it. */
sf_status sf_record_continuation(sf_continuation *out, char **environment, sf_session_state *session, size_t index);

/* The run is under way, on this instruction set and in this environment (JSON). */
sf_status sf_record_begin(sf_session_state *session, size_t index, const char *isa, const char *environment);
sf_status sf_record_measures(sf_session_state *session, size_t index, const sf_curve_point *points /* [count] */,
                             size_t count);
sf_status sf_record_row(sf_session_state *session, size_t index, const sf_epoch *row, double seconds,
                        const sf_curve_point *points /* [count] */, size_t count);
/* Durable on return; files that `before` names are then deleted. */
sf_status sf_record_checkpoint(sf_session_state *session, size_t index, const sf_checkpoint_files *files,
                               const sf_saved *before);
sf_status sf_record_complete(sf_session_state *session, size_t index, const sf_ending *ending);
/* The lost checkpoint was computed again and saved. *again: the run now continues from it. */
sf_status sf_record_restored(bool *again, sf_session_state *session, size_t index);
/* The run stopped on request; a later command continues it. */
sf_status sf_record_pause(sf_session_state *session, size_t index);

#endif
