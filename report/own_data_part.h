/* What the page says about runs of a user's own data: how well they predict a held-out text, and the names of labels.
 */
#ifndef SF_REPORT_OWN_DATA_PART_H
#define SF_REPORT_OWN_DATA_PART_H

#include <stdio.h>

#include "semfocus/store.h"
#include "semfocus/study.h"

/* A section, or nothing if there is nothing to say. */
sf_status sf_print_own_data(FILE *out, const sf_study *study, sf_store *store);

#endif
