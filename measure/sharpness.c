#include "measure/sharpness.h"

#include "base/elementary.h"

sf_status sf_weighed_open(sf_weighed *out, const sf_shape *s) {
    const bool whole = sf_attention_weighs_matrix(&s->attention);
    const size_t room = whole ? s->T * s->T : s->T;
    SF_TRY(SF_NEW(&out->scores, room));
    SF_TRY(SF_NEW(&out->weights, room));
    SF_TRY(SF_NEW(&out->sharpness, s->T));
    if (!whole) return SF_OK;
    SF_TRY(SF_NEW(&out->offsets, s->T + 1));
    SF_TRY(SF_NEW(&out->keys, room));
    SF_TRY(SF_NEW(&out->matrix.scratch, sf_attention_matrix_scratch(&s->attention, s->T)));
    out->matrix.T = s->T;
    out->matrix.offsets = out->offsets;
    out->matrix.keys = out->keys;
    return SF_OK;
}

void sf_weighed_close(sf_weighed *weighed) {
    sf_release(weighed->scores);
    sf_release(weighed->weights);
    sf_release(weighed->sharpness);
    sf_release(weighed->offsets);
    sf_release(weighed->keys);
    sf_release(weighed->matrix.scratch);
}

static sf_sharpness sharpness_of(const double *weights, size_t count) {
    double total = 0, squares = 0, entropy = 0;
    for (size_t n = 0; n < count; n++) total += weights[n];
    for (size_t n = 0; n < count; n++) {
        const double w = weights[n] / total;
        squares += w * w;
        entropy -= w > 0 ? w * sf_log(w) : w * 0; /* NaN stays NaN */
    }
    return (sf_sharpness){.effective_keys = 1 / squares, .entropy = entropy};
}

void sf_weighed_add(sf_weighed *weighed, const sf_shape *s, size_t query, const double *scores /* [T] */,
                    const uint32_t *keys /* [count] */, size_t count) {
    const bool whole = sf_attention_weighs_matrix(&s->attention);
    if (whole && query == 0) weighed->offsets[0] = 0;
    const size_t at = whole ? weighed->offsets[query] : 0;
    for (size_t n = 0; n < count; n++) weighed->scores[at + n] = scores[keys[n]];
    if (!whole) {
        sf_attention_weigh(weighed->weights, &s->attention, weighed->scores, count,
                           sf_attention_visible(&s->attention, query, s->T));
        weighed->sharpness[query] = sharpness_of(weighed->weights, count);
        return;
    }
    for (size_t n = 0; n < count; n++) weighed->keys[at + n] = keys[n];
    weighed->offsets[query + 1] = at + count;
}

void sf_weighed_finish(sf_weighed *weighed, const sf_shape *s) {
    if (!sf_attention_weighs_matrix(&s->attention)) return;
    sf_attention_weigh_matrix(weighed->weights, &s->attention, weighed->scores, &weighed->matrix);
    for (size_t i = 0; i < s->T; i++)
        weighed->sharpness[i] =
            sharpness_of(weighed->weights + weighed->offsets[i], weighed->offsets[i + 1] - weighed->offsets[i]);
}
