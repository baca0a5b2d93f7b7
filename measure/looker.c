#include "measure/looker.h"

#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "train/backend.h"

static const sf_dataset *data_of(const sf_subject *subject) {
    return subject->split == SF_TRAINING ? subject->data->training : subject->data->heldout;
}

sf_status sf_looker_open(sf_looker *out, const sf_subject *subject, size_t batch) {
    *out = (sf_looker){.subject = *subject};
    const size_t count = sf_dataset_count(data_of(subject)), T = subject->model->shape.T;
    if (subject->samples == 0 || count == 0)
        return sf_fail(SF_BAD_INPUT, "0 sequences to look at; at least 1 is needed");
    SF_TRY(sf_cpu_check_isa(SF_F32));
    if (out->subject.samples > count) out->subject.samples = count;
    out->batch = batch < out->subject.samples ? batch : out->subject.samples;
    out->subject.threads = (size_t)sf_threads_for(subject->threads);
    sf_status status = sf_cpu_plan_create(&out->plan, subject->model, SF_F32);
    if (status == SF_OK) status = sf_cpu_crew_create(&out->crew, &out->plan, 1, out->subject.threads, out->batch);
    if (status == SF_OK) status = SF_NEW(&out->tokens, out->batch * T);
    if (status == SF_OK) status = SF_NEW(&out->labels, out->batch);
    if (status != SF_OK) sf_looker_close(out);
    return status;
}

void sf_looker_close(sf_looker *looker) {
    sf_cpu_crew_destroy(looker->crew);
    sf_cpu_plan_destroy(looker->plan);
    sf_release(looker->tokens);
    sf_release(looker->labels);
    *looker = (sf_looker){0};
}

static void place(const sf_looker *looker, size_t n, size_t i) {
    const sf_shape *s = &looker->subject.model->shape;
    const sf_dataset *set = data_of(&looker->subject);
    sf_run_data_lay_out(looker->tokens + n * s->T, looker->subject.data, set, i, s->T, s->attention.globals);
    looker->labels[n] = sf_dataset_label(set, i);
}

bool sf_looker_next(sf_looker *looker) {
    looker->first += looker->now;
    const size_t left = looker->subject.samples - looker->first;
    looker->now = left < looker->batch ? left : looker->batch;
    if (looker->now == 0) looker->first = 0;
    for (size_t n = 0; n < looker->now; n++) place(looker, n, looker->first + n);
    return looker->now > 0;
}

static sf_moment moment_of(const sf_looker *looker) {
    return sf_evaluation_moment(looker->subject.seed, looker->subject.split, looker->first);
}

void sf_looker_show(const sf_looker *looker, const sf_observer *observer, double noise) {
    const sf_batch batch = {.tokens = looker->tokens, .labels = looker->labels, .B = looker->now};
    sf_moment moment = moment_of(looker);
    moment.noise = noise;
    sf_cpu_observe(looker->crew, observer, looker->plan, looker->subject.params, &batch, &moment);
}

void sf_sight_scores(double *scores /* [T] */, const sf_sight *sight, const sf_shape *shape, size_t head,
                     size_t query) {
    const size_t C = shape->C, Cp = sf_padded(C);
    const double scale = shape->inverse_temperature / sqrt((double)C);
    const float *q = sight->q + query * sight->stride + head * Cp;
    for (size_t j = 0; j < shape->T; j++) {
        const float *k = sight->k + j * sight->stride + head * Cp;
        double dot = 0;
        for (size_t c = 0; c < C; c++) dot += (double)q[c] * (double)k[c];
        scores[j] = scale * dot;
    }
}

size_t sf_sight_keep(uint32_t *kept /* [T] */, const sf_looker *looker, const sf_sight *sight,
                     const double *scores /* [T] */, size_t head, size_t query) {
    const sf_shape *s = &looker->subject.model->shape;
    const sf_moment moment = moment_of(looker);
    if (sf_attention_needs_head(&s->attention)) {
        size_t count;
        const uint32_t *chosen = sf_sight_chosen(&count, sight, s->T, head, query);
        memcpy(kept, chosen, count * sizeof *kept);
        return count;
    }
    sf_draws draws = sf_query_draws(
        sf_moment_index(&moment, sf_moment_random_keys(&moment), sight->block, head, sight->sequence), query);
    return sf_attention_keep(kept, &s->attention, query, s->T, scores, &draws);
}

double sf_separation(const double *scores /* [T] */, const uint32_t *kept /* [count], ascending */, size_t count,
                     size_t T) {
    double low = INFINITY, high = -INFINITY, other_low = INFINITY, other_high = -INFINITY;
    for (size_t j = 0, n = 0; j < T; j++)
        if (n < count && kept[n] == j) {
            n++;
            low = fmin(low, scores[j]);
            high = fmax(high, scores[j]);
        } else {
            other_low = fmin(other_low, scores[j]);
            other_high = fmax(other_high, scores[j]);
        }
    return fmax(0, fmax(low - other_high, other_low - high));
}
