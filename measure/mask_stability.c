#include "measure/mask_stability.h"

#include <math.h>
#include <string.h>

enum {
    MOST_SEQUENCES = 64,          /* at a time */
    MASK_BYTES = 64 * 1024 * 1024 /* about as much memory as their masks may take */
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

typedef struct desk { /* one worker's */
    double *scores;   /* [T] */
    uint32_t *kept;   /* [T] */
    tally *tallies;   /* [L,scales,SF_SEPARATION_BINS] */
} desk;

typedef struct study {
    const sf_looker *looker;
    size_t k, scales, scale; /* scale: the one under way */
    desk *desks;             /* [threads] */
    uint32_t *masks;         /* [batch,L,H,T,k]: without noise */
    uint8_t *bins;           /* [batch,L,H,T] */
} study;

static size_t query_slot(const study *at, const sf_sight *sight, size_t head, size_t query) {
    const sf_shape *s = &at->looker->subject.model->shape;
    return ((sight->sequence * s->L + sight->block) * s->H + head) * s->T + query;
}

static void keep(const study *at, const desk *work, const sf_sight *sight, size_t head, size_t query) {
    sf_sight_scores(work->scores, sight, &at->looker->subject.model->shape, head, query);
    sf_sight_keep(work->kept, at->looker, sight, work->scores, head, query);
}

static void see_clean(void *context, size_t worker, const sf_sight *sight) {
    const study *at = context;
    const desk *work = &at->desks[worker];
    const sf_shape *s = &at->looker->subject.model->shape;
    for (size_t h = 0; h < s->H; h++)
        for (size_t i = 0; i < s->T; i++) {
            const size_t slot = query_slot(at, sight, h, i);
            keep(at, work, sight, h, i);
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

static void see_noisy(void *context, size_t worker, const sf_sight *sight) {
    const study *at = context;
    const desk *work = &at->desks[worker];
    const sf_shape *s = &at->looker->subject.model->shape;
    tally *tallies = work->tallies + (sight->block * at->scales + at->scale) * SF_SEPARATION_BINS;
    for (size_t h = 0; h < s->H; h++)
        for (size_t i = 0; i < s->T; i++) {
            const size_t slot = query_slot(at, sight, h, i);
            keep(at, work, sight, h, i);
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

static void sum_up(sf_block_stability *out, const study *at, size_t row /* of [L,scales] */) {
    tally all = {0};
    for (size_t bin = 0; bin < SF_SEPARATION_BINS; bin++) {
        tally sum = {0};
        for (size_t w = 0; w < at->looker->subject.threads; w++) {
            const tally *part = &at->desks[w].tallies[row * SF_SEPARATION_BINS + bin];
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

static sf_status open_study(study *at) {
    const sf_shape *s = &at->looker->subject.model->shape;
    const size_t queries = at->looker->batch * s->L * s->H * s->T;
    SF_TRY(SF_NEW(&at->masks, queries * at->k));
    SF_TRY(SF_NEW(&at->bins, queries));
    SF_TRY(SF_NEW(&at->desks, at->looker->subject.threads));
    for (size_t w = 0; w < at->looker->subject.threads; w++) {
        SF_TRY(SF_NEW(&at->desks[w].scores, s->T));
        SF_TRY(SF_NEW(&at->desks[w].kept, s->T));
        SF_TRY(SF_NEW(&at->desks[w].tallies, s->L * at->scales * SF_SEPARATION_BINS));
    }
    return SF_OK;
}

static void close_study(study *at) {
    for (size_t w = 0; at->desks != NULL && w < at->looker->subject.threads; w++) {
        sf_release(at->desks[w].scores);
        sf_release(at->desks[w].kept);
        sf_release(at->desks[w].tallies);
    }
    sf_release(at->desks);
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
    sf_looker looker;
    SF_TRY(sf_looker_open(&looker, subject, sequences_at_a_time(s)));
    study at = {.looker = &looker, .k = out->k, .scales = out->scales};
    sf_status status = open_study(&at);
    while (status == SF_OK && sf_looker_next(&looker)) {
        sf_looker_show(&looker, &(sf_observer){.see = see_clean, .context = &at}, 0);
        for (at.scale = 0; at.scale < at.scales; at.scale++)
            sf_looker_show(&looker, &(sf_observer){.see = see_noisy, .context = &at}, scales[at.scale]);
    }
    if (status == SF_OK) status = sf_attention_check_fault(&s->attention);
    for (size_t row = 0; status == SF_OK && row < out->count * out->scales; row++) sum_up(&out->blocks[row], &at, row);
    out->samples = looker.subject.samples;
    close_study(&at);
    sf_looker_close(&looker);
    return status;
}

sf_status sf_mask_stability_measure(sf_mask_stability **out, const sf_subject *subject, const double *scales,
                                    size_t scale_count) {
    *out = NULL;
    const sf_shape *s = &subject->model->shape;
    const sf_selector *selector = s->attention.selector;
    const bool fixed = (selector->selects_by & (SF_BY_SCORE | SF_BY_VECTORS)) == 0;
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
