/* How many seeds of a study a store has: planned with ever more of them until the last is new. */
#include <stdio.h>

#include "store/store.h"
#include "study/study.h"

enum { FIRST_GUESS = 16, MOST_SEEDS = 1000 }; /* of the setting seeds */

static sf_status set_seeds(sf_study *study, size_t count) {
    char text[24];
    snprintf(text, sizeof text, "%zu", count);
    return sf_layer_set_one(&study->layers[SF_LAYER_OVERRIDES], "seeds", text);
}

static size_t place_of(int64_t seed, size_t seeds) {
    for (size_t i = 0; i < seeds; i++)
        if (sf_study_seed(i) == seed) return i + 1;
    return 0;
}

/* The place of the last seed, counted from 1, of which the store has a run. */
static sf_status find_last(size_t *last, sf_study *study, sf_store *store, size_t seeds) {
    sf_stored_run run;
    bool found;
    SF_TRY(set_seeds(study, seeds));
    SF_TRY(sf_study_plan(study));
    for (size_t i = 0; i < study->run_count; i++) {
        const size_t place = place_of(study->runs[i].config.seed, seeds);
        if (place <= *last) continue;
        SF_TRY(sf_store_look_up(&run, &found, store, study->runs[i].id));
        if (found) *last = place;
    }
    sf_study_forget_plan(study);
    return SF_OK;
}

sf_status sf_study_add_seeds(sf_study *study, sf_store *store, size_t count) {
    static const char *const names[] = {"seed", "seeds"};
    size_t last = 0;
    for (size_t i = 0; i < 2; i++)
        if (sf_layer_find(&study->layers[SF_LAYER_OVERRIDES], names[i]) != NULL)
            return sf_fail_on(SF_BAD_INPUT, "add-seeds",
                              "add-seeds counts from the seeds that the store has; leave out --%s", names[i]);
    for (size_t guess = FIRST_GUESS; store != NULL && guess <= MOST_SEEDS; guess *= 2) {
        SF_TRY(find_last(&last, study, store, guess));
        if (last <= guess / 2) break;
    }
    if (last + count > MOST_SEEDS)
        return sf_fail_on(
            SF_BAD_INPUT, "add-seeds",
            "add-seeds is %zu but the store has %zu seeds of this study, and a study has at most %d; give "
            "fewer",
            count, last, (int)MOST_SEEDS);
    return set_seeds(study, last + count);
}
