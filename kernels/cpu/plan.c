#include "kernels/cpu/plan.h"

#include <math.h>

#include "attention/groups.h"
#include "attention/room.h"
#include "base/elementary.h"
#include "base/sizes.h"

static void convert_positions(float *out /* [T,Cp] */, const double *in /* [T,C] */, size_t T, size_t C) {
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c++) out[t * sf_padded(C) + c] = (float)in[t * C + c];
}

/* Only long sequences are cut into stretches. */
static sf_status find_reach(sf_cpu_plan *plan, size_t T) {
    const sf_pattern *pattern = &plan->pattern;
    const size_t stretches = (T + SF_GROUP_ROWS - 1) / SF_GROUP_ROWS;
    if (pattern->keys == NULL || stretches < 2) return SF_OK;
    SF_TRY(SF_NEW(&plan->reach, stretches));
    for (size_t s = 0; s < stretches; s++)
        plan->reach[s] = (sf_reach){.ahead = sf_smaller((s + 1) * SF_GROUP_ROWS, T), .behind = T};
    for (size_t query = 0; query < T; query++)
        for (size_t i = pattern->offsets[query]; i < pattern->offsets[query + 1]; i++) {
            sf_reach *reach = &plan->reach[query / SF_GROUP_ROWS];
            reach->ahead = sf_larger(reach->ahead, pattern->keys[i] + 1);
            reach->behind = sf_smaller(reach->behind, pattern->keys[i]);
        }
    for (size_t s = 1; s < stretches; s++)
        plan->reach[s].ahead = sf_larger(plan->reach[s].ahead, plan->reach[s - 1].ahead);
    for (size_t s = stretches - 1; s-- > 0;)
        plan->reach[s].behind = sf_smaller(plan->reach[s].behind, plan->reach[s + 1].behind);
    return SF_OK;
}

/* Full attention under softmax, whatever turned its queries and keys. */
static bool is_dense(const sf_attention *attention) {
    return sf_attention_keeps_visible(attention) && attention->weighting == &sf_weighting_softmax &&
           sf_attention_score_steps(attention) == 0;
}

/* Whether lists of kept keys may be stored: their number is bounded by the spelling, or by a fixed pattern. */
static bool has_short_lists(const sf_attention *attention, size_t T) {
    if (sf_attention_keeps_visible(attention)) return false;
    if (sf_attention_selects_by(attention) == SF_BY_POSITION) return true;
    return attention->selector->keeps_k && !attention->causal && sf_attention_most_kept_by(attention, 0, T) < T;
}

static bool is_rowwise(const sf_attention *attention, size_t T) {
    return sf_attention_score_steps(attention) > 0 || attention->straight_through || !has_short_lists(attention, T);
}

static void choose_kernel(sf_cpu_plan *plan, const sf_attention *attention, size_t T) {
    plan->dense = is_dense(attention);
    plan->matrix = sf_attention_weighs_matrix(attention);
    plan->joint = sf_attention_prepares_batch(attention) || sf_attention_weighs_batch(attention);
    plan->rowwise = !plan->dense && !plan->matrix && is_rowwise(attention, T);
    plan->scores_all =
        !plan->dense && ((sf_attention_selects_by(attention) & SF_BY_SCORE) != 0 || attention->straight_through ||
                         (sf_attention_keeps_visible(attention) && (plan->rowwise || plan->matrix)));
    plan->grouped = plan->rowwise && !plan->scores_all && sf_attention_has_groups(attention) &&
                    sf_attention_score_steps(attention) == 0;
}

/* Whether the kernel of blocktopk computes a mechanism: it stores the weights of the kept keys, so those must be few,
 * and blocks must be whole vectors. */
static void choose_blocks(sf_cpu_plan *plan, const sf_attention *attention, size_t T) {
    enum { MOST_KEPT = 1024 };
    const size_t width = (size_t)attention->arguments[0], m = (size_t)attention->arguments[1];
    const bool plain = attention->selector == &sf_selector_blocktopk && !sf_attention_has_extras(attention) &&
                       attention->globals == 0 && !attention->causal && !attention->straight_through &&
                       attention->weighting == &sf_weighting_softmax && sf_attention_score_steps(attention) == 0;
    if (!plain || width % SF_PADDING != 0 || width * m > MOST_KEPT || width * m >= T) return;
    plan->block_width = width;
    plan->block_m = m;
}

static sf_status find_turns(sf_cpu_plan *plan, const sf_shape *s) {
    for (size_t t = 0; t < SF_MOST_TRANSFORMS; t++) {
        const sf_attention_transform *transform = &s->attention.transforms[t];
        for (size_t i = 0; i < 2 && transform->part == &sf_transform_qknorm; i++)
            plan->norm_factors[i] = (float)sf_qknorm_factor(transform->arguments, s->D, i == 1);
        if (transform->part != &sf_transform_rope) continue;
        SF_TRY(SF_NEW(&plan->angles, s->T * (s->D / 2) * 2));
        const size_t pairs = s->D / 2;
        for (size_t i = 0; i < s->T * pairs; i++) {
            const double angle = sf_rope_angle(i / pairs, i % pairs, s->D);
            float *row = plan->angles + i / pairs * 2 * pairs;
            row[i % pairs] = (float)sf_cos(angle);
            row[pairs + i % pairs] = (float)sf_sin(angle);
        }
    }
    return SF_OK;
}

static size_t run_length(size_t run, size_t D) {
    return run == 0 ? D + 1 : D - (run - 1);
}

/* fastmax with every key kept is linear in T by its features, which pays unless they are many more than the keys. */
static sf_status slice_features(sf_cpu_plan *plan, const sf_shape *s) {
    enum { FULL = 128 };
    const size_t features = 1 + s->D + s->D * (s->D + 1) / 2;
    const bool all = sf_attention_keeps_visible(&s->attention) && !s->attention.causal &&
                     sf_attention_score_steps(&s->attention) == 0;
    if (!all || s->attention.weighting != &sf_weighting_fastmax || 4 * s->T < features) return SF_OK;
    SF_TRY(SF_NEW(&plan->slices, s->D + 1));
    for (size_t run = 0; run <= s->D;) {
        sf_feature_slice slice = {.first = run, .at = plan->features};
        for (; run <= s->D && slice.width < FULL; run++) slice.width += run_length(run, s->D);
        slice.end = run;
        slice.width = sf_padded(slice.width);
        plan->features += slice.width;
        plan->slices[plan->slice_count++] = slice;
    }
    return SF_OK;
}

static sf_status list_every(sf_cpu_plan *plan, size_t T) {
    SF_TRY(SF_NEW(&plan->every, T));
    for (size_t j = 0; j < T; j++) plan->every[j] = (uint32_t)j;
    return SF_OK;
}

sf_status sf_cpu_plan_create(sf_cpu_plan **out, const sf_model *model, sf_precision precision) {
    *out = NULL;
    const sf_shape *s = &model->shape;
    sf_cpu_plan *plan;
    double *positions = NULL;
    SF_TRY(SF_NEW(&plan, 1));
    plan->model = model;
    plan->kernels = sf_cpu_kernels_for(precision);
    plan->rows = (sf_rows){.Cp = sf_padded(s->C),
                           .Fp = sf_padded(s->F),
                           .Tp = sf_padded(s->T),
                           .Dp = sf_padded(s->D),
                           .HDp = s->H * sf_padded(s->D)};
    plan->group = s->T < SF_GROUP_ROWS ? SF_GROUP_ROWS / s->T : 1;
    choose_kernel(plan, &s->attention, s->T);
    choose_blocks(plan, &s->attention, s->T);
    plan->score_scale = (float)(s->inverse_temperature / sqrt((double)s->D));
    plan->embedding_scale = (float)sqrt((double)s->C);
    sf_status status = SF_NEW(&positions, s->T * s->C);
    if (status == SF_OK) status = SF_NEW(&plan->positions, s->T * plan->rows.Cp);
    if (status == SF_OK && !plan->dense && !plan->rowwise && !plan->matrix)
        status = sf_pattern_create(&plan->pattern, &s->attention, s->T);
    if (status == SF_OK) status = find_turns(plan, s);
    if (status == SF_OK) status = slice_features(plan, s);
    if (status == SF_OK && (plan->rowwise || plan->matrix)) status = list_every(plan, s->T);
    if (status == SF_OK) status = find_reach(plan, s->T);
    if (status == SF_OK) {
        sf_positions(positions, s->T, s->C);
        convert_positions(plan->positions, positions, s->T, s->C);
        *out = plan;
    } else {
        sf_cpu_plan_destroy(plan);
    }
    sf_release(positions);
    return status;
}

void sf_cpu_plan_destroy(sf_cpu_plan *plan) {
    if (plan == NULL) return;
    sf_pattern_destroy(&plan->pattern);
    sf_release(plan->positions);
    sf_release(plan->reach);
    sf_release(plan->angles);
    sf_release(plan->every);
    sf_release(plan->slices);
    sf_release(plan);
}

#define TAKE(pointer, count) (pointer) = sf_arena_take(arena, (count), sizeof *(pointer))

static void lay_out_factored(sf_factored_space *f, sf_arena *arena, const sf_cpu_plan *plan) {
    const size_t Dp = plan->rows.Dp;
    size_t widest = 0;
    for (size_t i = 0; i < plan->slice_count; i++) widest = sf_larger(widest, plan->slices[i].width);
    TAKE(f->features, SF_QUERY_TILE * widest + (size_t)(2 * SF_PADDING));
    if (f->features != NULL) f->features += SF_PADDING;
    TAKE(f->across, Dp * widest);
    TAKE(f->contexts, SF_QUERY_TILE * Dp);
    TAKE(f->row, Dp);
    TAKE(f->done, Dp);
    TAKE(f->dS, plan->features * Dp);
    TAKE(f->dz, plan->features);
    TAKE(f->dtotals, plan->model->shape.T);
}

void sf_lay_out_matrix(sf_matrix_space *m, sf_arena *arena, const sf_cpu_plan *plan) {
    const sf_shape *s = &plan->model->shape;
    const size_t T = plan->matrix ? s->T : 0, TT = T * T;
    TAKE(m->offsets, plan->matrix ? T + 1 : 0);
    TAKE(m->keys, TT + T);
    TAKE(m->raw, TT);
    TAKE(m->scores, TT);
    TAKE(m->weights, TT);
    TAKE(m->slopes, TT);
    TAKE(m->scratch, sf_attention_matrix_scratch(&s->attention, T));
}

static void lay_out_rowwise(sf_workspace *w, sf_arena *arena, const sf_cpu_plan *plan) {
    const sf_shape *s = &plan->model->shape;
    const size_t T = plan->rowwise || plan->matrix ? s->T : 0;
    sf_row_space *r = &w->rowwise;
    const size_t lists = T > 0 ? sf_list_tile(plan, T) * sf_list_row(T) : 0,
                 steps = sf_attention_score_steps(&s->attention);
    const bool softmax = s->attention.weighting == &sf_weighting_softmax;
    TAKE(r->keys, T > 0 ? lists + sf_list_row(T) : 0);
    TAKE(r->weights, lists);
    TAKE(r->factors, lists);
    TAKE(r->slopes, lists);
    TAKE(r->scores, softmax ? 0 : lists);
    if (softmax) r->scores = r->weights;
    TAKE(r->raw, steps > 0 ? lists : 0);
    TAKE(r->exact, softmax ? 0 : lists);
    TAKE(r->all, T);
    TAKE(r->steps, (steps + 1) * T);
    TAKE(r->turns, T > 0 ? T / sf_list_tile(plan, T) + 1 : 0);
    sf_lay_out_matrix(&w->matrix, arena, plan);
    if (plan->slices != NULL) lay_out_factored(&w->factored, arena, plan);
    if (plan->block_m == 0) return;
    TAKE(w->blocked.slopes, T * plan->block_width * plan->block_m);
    TAKE(w->blocked.first, T / plan->block_width + 2);
    TAKE(w->blocked.places, T * plan->block_m);
}

void sf_lay_out_choices(sf_trace *t, sf_arena *arena, const sf_cpu_plan *plan) {
    const sf_shape *s = &plan->model->shape;
    const size_t R = plan->group * s->T;
    const size_t listed = plan->pattern.offsets != NULL ? plan->pattern.offsets[s->T] : 0;
    const size_t kept = plan->group * s->H * sf_larger(listed, s->T * plan->block_width * plan->block_m);
    TAKE(t->stats, plan->dense ? 2 * s->H * R : 0);
    TAKE(t->drawn, plan->dense ? s->H * R * sf_drawn_words(s->T) : 0);
    TAKE(t->scores, plan->dense ? s->H * R * sf_scored_row(s->T) : 0);
    TAKE(t->weights, kept);
    TAKE(t->factors, kept);
    if (s->attention.weighting != &sf_weighting_softmax) TAKE(t->kept_scores, kept);
    if (plan->pattern.offsets != NULL && plan->pattern.keys == NULL) TAKE(t->keys, kept);
    if (plan->rowwise && sf_saves_threshold(&s->attention)) TAKE(t->thresholds, R * s->H);
    TAKE(t->blocks, R * s->H * plan->block_m);
    TAKE(t->sums, plan->slices != NULL ? plan->group * s->H * (plan->features * (plan->rows.Dp + 1) + s->T) : 0);
    if (plan->pattern.varies) TAKE(t->counts, R * s->H);
}

void sf_lay_out_attention(sf_workspace *w, sf_arena *arena, const sf_cpu_plan *plan) {
    const sf_shape *s = &plan->model->shape;
    const size_t R = plan->group * s->T, Dp = plan->rows.Dp, Tp = plan->rows.Tp;
    const bool by_score = plan->scores_all;
    const size_t panels = (s->T + SF_PANEL - 1) / SF_PANEL * SF_PANEL;
    TAKE(w->keys_t, plan->dense || by_score || plan->block_m > 0 ? Dp * panels : plan->grouped ? Dp * SF_PANEL : 0);
    TAKE(w->values_t, plan->dense ? Dp * panels : 0);
    TAKE(w->tile, SF_QUERY_TILE * (plan->dense ? SF_KEY_TILE : by_score ? Tp : 0));
    TAKE(w->dtile, plan->dense ? (size_t)SF_QUERY_TILE * SF_KEY_TILE : 0);
    size_t (*const prepared_size)(size_t K, size_t N) = plan->kernels->prepared_size;
    TAKE(w->across[0], plan->dense || by_score ? prepared_size(Dp, Tp) : 0);
    TAKE(w->across[1], plan->dense ? prepared_size(Dp, Tp) : 0);
    for (size_t i = 0; i < 2 && plan->dense; i++) {
        TAKE(w->upright[i], prepared_size(s->T, Dp));
        TAKE(w->queries[i], prepared_size(SF_QUERY_TILE, Dp));
        TAKE(w->left_queries[i], prepared_size(Dp, SF_QUERY_TILE));
    }
    TAKE(w->turns, R / sf_smaller(SF_GROUP_ROWS, SF_QUERY_TILE) + 1);
    TAKE(w->drow, s->T);
    for (size_t i = 0; i < 4; i++) TAKE(w->wide[i], s->T);
    TAKE(w->kept, 2 * s->T);
    lay_out_rowwise(w, arena, plan);
    const bool by_vectors = (s->attention.selector->selects_by & (SF_BY_VECTORS | SF_BY_ALL_SCORES)) != 0;
    for (size_t i = 0; i < 2; i++) TAKE(w->vectors[i], by_vectors ? s->T * s->D : 0);
    TAKE(w->scratch, sf_head_scratch_size(&s->attention, s->T, s->D, s->H));
}
#undef TAKE
