/* Calls the score transforms of a mechanism, in order, and their backward functions in the opposite order. */
#include <string.h>

#include "attention/attention.h"

static bool acts_on_scores(const sf_attention_transform *transform) {
    return transform->part != NULL && transform->part->transform != NULL;
}

size_t sf_attention_score_steps(const sf_attention *attention) {
    size_t count = 0;
    for (size_t t = 0; t < SF_MOST_TRANSFORMS; t++) count += acts_on_scores(&attention->transforms[t]);
    return count;
}

static sf_score_row row_of(const sf_attention *attention, const sf_scored_keys *row, const double *arguments) {
    return (sf_score_row){.query = row->query,
                          .count = row->count,
                          .keys = row->keys,
                          .visible = sf_attention_visible(attention, row->query, row->T),
                          .head = row->head,
                          .heads = row->heads,
                          .arguments = arguments};
}

void sf_attention_transform_scores(double *steps /* [score steps + 1, count] */, const sf_attention *attention,
                                   const sf_scored_keys *row) {
    for (size_t t = 0; t < SF_MOST_TRANSFORMS; t++) {
        const sf_attention_transform *transform = &attention->transforms[t];
        if (!acts_on_scores(transform)) continue;
        const sf_score_row scores = row_of(attention, row, transform->arguments);
        transform->part->transform(steps + row->count, steps, &scores);
        steps += row->count;
    }
}

void sf_attention_transform_scores_backward(double *dscores /* [count], in place */, const double *steps,
                                            const sf_attention *attention, const sf_scored_keys *row) {
    steps += sf_attention_score_steps(attention) * row->count;
    for (size_t t = SF_MOST_TRANSFORMS; t-- > 0;) {
        const sf_attention_transform *transform = &attention->transforms[t];
        if (!acts_on_scores(transform)) continue;
        const sf_score_row scores = row_of(attention, row, transform->arguments);
        steps -= row->count;
        transform->part->transform_backward(dscores, dscores, steps, &scores);
    }
}

bool sf_attention_turns(const sf_attention *attention) {
    return attention->transforms[0].part != NULL && attention->transforms[0].part->turn != NULL;
}

static sf_vector_place place_of(const sf_head_input *head, size_t position, bool is_key, const double *arguments) {
    return (sf_vector_place){.position = position,
                             .D = head->D,
                             .is_key = is_key,
                             .head = head->head,
                             .heads = head->heads,
                             .arguments = arguments};
}

static bool turns(const sf_attention *attention, size_t t) {
    return t < SF_MOST_TRANSFORMS && attention->transforms[t].part != NULL &&
           attention->transforms[t].part->turn != NULL;
}

static void turn_one(double *out, const double *vector, const sf_attention *attention, const sf_head_input *head,
                     size_t t, size_t position, bool is_key) {
    const sf_vector_place place = place_of(head, position, is_key, attention->transforms[t].arguments);
    attention->transforms[t].part->turn(out, vector, &place);
}

void sf_attention_turn(double *rows /* [T,D], `stride` apart */, const sf_attention *attention,
                       const sf_head_input *head, bool are_keys, double *scratch /* [D] */) {
    for (size_t i = 0; i < head->T; i++)
        for (size_t t = 0; turns(attention, t); t++) {
            turn_one(scratch, rows + i * head->stride, attention, head, t, i, are_keys);
            memcpy(rows + i * head->stride, scratch, head->D * sizeof *rows);
        }
}

void sf_attention_turn_backward(double *drows, const double *rows /* before they were turned */,
                                const sf_attention *attention, const sf_head_input *head, bool are_keys,
                                double *scratch /* [SF_MOST_TRANSFORMS+2,D] */) {
    const size_t D = head->D;
    for (size_t i = 0; i < head->T; i++) {
        size_t t = 0;
        memcpy(scratch, rows + i * head->stride, D * sizeof *scratch);
        for (; turns(attention, t); t++)
            turn_one(scratch + (t + 1) * D, scratch + t * D, attention, head, t, i, are_keys);
        double *back = scratch + (t + 1) * D;
        while (t-- > 0) {
            const sf_vector_place place = place_of(head, i, are_keys, attention->transforms[t].arguments);
            attention->transforms[t].part->turn_backward(back, drows + i * head->stride, scratch + t * D, &place);
            memcpy(drows + i * head->stride, back, D * sizeof *back);
        }
    }
}
