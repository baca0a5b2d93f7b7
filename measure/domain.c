#include "measure/domain.h"

#include <math.h>

#include "base/sorted.h"

enum { BATCH = 64 };

typedef enum quantity {
    DISPERSION,
    SEPARATION,
    IN_DEGREE,
    TOKEN_NORM,
    ATTENTION_DEVIATION,
    MLP_DEVIATION,
    QUANTITIES
} quantity;

typedef struct workspace { /* one worker's */
    double *scores;        /* [T] */
    uint32_t *kept;        /* [2T] */
    uint32_t *degree;      /* [T] */
} workspace;

typedef struct measurement {
    const sf_observation *observation;
    workspace *workspaces;      /* [workers] */
    double *values[QUANTITIES]; /* [L,samples,T], by head too for the first three: [L,samples,H,T] */
    size_t fewest_kept, most_kept;
} measurement;

static bool per_head(quantity what) {
    return what <= IN_DEGREE;
}

static double *place_of(const measurement *at, quantity what, const sf_attention_view *view) {
    const sf_shape *s = &at->observation->subject.model->shape;
    const size_t width = s->T * (per_head(what) ? s->H : 1);
    return at->values[what] +
           (view->block * at->observation->subject.samples + at->observation->first + view->sequence) * width;
}

static double spread(const double *scores, const uint32_t *kept, size_t count) {
    double low = INFINITY, high = -INFINITY;
    for (size_t n = 0; n < count; n++) {
        low = fmin(low, scores[kept[n]]);
        high = fmax(high, scores[kept[n]]);
    }
    return high - low;
}

static void observe_head(const measurement *at, const workspace *work, const sf_attention_view *view, size_t head) {
    const sf_shape *s = &at->observation->subject.model->shape;
    const size_t T = s->T;
    const bool by_score = s->attention.selector->separates_scores;
    double *dispersion = place_of(at, DISPERSION, view) + head * T;
    double *separation = place_of(at, SEPARATION, view) + head * T;
    double *in_degree = place_of(at, IN_DEGREE, view) + head * T;
    for (size_t j = 0; j < T; j++) work->degree[j] = 0;
    for (size_t i = 0; i < T; i++) {
        sf_view_scores(work->scores, view, s, head, i);
        const size_t count = sf_view_keep(work->kept, at->observation, view, work->scores, head, i);
        dispersion[i] = spread(work->scores, work->kept, count);
        separation[i] = by_score ? sf_separation(work->scores, work->kept, count, T) : INFINITY;
        for (size_t n = 0; n < count; n++) work->degree[work->kept[n]]++;
    }
    for (size_t j = 0; j < T; j++) in_degree[j] = work->degree[j];
}

static void observe(void *context, size_t worker, const sf_attention_view *view) {
    const measurement *at = context;
    const sf_shape *s = &at->observation->subject.model->shape;
    const size_t Cp = sf_padded(s->C);
    for (size_t h = 0; h < s->H; h++) observe_head(at, &at->workspaces[worker], view, h);
    double *norm = place_of(at, TOKEN_NORM, view);
    double *attention = place_of(at, ATTENTION_DEVIATION, view), *mlp = place_of(at, MLP_DEVIATION, view);
    for (size_t t = 0; t < s->T; t++) {
        double sum = 0;
        for (size_t c = 0; c < s->C; c++) {
            const double x = (double)view->input[t * Cp + c];
            sum += x * x;
        }
        norm[t] = sqrt(sum);
        /* A row without variance has factor 0 and is outside of every domain. */
        attention[t] = view->attention_rstd[t] > 0 ? 1 / (double)view->attention_rstd[t] : 0;
        mlp[t] = view->mlp_rstd[t] > 0 ? 1 / (double)view->mlp_rstd[t] : 0;
    }
}

static double quantile_of(const measurement *at, quantity what, size_t block, double share) {
    const sf_shape *s = &at->observation->subject.model->shape;
    const size_t count = at->observation->subject.samples * s->T * (per_head(what) ? s->H : 1);
    double *values = at->values[what] + block * count;
    sf_sort(values, count);
    return sf_sorted_quantile(values, count, share);
}

static void count_kept(measurement *at) {
    const sf_attention *attention = &at->observation->subject.model->shape.attention;
    const size_t T = at->observation->subject.model->shape.T;
    at->fewest_kept = at->most_kept = attention->k < T ? attention->k : T;
    if (attention->selector->selects_by != SF_BY_POSITION) return;
    at->fewest_kept = T;
    at->most_kept = 1;
    for (size_t i = 0; i < T; i++) {
        const size_t count = sf_attention_keep(at->workspaces[0].kept, attention, i, T, NULL, NULL);
        if (count < at->fewest_kept) at->fewest_kept = count;
        if (count > at->most_kept) at->most_kept = count;
    }
}

static sf_bound_domain domain_of(const measurement *at, size_t block, double share) {
    return (sf_bound_domain){
        .dispersion = quantile_of(at, DISPERSION, block, share),
        .separation = quantile_of(at, SEPARATION, block, 1 - share),
        .in_degree = quantile_of(at, IN_DEGREE, block, share),
        .fewest_kept = (double)at->fewest_kept,
        .most_kept = (double)at->most_kept,
        .token_norm = quantile_of(at, TOKEN_NORM, block, share),
        .attention_deviation = quantile_of(at, ATTENTION_DEVIATION, block, 1 - share),
        .mlp_deviation = quantile_of(at, MLP_DEVIATION, block, 1 - share),
    };
}

static sf_status open_measurement(measurement *at) {
    const sf_shape *s = &at->observation->subject.model->shape;
    const size_t rows = s->L * at->observation->subject.samples * s->T;
    for (quantity what = 0; what < QUANTITIES; what++)
        SF_TRY(SF_NEW(&at->values[what], rows * (per_head(what) ? s->H : 1)));
    SF_TRY(SF_NEW(&at->workspaces, at->observation->workers));
    for (size_t w = 0; w < at->observation->workers; w++) {
        SF_TRY(SF_NEW(&at->workspaces[w].scores, s->T));
        SF_TRY(SF_NEW(&at->workspaces[w].kept, 2 * s->T));
        SF_TRY(SF_NEW(&at->workspaces[w].degree, s->T));
    }
    return SF_OK;
}

static void close_measurement(measurement *at) {
    for (quantity what = 0; what < QUANTITIES; what++) sf_release(at->values[what]);
    for (size_t w = 0; at->workspaces != NULL && w < at->observation->workers; w++) {
        sf_release(at->workspaces[w].scores);
        sf_release(at->workspaces[w].kept);
        sf_release(at->workspaces[w].degree);
    }
    sf_release(at->workspaces);
}

sf_status sf_domain_measure(sf_bound_domain *out /* [L] */, size_t *samples, const sf_subject *subject, double share) {
    if (!(share > 0 && share <= 1))
        return sf_fail(SF_BAD_INPUT, "a share of %g of the queries was asked for; it must be above 0 and at most 1",
                       share);
    sf_observation observation;
    SF_TRY(sf_observation_open(&observation, subject, BATCH));
    measurement at = {.observation = &observation};
    const sf_observer observer = {.observe = observe, .context = &at};
    sf_status status = open_measurement(&at);
    while (status == SF_OK && sf_observation_next(&observation))
        status = sf_observation_run(&observation, &observer, 0);
    if (status == SF_OK) {
        count_kept(&at);
        for (size_t block = 0; block < subject->model->shape.L; block++) out[block] = domain_of(&at, block, share);
        *samples = observation.subject.samples;
    }
    close_measurement(&at);
    sf_observation_close(&observation);
    return status;
}
