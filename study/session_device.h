/* Which backend a session trains on. */
#ifndef SF_STUDY_SESSION_DEVICE_H
#define SF_STUDY_SESSION_DEVICE_H

#include "study/session_state.h"

/* SF_UNSUPPORTED if a run is to be trained in an arithmetic that neither the device nor the CPU has. Nothing is written
 * before this is known. */
sf_status sf_session_refuse_foreign(const sf_session_state *state);

/* Decides --device auto, once the runs are entered, and leaves runs of other arithmetic to the CPU. */
void sf_session_choose_backend(sf_session_state *state);

#endif
