/* What makes two runs the same run: the id, and the id that earlier versions gave it. */
#ifndef SF_STORE_IDENTITY_H
#define SF_STORE_IDENTITY_H

#include "store/store.h"

typedef struct sf_run_ids {
    char id[SF_RUN_ID_SIZE];
    char earlier[SF_RUN_ID_SIZE]; /* in stores up to schema 5: hash of every setting, default or not */
} sf_run_ids;

/* The settings must be complete. */
sf_status sf_run_identify_both(sf_run_ids *out, const sf_config *config, const char *task);

#endif
