/* Numbers measured at the weights of a run, kept in the store under names, so that they are not measured again. */
#ifndef SF_STORE_FINDINGS_H
#define SF_STORE_FINDINGS_H

#include "store/store.h"

typedef struct sf_finding {
    char name[64];
    double value; /* NaN: not defined */
} sf_finding;

/* Stores all of them or none; existing ones stay. */
sf_status sf_findings_keep(sf_store *store, const sf_stored_run *run, const sf_finding *findings, size_t count);
/* At the run's present last weights. */
sf_status sf_findings_read(double *out, bool *found, sf_store *store, const sf_stored_run *run, const char *name);

#endif
