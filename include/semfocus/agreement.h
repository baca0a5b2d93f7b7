/* Two stores compared: which runs both have, and whether they agree to the bit. */
#ifndef SEMFOCUS_AGREEMENT_H
#define SEMFOCUS_AGREEMENT_H

#include "semfocus/api.h"
#include "semfocus/store.h"

SF_API_BEGIN

typedef enum sf_agreement {
    SF_ONLY_HERE,
    SF_ONLY_THERE,
    SF_SAME,        /* curves, checkpoints and everything that was measured */
    SF_SAME_SO_FAR, /* no bit differs, but one has more epochs, or more was measured there */
    SF_RUNS_DIFFER,
    SF_AGREEMENTS
} sf_agreement;
const char *
sf_agreement_word(sf_agreement agreement); /* "only here", "only there", "equal", "equal so far", "different" */

typedef struct sf_run_pair {
    sf_agreement agreement;
    const sf_stored_run *here, *there; /* NULL: it has no such run */
    const char *where;                 /* what differs first: "epoch 3: tr_ce"; "" unless they differ */
    const char *values[2];             /* here and there */
} sf_run_pair;

/* Runs of `here` first, in its order. Both are verified on the way; both must be open for reading. */
sf_status sf_store_compare(sf_store *here, sf_store *there, void (*each)(void *context, const sf_run_pair *pair),
                           void *context);

SF_API_END

#endif
