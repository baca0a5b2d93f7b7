#include "measure/scores.h"

#include <math.h>
#include <string.h>

#include "base/stop.h"
#include "measure/conditions.h"
#include "measure/quantiles.h"
#include "measure/sharpness.h"
#include "train/batch.h"
#include "train/evaluator.h"

enum {
    BATCH = 128, /* sequences observed at once */
    SIDE = 4,    /* of a tile: queries and keys whose scores are computed together */
};

const double sf_quantile_percents[SF_QUANTILES] = {0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100};

const char *sf_measure_name(sf_measure measure) {
    static const char *const names[SF_MEASURES] = {
        [SF_DISPERSION] = "delta_s",    [SF_KEPT_DISPERSION] = "delta_h",
        [SF_SEPARATION] = "separation", [SF_IN_DEGREE] = "in_degree",
        [SF_LN_STABILITY] = "ln_xi",    [SF_CONDITION_W] = "w",
        [SF_CONDITION_X] = "x",         [SF_EFFECTIVE_KEYS] = "effective_keys",
        [SF_ENTROPY] = "entropy",
    };
    return names[measure];
}

typedef struct tally { /* of one block, by one worker */
    sf_quantiles values[SF_MEASURES];
    uint64_t queries, holds_w, holds_x;
    uint64_t seen, kept;   /* queries, and the keys they kept */
    double largest_square; /* of a token's norm */
} tally;

typedef struct seen_query {
    double dispersion, kept_dispersion, separation;
    sf_sharpness sharpness;
    size_t kept;
    bool leaves_others; /* not every visible key is kept: there is something to be separated from */
} seen_query;

typedef struct workspace {  /* one worker's */
    tally *blocks;          /* [L] */
    double *queries, *keys; /* [panels,C,SIDE]: one head's */
    double *scores;         /* [SIDE,panels * SIDE] */
    uint32_t *kept;         /* [2T] */
    uint32_t *every;        /* [T]: 0, 1, 2, ... */
    double *steps;          /* [score transforms + 1,T] */
    sf_weighed weighed;
    bool *is_kept;     /* [T] */
    uint32_t *degrees; /* [T] */
    seen_query *seen;  /* [T] */
} workspace;

struct sf_meter {
    const sf_model *model;
    sf_evaluator evaluator;
    sf_pattern pattern;    /* of a mechanism by position that is not full */
    workspace *workspaces; /* [workers] */
    size_t workers;
    tally *totals; /* [L+1]: blocks, and all of them */
    sf_batch_room room;
    const sf_moment *moment; /* of the batch that is observed */
    const atomic_int *stop;  /* may be NULL */
};

static bool keeps_all(const sf_shape *shape) {
    return sf_attention_keeps_visible(&shape->attention);
}

size_t sf_sink_keys(const sf_shape *shape) {
    return shape->attention.selector->takes_k && shape->attention.k < shape->T ? shape->attention.k : shape->T;
}

/* If not, the number of kept keys is measured. */
static bool has_nominal_number(const sf_shape *shape) {
    if (shape->attention.causal || sf_attention_has_extras(&shape->attention)) return false;
    return keeps_all(shape) || shape->attention.selector->keeps_k;
}

bool sf_has_separation(const sf_shape *shape) {
    const sf_selector *selector = shape->attention.selector;
    return selector->separates_scores && !sf_attention_has_extras(&shape->attention) && shape->attention.globals == 0 &&
           !(selector->keeps_k && shape->attention.k >= shape->T);
}

static void clear_tally(tally *t) {
    for (size_t m = 0; m < SF_MEASURES; m++) sf_quantiles_clear(&t->values[m]);
    *t = (tally){0};
}

static void close_workspace(workspace *b, size_t L) {
    for (size_t l = 0; b->blocks != NULL && l < L; l++) clear_tally(&b->blocks[l]);
    sf_release(b->blocks);
    sf_release(b->queries);
    sf_release(b->keys);
    sf_release(b->scores);
    sf_release(b->kept);
    sf_release(b->every);
    sf_release(b->steps);
    sf_weighed_close(&b->weighed);
    sf_release(b->is_kept);
    sf_release(b->degrees);
    sf_release(b->seen);
}

static sf_status open_workspace(workspace *b, const sf_shape *s) {
    SF_TRY(SF_NEW(&b->blocks, s->L));
    const size_t panels = (s->T + SIDE - 1) / SIDE * SIDE;
    SF_TRY(SF_NEW(&b->queries, s->D * panels));
    SF_TRY(SF_NEW(&b->keys, s->D * panels));
    SF_TRY(SF_NEW(&b->scores, SIDE * panels));
    SF_TRY(SF_NEW(&b->kept, 2 * s->T));
    SF_TRY(SF_NEW(&b->every, s->T));
    for (size_t j = 0; j < s->T; j++) b->every[j] = (uint32_t)j;
    SF_TRY(SF_NEW(&b->steps, (sf_attention_score_steps(&s->attention) + 1) * s->T));
    SF_TRY(sf_weighed_open(&b->weighed, s));
    SF_TRY(SF_NEW(&b->is_kept, s->T));
    SF_TRY(SF_NEW(&b->degrees, s->T));
    return SF_NEW(&b->seen, s->T);
}

static sf_status open_meter(sf_meter *meter, const sf_machine *machine) {
    const sf_shape *s = &meter->model->shape;
    SF_TRY(sf_evaluator_open(&meter->evaluator, machine, SF_OBSERVATION_WORK, meter->model, SF_F32, BATCH, 1));
    meter->workers = sf_evaluator_workers(&meter->evaluator);
    if (sf_attention_selects_by(&s->attention) == SF_BY_POSITION && !keeps_all(s))
        SF_TRY(sf_pattern_create(&meter->pattern, &s->attention, s->T));
    SF_TRY(SF_NEW(&meter->workspaces, meter->workers));
    for (size_t w = 0; w < meter->workers; w++) SF_TRY(open_workspace(&meter->workspaces[w], s));
    SF_TRY(SF_NEW(&meter->totals, s->L + 1));
    return sf_batch_room_open(&meter->room, BATCH, s->T);
}

sf_status sf_meter_create(sf_meter **out, const sf_model *model, const sf_machine *machine) {
    *out = NULL;
    sf_meter *meter;
    SF_TRY(SF_NEW(&meter, 1));
    meter->model = model;
    const sf_status status = open_meter(meter, machine);
    if (status != SF_OK)
        sf_meter_destroy(meter);
    else
        *out = meter;
    return status;
}

void sf_meter_destroy(sf_meter *meter) {
    if (meter == NULL) return;
    const size_t L = meter->model->shape.L;
    for (size_t w = 0; meter->workspaces != NULL && w < meter->workers; w++) close_workspace(&meter->workspaces[w], L);
    for (size_t l = 0; meter->totals != NULL && l <= L; l++) clear_tally(&meter->totals[l]);
    sf_evaluator_close(&meter->evaluator);
    sf_pattern_destroy(&meter->pattern);
    sf_release(meter->workspaces);
    sf_release(meter->totals);
    sf_batch_room_close(&meter->room);
    sf_release(meter);
}

void sf_meter_obey(sf_meter *meter, const atomic_int *stop) {
    meter->stop = stop;
    sf_evaluator_obey(&meter->evaluator, stop);
}

/* NaN if either is, in any order. */
static double larger(double a, double b) {
    return isnan(a) || a >= b ? a : b;
}

static void note_tokens(tally *t, const float *input /* [T,Cp] */, size_t T, size_t C) {
    for (size_t i = 0; i < T; i++) {
        double square = 0;
        for (size_t c = 0; c < C; c++)
            square += (double)input[i * sf_padded(C) + c] * (double)input[i * sf_padded(C) + c];
        t->largest_square = larger(t->largest_square, square);
    }
}

/* Rows as panels of SIDE side by side, channel after channel; missing rows are 0. */
static void make_panels(double *panels /* [T/SIDE,C,SIDE] */, double scale, const float *rows, size_t stride, size_t T,
                        size_t C) {
    for (size_t first = 0; first < T; first += SIDE)
        for (size_t c = 0; c < C; c++)
            for (size_t n = 0; n < SIDE; n++)
                *panels++ = first + n < T ? scale * (double)rows[(first + n) * stride + c] : 0;
}

/* The products of a panel of queries with a panel of keys, in double: a tile that stays in registers. */
static void multiply_panels(double *out, size_t row /* from one query to the next */,
                            const double *queries /* [C,SIDE] */, const double *keys /* [C,SIDE] */, size_t C) {
    double sums[SIDE][SIDE] = {{0}};
    for (size_t c = 0; c < C; c++)
        for (size_t n = 0; n < SIDE; n++)
            for (size_t j = 0; j < SIDE; j++) sums[n][j] += queries[c * SIDE + n] * keys[c * SIDE + j];
    for (size_t n = 0; n < SIDE; n++) memcpy(out + n * row, sums[n], sizeof sums[n]);
}

typedef struct range {
    double low, high;
} range;

static void widen(range *r, double value) {
    r->low = value < r->low ? value : r->low;
    r->high = value > r->high ? value : r->high;
}

/* NaN if a score is NaN, or infinite where both ends are. */
static double width_of(const range *r, bool poisoned) {
    return poisoned ? NAN : r->high - r->low;
}

typedef struct head_view {
    const sf_meter *meter;
    workspace *space;
    const sf_attention_view *view;
    size_t head;
    sf_index key_index;
} head_view;

/* The keys a query keeps: its row of the pattern, or chosen as in the kernels. */
static const uint32_t *kept_keys(size_t *count, const head_view *at, size_t query, const double *scores) {
    const sf_shape *s = &at->meter->model->shape;
    const sf_pattern *pattern = &at->meter->pattern;
    if (pattern->keys != NULL) {
        *count = pattern->offsets[query + 1] - pattern->offsets[query];
        return pattern->keys + pattern->offsets[query];
    }
    if (keeps_all(s)) {
        *count = sf_attention_visible(&s->attention, query, s->T);
        return at->space->every;
    }
    if (sf_attention_needs_head(&s->attention))
        return sf_view_chosen(count, at->space->kept, at->view, s->T, at->head, query);
    sf_draws draws = sf_query_draws(at->key_index, query);
    *count = sf_attention_keep(at->space->kept, &s->attention, query, s->T, scores, &draws);
    return at->space->kept;
}

/* From the nearer edge of the kept scores to the others. Top-k keeps the upper ones, bottom-k the lower ones. */
static double gap_between(const range *kept, const range *others) {
    return fmax(kept->low - others->high, others->low - kept->high);
}

/* In place, for the visible keys. */
static void transform_scores(double *scores /* [visible] */, const head_view *at, size_t query, size_t visible) {
    const sf_shape *s = &at->meter->model->shape;
    const size_t steps = sf_attention_score_steps(&s->attention);
    if (steps == 0) return;
    memcpy(at->space->steps, scores, visible * sizeof *scores);
    sf_attention_transform_scores(
        at->space->steps, &s->attention,
        &(sf_scored_keys){
            .query = query, .count = visible, .T = s->T, .keys = at->space->every, .head = at->head, .heads = s->H});
    memcpy(scores, at->space->steps + steps * visible, visible * sizeof *scores);
}

static seen_query look_at_query(const head_view *at, size_t query, double *scores /* [T] */) {
    const sf_shape *s = &at->meter->model->shape;
    const size_t visible = sf_attention_visible(&s->attention, query, s->T);
    const range nothing = {INFINITY, -INFINITY};
    range all = nothing, kept = nothing, others = nothing;
    bool poisoned = false;
    transform_scores(scores, at, query, visible);
    for (size_t j = 0; j < visible; j++) {
        widen(&all, scores[j]);
        poisoned |= isnan(scores[j]);
    }
    seen_query seen = {.dispersion = width_of(&all, poisoned), .separation = NAN};
    const uint32_t *keys = kept_keys(&seen.kept, at, query, scores);
    sf_weighed_add(&at->space->weighed, s, query, scores, keys, seen.kept);
    for (size_t n = 0; n < seen.kept; n++) {
        at->space->degrees[keys[n]]++;
        widen(&kept, scores[keys[n]]);
    }
    seen.kept_dispersion = width_of(&kept, poisoned);
    seen.leaves_others = seen.kept < visible;
    if (!sf_has_separation(s) || !seen.leaves_others) return seen;
    bool *is_kept = at->space->is_kept;
    memset(is_kept, 0, s->T * sizeof *is_kept);
    for (size_t n = 0; n < seen.kept; n++) is_kept[keys[n]] = true;
    for (size_t j = 0; j < visible; j++)
        if (!is_kept[j]) widen(&others, scores[j]);
    seen.separation = poisoned ? NAN : gap_between(&kept, &others);
    return seen;
}

static void note_conditions(tally *t, const seen_query *seen, double sink_ratio) {
    const sf_condition_input input = {seen->dispersion, seen->kept_dispersion, seen->separation, sink_ratio};
    const double w = sf_condition_w(&input), x = sf_condition_x(&input);
    t->queries++;
    t->holds_w += w < 1;
    t->holds_x += x < 1;
    sf_quantiles_add(&t->values[SF_CONDITION_W], w);
    sf_quantiles_add(&t->values[SF_CONDITION_X], x);
}

/* After all queries of a head: in-degrees are known. */
static void note_head(tally *t, const head_view *at) {
    const sf_shape *s = &at->meter->model->shape;
    const workspace *space = at->space;
    const bool separated = sf_has_separation(s);
    const double k = (double)sf_sink_keys(s);
    uint32_t largest = 0;
    for (size_t j = 0; j < s->T; j++) {
        const uint32_t degree = space->degrees[j];
        largest = degree > largest ? degree : largest;
        sf_quantiles_add(&t->values[SF_IN_DEGREE], degree);
    }
    for (size_t i = 0; i < s->T; i++) {
        const seen_query *seen = &space->seen[i];
        sf_quantiles_add(&t->values[SF_DISPERSION], seen->dispersion);
        sf_quantiles_add(&t->values[SF_KEPT_DISPERSION], seen->kept_dispersion);
        if (separated && seen->leaves_others) sf_quantiles_add(&t->values[SF_SEPARATION], seen->separation);
        sf_quantiles_add(&t->values[SF_EFFECTIVE_KEYS], seen->sharpness.effective_keys);
        sf_quantiles_add(&t->values[SF_ENTROPY], seen->sharpness.entropy);
        t->seen++;
        t->kept += seen->kept;
        if (!sf_attention_has_theory(&s->attention)) continue;
        sf_quantiles_add(&t->values[SF_LN_STABILITY],
                         separated ? sf_ln_stability_by_score(seen->kept_dispersion, seen->separation, seen->kept)
                                   : sf_ln_stability_fixed(seen->kept_dispersion, seen->kept));
        if (separated) note_conditions(t, seen, (double)largest / k);
    }
}

/* Every query of a head, a panel of them at a time. */
static void look_at_head(const head_view *at) {
    const size_t T = at->meter->model->shape.T, D = at->meter->model->shape.D, row = (T + SIDE - 1) / SIDE * SIDE;
    workspace *space = at->space;
    memset(space->degrees, 0, T * sizeof *space->degrees);
    for (size_t first = 0; first < T && !sf_stop_asked(at->meter->stop); first += SIDE) {
        for (size_t j = 0; j < T; j += SIDE)
            multiply_panels(space->scores + j, row, space->queries + first * D, space->keys + j * D, D);
        for (size_t i = first; i < first + SIDE && i < T; i++)
            space->seen[i] = look_at_query(at, i, space->scores + (i - first) * row);
    }
    if (sf_stop_asked(at->meter->stop)) return;
    sf_weighed_finish(&space->weighed, &at->meter->model->shape);
    for (size_t i = 0; i < T; i++) space->seen[i].sharpness = space->weighed.sharpness[i];
}

static void observe(void *context, size_t worker, const sf_attention_view *view) {
    const sf_meter *meter = context;
    const sf_shape *s = &meter->model->shape;
    workspace *space = &meter->workspaces[worker];
    tally *t = &space->blocks[view->block];
    const double scale = s->inverse_temperature / sqrt((double)s->D);
    note_tokens(t, view->input, s->T, s->C);
    for (size_t h = 0; h < s->H; h++) {
        const size_t column = h * sf_padded(s->D);
        const sf_purpose chance = sf_moment_random_keys(meter->moment);
        const head_view at = {meter, space, view, h,
                              sf_moment_index(meter->moment, chance, view->block, h, view->sequence)};
        make_panels(space->queries, scale, view->q + column, view->stride, s->T, s->D);
        make_panels(space->keys, 1, view->k + column, view->stride, s->T, s->D);
        look_at_head(&at);
        note_head(t, &at);
    }
}

static void add_tally(tally *into, const tally *from) {
    for (size_t m = 0; m < SF_MEASURES; m++) sf_quantiles_merge(&into->values[m], &from->values[m]);
    into->queries += from->queries;
    into->seen += from->seen;
    into->kept += from->kept;
    into->holds_w += from->holds_w;
    into->holds_x += from->holds_x;
    into->largest_square = larger(into->largest_square, from->largest_square);
}

static void start_anew(sf_meter *meter) {
    const size_t L = meter->model->shape.L;
    for (size_t l = 0; l <= L; l++) clear_tally(&meter->totals[l]);
    for (size_t w = 0; w < meter->workers; w++)
        for (size_t l = 0; l < L; l++) clear_tally(&meter->workspaces[w].blocks[l]);
}

static void sum_up(sf_meter *meter) {
    const size_t L = meter->model->shape.L;
    for (size_t l = 0; l < L; l++) {
        for (size_t w = 0; w < meter->workers; w++) {
            add_tally(&meter->totals[l], &meter->workspaces[w].blocks[l]);
            clear_tally(&meter->workspaces[w].blocks[l]);
        }
        add_tally(&meter->totals[L], &meter->totals[l]);
    }
}

sf_status sf_meter_measure(sf_meter *meter, const float *params /* [size] */, const sf_measured_data *what) {
    const sf_shape *s = &meter->model->shape;
    const sf_dataset *set = what->split == SF_TRAINING ? what->data->training : what->data->heldout;
    const size_t all = sf_dataset_count(set), samples = what->samples > 0 && what->samples < all ? what->samples : all;
    sf_status status = SF_OK;
    start_anew(meter);
    for (size_t first = 0; first < samples && status == SF_OK; first += BATCH) {
        const size_t B = samples - first < BATCH ? samples - first : BATCH;
        for (size_t n = 0; n < B; n++) sf_batch_room_place(&meter->room, n, what->data, set, first + n, s);
        const sf_moment moment = sf_evaluation_moment(what->seed, what->split, first);
        meter->moment = &moment;
        const sf_batch batch = sf_batch_room_read(&meter->room, B);
        status = sf_evaluator_observe(&meter->evaluator, &(sf_observer){observe, meter}, params, &batch, &moment);
    }
    meter->moment = NULL;
    if (status == SF_OK) sum_up(meter);
    return status;
}

sf_status sf_meter_read(sf_block_measures *out, sf_meter *meter, size_t block) {
    tally *t = &meter->totals[block];
    for (size_t m = 0; m < SF_MEASURES; m++) {
        out->measures[m].count = t->values[m].count;
        out->measures[m].not_numbers = t->values[m].not_numbers;
        SF_TRY(sf_quantiles_read(out->measures[m].at, &t->values[m], sf_quantile_percents, SF_QUANTILES));
    }
    out->queries = t->queries;
    out->holds_w = t->holds_w;
    out->holds_x = t->holds_x;
    out->sink_keys = has_nominal_number(&meter->model->shape) ? (double)sf_sink_keys(&meter->model->shape)
                                                              : (double)t->kept / (double)t->seen;
    out->largest_token = sqrt(t->largest_square);
    return SF_OK;
}
