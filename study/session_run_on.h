/* A session on a machine that the settings of its runs do not name. */
#ifndef SF_STUDY_SESSION_RUN_ON_H
#define SF_STUDY_SESSION_RUN_ON_H

#include "semfocus/session.h"
#include "train/machine.h"

/* Runs that the backend of the machine does not support, or loses by failing, are trained on the CPU. */
sf_status sf_session_run_on(sf_store *store, const sf_session *session, const sf_machine *machine);

#endif
