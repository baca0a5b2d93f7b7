#include "kernels/cpu/plan.h"

#include <math.h>

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

sf_status sf_cpu_plan_create(sf_cpu_plan **out, const sf_model *model, sf_precision precision) {
    *out = NULL;
    const sf_shape *s = &model->shape;
    sf_cpu_plan *plan;
    double *positions = NULL;
    SF_TRY(SF_NEW(&plan, 1));
    plan->model = model;
    plan->kernels = sf_cpu_kernels_for(precision);
    plan->rows = (sf_rows){sf_padded(s->C), sf_padded(s->F), sf_padded(s->T), s->H * sf_padded(s->C)};
    plan->group = s->T < SF_GROUP_ROWS ? SF_GROUP_ROWS / s->T : 1;
    plan->dense = s->attention.selector == &sf_selector_full && s->attention.weighting == &sf_weighting_softmax;
    plan->score_scale = (float)(s->inverse_temperature / sqrt((double)s->C));
    plan->embedding_scale = (float)sqrt((double)s->C);
    sf_status status = SF_NEW(&positions, s->T * s->C);
    if (status == SF_OK) status = SF_NEW(&plan->positions, s->T * plan->rows.Cp);
    if (status == SF_OK && !plan->dense) status = sf_pattern_create(&plan->pattern, &s->attention, s->T);
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
    sf_release(plan);
}
