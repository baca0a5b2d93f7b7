#include "semfocus/agreement.h"

#include <string.h>

#include "base/memory.h"
#include "semfocus/labels.h"
#include "store/merge.h"

const char *sf_agreement_word(sf_agreement agreement) {
    static const char *const words[SF_AGREEMENTS] = {"only here", "only there", "equal", "equal so far", "different"};
    return words[agreement];
}

typedef struct comparing {
    sf_store *store, *other;
    bool back; /* the runs of the second store, of which only those matter that the first does not have */
    sf_version ours, theirs;
    void (*each)(void *context, const sf_run_pair *pair);
    void *context;
    sf_status status;
} comparing;

static sf_status compare_versions(sf_run_pair *out, sf_difference *difference, const comparing *c) {
    sf_difference back;
    SF_TRY(sf_run_verify_rows(c->store, &c->ours.run));
    SF_TRY(sf_run_verify_rows(c->other, &c->theirs.run));
    SF_TRY(sf_version_compare(difference, &c->ours, &c->theirs));
    SF_TRY(sf_version_compare(&back, &c->theirs, &c->ours));
    const bool differs = *difference->conflict != '\0';
    const bool same_size = c->ours.run.epochs == c->theirs.run.epochs && difference->missing + back.missing == 0;
    out->agreement = differs ? SF_RUNS_DIFFER : same_size ? SF_SAME : SF_SAME_SO_FAR;
    if (!differs) return SF_OK;
    const bool turned = difference->first != &c->ours;
    out->where = difference->where;
    out->values[0] = difference->values[turned];
    out->values[1] = difference->values[!turned];
    return SF_OK;
}

static sf_status compare_run(comparing *c, const sf_stored_run *run) {
    bool found;
    sf_difference difference = {0};
    sf_run_pair pair = {.where = "", .values = {"", ""}};
    SF_TRY(sf_version_read(&c->ours, c->store, run->number));
    SF_TRY(sf_version_find(&c->theirs, &found, c->other, &c->ours.run));
    if (c->back && found) return SF_OK;
    pair.agreement = c->back ? SF_ONLY_THERE : SF_ONLY_HERE;
    *(c->back ? &pair.there : &pair.here) = &c->ours.run;
    if (found) {
        pair.there = &c->theirs.run;
        SF_TRY(compare_versions(&pair, &difference, c));
    }
    c->each(c->context, &pair);
    return SF_OK;
}

static void look_at(void *context, const sf_stored_run *run) {
    comparing *c = context;
    if (c->status == SF_OK) c->status = compare_run(c, run);
}

static sf_status go_through(comparing *c) {
    SF_TRY(sf_store_each_run(c->store, NULL, look_at, c));
    return c->status;
}

sf_status sf_store_compare(sf_store *here, sf_store *there, void (*each)(void *context, const sf_run_pair *pair),
                           void *context) {
    comparing *c;
    SF_TRY(SF_NEW(&c, 1));
    *c = (comparing){.store = here, .other = there, .each = each, .context = context};
    sf_store_show_archived(here);
    sf_store_show_archived(there);
    sf_status status = sf_store_freeze(here);
    if (status == SF_OK) status = sf_store_freeze(there);
    if (status == SF_OK) status = go_through(c);
    c->back = true;
    c->store = there;
    c->other = here;
    if (status == SF_OK) status = go_through(c);
    if (there->frozen) sf_store_unfreeze(there);
    if (here->frozen) sf_store_unfreeze(here);
    sf_release(c);
    return status;
}
