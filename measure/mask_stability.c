#include "measure/mask_stability.h"

#include <math.h>
#include <string.h>

enum {
    MOST_SEQUENCES = 64,          /* sequences at a time */
    MASK_BYTES = 64 * 1024 * 1024 /* approximate limit on the memory of their masks */
};

static const double bin_starts[SF_SEPARATION_BINS] = {0, 1e-3, 1e-2, 1e-1, 1, 10};

double sf_separation_bin_start(size_t bin) {
    return bin_starts[bin];
}

static size_t bin_of(double separation) {
    size_t bin = SF_SEPARATION_BINS - 1;
    while (bin > 0 && separation < bin_starts[bin]) bin--;
    return bin;
}

typedef struct tally { /* of queries with one separation */
    size_t queries, keys_unchanged, masks_unchanged;
} tally;

typedef struct workspace { /* one worker's */
    double *scores;        /* [T] */
    uint32_t *kept;        /* [2T] */
    tally *tallies;        /* [L,scales,SF_SEPARATION_BINS] */
} workspace;

typedef struct measurement {
    const sf_observation *observation;
    size_t k, scales, scale; /* scale: the current one */
    workspace *workspaces;   /* [workers] */
    uint32_t *masks;         /* [batch,L,H,T,k]: without noise */
    uint8_t *bins;           /* [batch,L,H,T] */
} measurement;

static size_t query_slot(const measurement *at, const sf_attention_view *view, size_t head, size_t query) {
    const sf_shape *s = &at->observation->subject.model->shape;
    return ((view->sequence * s->L + view->block) * s->H + head) * s->T + query;
}

static void keep(const measurement *at, const workspace *work, const sf_attention_view *view, size_t head,
                 size_t query) {
    sf_view_scores(work->scores, view, &at->observation->subject.model->shape, head, query);
    sf_view_keep(work->kept, at->observation, view, work->scores, head, query);
}

static void observe_clean(void *context, size_t worker, const sf_attention_view *view) {
    const measurement *at = context;
    const workspace *work = &at->workspaces[worker];
    const sf_shape *s = &at->observation->subject.model->shape;
    for (size_t h = 0; h < s->H; h++)
        for (size_t i = 0; i < s->T; i++) {
            const size_t slot = query_slot(at, view, h, i);
            keep(at, work, view, h, i);
            memcpy(at->masks + slot * at->k, work->kept, at->k * sizeof *work->kept);
            at->bins[slot] = (uint8_t)bin_of(sf_separation(work->scores, work->kept, at->k, s->T));
        }
}

/* Common members of two ascending lists of k keys. */
static size_t common(const uint32_t *a, const uint32_t *b, size_t k) {
    size_t found = 0;
    for (size_t i = 0, j = 0; i < k && j < k;) {
        found += a[i] == b[j];
        const bool step_a = a[i] <= b[j], step_b = b[j] <= a[i];
        i += step_a;
        j += step_b;
    }
    return found;
}

static void observe_noisy(void *context, size_t worker, const sf_attention_view *view) {
    const measurement *at = context;
    const workspace *work = &at->workspaces[worker];
    const sf_shape *s = &at->observation->subject.model->shape;
    tally *tallies = work->tallies + (view->block * at->scales + at->scale) * SF_SEPARATION_BINS;
    for (size_t h = 0; h < s->H; h++)
        for (size_t i = 0; i < s->T; i++) {
            const size_t slot = query_slot(at, view, h, i);
            keep(at, work, view, h, i);
            const size_t unchanged = common(at->masks + slot * at->k, work->kept, at->k);
            tally *count = &tallies[at->bins[slot]];
            count->queries++;
            count->keys_unchanged += unchanged;
            count->masks_unchanged += unchanged == at->k;
        }
}

static sf_kept_shares shares_of(const tally *count, size_t k) {
    const double queries = (double)count->queries;
    return (sf_kept_shares){.queries = count->queries,
                            .keys_unchanged = (double)count->keys_unchanged / (queries * (double)k),
                            .masks_unchanged = (double)count->masks_unchanged / queries};
}

static void sum_up(sf_block_stability *out, const measurement *at, size_t row /* of [L,scales] */) {
    tally all = {0};
    for (size_t bin = 0; bin < SF_SEPARATION_BINS; bin++) {
        tally sum = {0};
        for (size_t w = 0; w < at->observation->workers; w++) {
            const tally *part = &at->workspaces[w].tallies[row * SF_SEPARATION_BINS + bin];
            sum.queries += part->queries;
            sum.keys_unchanged += part->keys_unchanged;
            sum.masks_unchanged += part->masks_unchanged;
        }
        out->by_separation[bin] = shares_of(&sum, at->k);
        all.queries += sum.queries;
        all.keys_unchanged += sum.keys_unchanged;
        all.masks_unchanged += sum.masks_unchanged;
    }
    out->all = shares_of(&all, at->k);
}

static sf_status open_measurement(measurement *at) {
    const sf_shape *s = &at->observation->subject.model->shape;
    const size_t queries = at->observation->batch * s->L * s->H * s->T;
    SF_TRY(SF_NEW(&at->masks, queries * at->k));
    SF_TRY(SF_NEW(&at->bins, queries));
    SF_TRY(SF_NEW(&at->workspaces, at->observation->workers));
    for (size_t w = 0; w < at->observation->workers; w++) {
        SF_TRY(SF_NEW(&at->workspaces[w].scores, s->T));
        SF_TRY(SF_NEW(&at->workspaces[w].kept, 2 * s->T));
        SF_TRY(SF_NEW(&at->workspaces[w].tallies, s->L * at->scales * SF_SEPARATION_BINS));
    }
    return SF_OK;
}

static void close_measurement(measurement *at) {
    for (size_t w = 0; at->workspaces != NULL && w < at->observation->workers; w++) {
        sf_release(at->workspaces[w].scores);
        sf_release(at->workspaces[w].kept);
        sf_release(at->workspaces[w].tallies);
    }
    sf_release(at->workspaces);
    sf_release(at->masks);
    sf_release(at->bins);
}

static void answer_fixed(sf_mask_stability *out) {
    out->fixed = true;
    for (size_t i = 0; i < out->count * out->scales; i++) {
        out->blocks[i].all = (sf_kept_shares){.keys_unchanged = 1, .masks_unchanged = 1};
        for (size_t bin = 0; bin < SF_SEPARATION_BINS; bin++)
            out->blocks[i].by_separation[bin] = (sf_kept_shares){0, NAN, NAN};
    }
}

static size_t sequences_at_a_time(const sf_shape *s) {
    const size_t bytes = s->L * s->H * s->T * (s->attention.k * sizeof(uint32_t) + 1);
    const size_t fit = MASK_BYTES / bytes;
    return fit < 1 ? 1 : fit < MOST_SEQUENCES ? fit : MOST_SEQUENCES;
}

static sf_status run(sf_mask_stability *out, const sf_subject *subject, const double *scales) {
    const sf_shape *s = &subject->model->shape;
    sf_observation observation;
    SF_TRY(sf_observation_open(&observation, subject, sequences_at_a_time(s)));
    measurement at = {.observation = &observation, .k = out->k, .scales = out->scales};
    const sf_observer clean = {.observe = observe_clean, .context = &at};
    const sf_observer noisy = {.observe = observe_noisy, .context = &at};
    sf_status status = open_measurement(&at);
    while (status == SF_OK && sf_observation_next(&observation)) {
        status = sf_observation_run(&observation, &clean, 0);
        for (at.scale = 0; at.scale < at.scales && status == SF_OK; at.scale++)
            status = sf_observation_run(&observation, &noisy, scales[at.scale]);
    }
    for (size_t row = 0; status == SF_OK && row < out->count * out->scales; row++) sum_up(&out->blocks[row], &at, row);
    out->samples = observation.subject.samples;
    close_measurement(&at);
    sf_observation_close(&observation);
    return status;
}

sf_status sf_mask_stability_measure(sf_mask_stability **out, const sf_subject *subject, const double *scales,
                                    size_t scale_count) {
    *out = NULL;
    const sf_shape *s = &subject->model->shape;
    const sf_selector *selector = s->attention.selector;
    const bool fixed = (sf_attention_selects_by(&s->attention) & (SF_BY_SCORE | SF_BY_VECTORS)) == 0;
    const bool is_plain = !sf_attention_has_extras(&s->attention) && s->attention.globals == 0 &&
                          !s->attention.causal && sf_attention_score_steps(&s->attention) == 0;
    if (!fixed && selector->keeps_k && selector->separates_scores && !is_plain)
        return sf_fail(SF_UNSUPPORTED,
                       "mask stability is not defined for the selector %s with extras, score "
                       "transforms or a causal model",
                       selector->name);
    if (!fixed && !(selector->keeps_k && selector->separates_scores))
        return sf_fail(
            SF_UNSUPPORTED,
            "mask stability is not defined for the selector %s, which does not keep a given number of extreme "
            "scores",
            selector->name);
    for (size_t i = 0; i < scale_count; i++)
        if (!(scales[i] >= 0 && scales[i] < INFINITY))
            return sf_fail(SF_BAD_INPUT, "noise of scale %g was asked for; it must be a finite number of at least 0",
                           scales[i]);
    sf_mask_stability *stability;
    SF_TRY(SF_NEW(&stability, 1));
    stability->count = s->L;
    stability->scales = scale_count;
    stability->samples = subject->samples;
    stability->k = s->attention.k < s->T ? s->attention.k : s->T;
    sf_status status = SF_NEW(&stability->blocks, s->L * scale_count);
    for (size_t i = 0; status == SF_OK && i < s->L * scale_count; i++)
        stability->blocks[i].noise = scales[i % scale_count];
    if (status == SF_OK && fixed)
        answer_fixed(stability);
    else if (status == SF_OK)
        status = run(stability, subject, scales);
    if (status != SF_OK) {
        sf_mask_stability_destroy(stability);
        return status;
    }
    *out = stability;
    return SF_OK;
}

void sf_mask_stability_destroy(sf_mask_stability *stability) {
    if (stability == NULL) return;
    sf_release(stability->blocks);
    sf_release(stability);
}
