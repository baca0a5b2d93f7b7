#include "measure/observation.h"

#include <math.h>
#include <string.h>

static const sf_dataset *data_of(const sf_subject *subject) {
    return subject->split == SF_TRAINING ? subject->data->training : subject->data->heldout;
}

sf_status sf_observation_open(sf_observation *out, const sf_subject *subject, size_t batch) {
    *out = (sf_observation){.subject = *subject};
    const size_t count = sf_dataset_count(data_of(subject)), T = subject->model->shape.T;
    if (subject->samples == 0 || count == 0)
        return sf_fail(SF_BAD_INPUT, "0 sequences to look at; at least 1 is needed");
    if (out->subject.samples > count) out->subject.samples = count;
    out->batch = batch < out->subject.samples ? batch : out->subject.samples;
    sf_status status = sf_evaluator_open(&out->evaluator, &subject->machine, SF_OBSERVATION_WORK, subject->model,
                                         SF_F32, out->batch, 1);
    if (status == SF_OK) out->workers = sf_evaluator_workers(&out->evaluator);
    if (status == SF_OK) status = sf_batch_room_open(&out->room, out->batch, T);
    if (status != SF_OK) sf_observation_close(out);
    return status;
}

void sf_observation_close(sf_observation *observation) {
    sf_evaluator_close(&observation->evaluator);
    sf_batch_room_close(&observation->room);
    *observation = (sf_observation){0};
}

static void place(const sf_observation *observation, size_t n, size_t i) {
    const sf_subject *subject = &observation->subject;
    sf_batch_room_place(&observation->room, n, subject->data, data_of(subject), i, &subject->model->shape);
}

bool sf_observation_next(sf_observation *observation) {
    observation->first += observation->now;
    const size_t left = observation->subject.samples - observation->first;
    observation->now = left < observation->batch ? left : observation->batch;
    if (observation->now == 0) observation->first = 0;
    for (size_t n = 0; n < observation->now; n++) place(observation, n, observation->first + n);
    return observation->now > 0;
}

static sf_moment moment_of(const sf_observation *observation) {
    return sf_evaluation_moment(observation->subject.seed, observation->subject.split, observation->first);
}

sf_status sf_observation_run(const sf_observation *observation, const sf_observer *observer, double noise) {
    const sf_batch batch = sf_batch_room_read(&observation->room, observation->now);
    sf_moment moment = moment_of(observation);
    moment.noise = noise;
    return sf_evaluator_observe(&observation->evaluator, observer, observation->subject.params, &batch, &moment);
}

void sf_view_scores(double *scores /* [T] */, const sf_attention_view *view, const sf_shape *shape, size_t head,
                    size_t query) {
    const size_t D = shape->D, Dp = sf_padded(D);
    const double scale = shape->inverse_temperature / sqrt((double)D);
    const float *q = view->q + query * view->stride + head * Dp;
    for (size_t j = 0; j < shape->T; j++) {
        const float *k = view->k + j * view->stride + head * Dp;
        double dot = 0;
        for (size_t c = 0; c < D; c++) dot += (double)q[c] * (double)k[c];
        scores[j] = scale * dot;
    }
}

size_t sf_view_keep(uint32_t *kept /* [2T] */, const sf_observation *observation, const sf_attention_view *view,
                    const double *scores /* [T] */, size_t head, size_t query) {
    const sf_shape *s = &observation->subject.model->shape;
    const sf_moment moment = moment_of(observation);
    if (sf_attention_needs_head(&s->attention)) {
        size_t count;
        const uint32_t *chosen = sf_view_chosen(&count, kept, view, s->T, head, query);
        if (chosen != kept) memcpy(kept, chosen, count * sizeof *kept);
        return count;
    }
    sf_draws draws = sf_query_draws(
        sf_moment_index(&moment, sf_moment_random_keys(&moment), view->block, head, view->sequence), query);
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
