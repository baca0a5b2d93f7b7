/* A sample model computed by the reference and by the CPU kernels. */
#ifndef SF_TESTS_BOTH_PATHS_H
#define SF_TESTS_BOTH_PATHS_H

#include "sample_model.h"

#include <math.h>

#include "kernels/cpu/plan.h"
#include "kernels/reference/reference.h"

typedef struct outcome {
    double loss;
    double *gradient; /* [size] */
    double *logits;   /* [B,labels,classes] */
} outcome;

static inline size_t sample_logits(const sample *s) {
    return s->B * sf_shape_labels(&s->model.shape) * s->model.shape.classes;
}

static inline void outcome_open(outcome *out, const sample *s) {
    assert_int_equal(SF_NEW(&out->gradient, s->model.size), SF_OK);
    assert_int_equal(SF_NEW(&out->logits, sample_logits(s)), SF_OK);
}

static inline void outcome_close(outcome *out) {
    sf_release(out->gradient);
    sf_release(out->logits);
}

static inline void run_reference(outcome *out, const sample *s) {
    sf_reference *reference;
    outcome_open(out, s);
    assert_int_equal(sf_reference_create(&reference, &s->model), SF_OK);
    const sf_batch batch = sample_batch(s);
    sf_reference_run(reference, &out->loss, out->logits, out->gradient, s->params, &batch, &s->moment);
    sf_reference_destroy(reference);
}

static inline void run_cpu_in(sf_precision precision, outcome *out, const sample *s, size_t workers) {
    sf_cpu_plan *plan;
    sf_cpu_team *team;
    float *params, *gradient, *logits;
    outcome_open(out, s);
    assert_int_equal(sf_cpu_plan_create(&plan, &s->model, precision), SF_OK);
    assert_int_equal(sf_cpu_team_create(&team, &plan, 1, workers, s->B), SF_OK);
    assert_int_equal(SF_NEW(&params, s->model.size), SF_OK);
    assert_int_equal(SF_NEW(&gradient, s->model.size), SF_OK);
    assert_int_equal(SF_NEW(&logits, sample_logits(s)), SF_OK);
    for (size_t i = 0; i < s->model.size; i++) params[i] = (float)s->params[i];
    const sf_batch batch = sample_batch(s);
    sf_evaluation evaluation;
    sf_cpu_evaluate(team, &evaluation, logits, plan, params, &batch, &s->moment);
    sf_cpu_gradient(team, &out->loss, gradient, plan, params, &batch, &s->moment);
    /* forward alone and forward before backward are the same arithmetic */
    const double evaluated = evaluation.loss / (double)evaluation.labelled;
    assert_true(out->loss == evaluated || (isnan(out->loss) && isnan(evaluated)));
    for (size_t i = 0; i < s->model.size; i++) out->gradient[i] = (double)gradient[i];
    for (size_t i = 0; i < sample_logits(s); i++) out->logits[i] = (double)logits[i];
    sf_release(params);
    sf_release(gradient);
    sf_release(logits);
    sf_cpu_team_destroy(team);
    sf_cpu_plan_destroy(plan);
}

static inline void run_cpu(outcome *out, const sample *s, size_t workers) {
    run_cpu_in(SF_F32, out, s, workers);
}

static inline void assert_close(const sample *s, const outcome *ours, const outcome *theirs, double limit) {
    double norm = 0;
    for (size_t i = 0; i < s->model.size; i++) norm += theirs->gradient[i] * theirs->gradient[i];
    norm = sqrt(norm);
    assert_true(fabs(ours->loss - theirs->loss) <= limit * (1 + fabs(theirs->loss)));
    for (size_t i = 0; i < sample_logits(s); i++)
        if (!(fabs(ours->logits[i] - theirs->logits[i]) <= limit * (1 + fabs(theirs->logits[i]))))
            fail_msg("logit %zu: %.9g, expected %.9g", i, ours->logits[i], theirs->logits[i]);
    for (size_t p = 0; p < s->model.param_count; p++) {
        const sf_param *param = &s->model.params[p];
        for (size_t r = 0; r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++) {
                const size_t at = sf_param_index(param, r, c);
                /* an element is a sum of terms of about the norm's size: their rounding is its floor */
                const double scale = fmax(fabs(theirs->gradient[at]), 0.05 * norm);
                if (!(fabs(ours->gradient[at] - theirs->gradient[at]) <= limit * scale))
                    fail_msg("%s[%zu,%zu]: %.9g, expected %.9g (norm %.3g)", param->name, r, c, ours->gradient[at],
                             theirs->gradient[at], norm);
            }
    }
}

static const double f32_limit = 1e-5;

static inline void check_sample(const sample *s) {
    outcome cpu, reference;
    run_reference(&reference, s);
    run_cpu(&cpu, s, 1);
    assert_close(s, &cpu, &reference, f32_limit);
    outcome_close(&cpu);
    outcome_close(&reference);
}

#endif
