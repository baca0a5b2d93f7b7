/* Kept keys of mechanisms of the generic kernels, for observers: the device does not store them, so they are computed
 * again on the host from the queries and keys that were observed. Scores are those of docs/numerics.md: chains of fused
 * multiply-adds with the scaled keys. */
#include "kernels/cuda/observed.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

struct sf_cuda_keeper {
    const sf_shape *shape;
    float score_scale;
    double *scores;     /* [T]: as the selector sees them */
    double *steps;      /* [score steps + 1,T] */
    float *scaled;      /* [T,D]: keys times the scale */
    double *vectors[2]; /* [T,D]: queries and keys */
    uint32_t *every;    /* [T] */
    void *scratch;      /* of a selector that is prepared */
    const sf_attention_view *view;
    sf_index keys_index; /* of head 0 */
    size_t opened;       /* the head whose keys are scaled; none: H */
    sf_head_state state;
};

void sf_cuda_keeper_close(sf_cuda_keeper *keeper) {
    if (keeper == NULL) return;
    sf_release(keeper->scores);
    sf_release(keeper->steps);
    sf_release(keeper->scaled);
    sf_release(keeper->vectors[0]);
    sf_release(keeper->vectors[1]);
    sf_release(keeper->every);
    sf_release(keeper->scratch);
    sf_release(keeper);
}

static sf_status open_arrays(sf_cuda_keeper *keeper) {
    const sf_shape *s = keeper->shape;
    SF_TRY(SF_NEW(&keeper->scores, s->T));
    SF_TRY(SF_NEW(&keeper->steps, (sf_attention_score_steps(&s->attention) + 1) * s->T));
    SF_TRY(SF_NEW(&keeper->scaled, s->T * s->D));
    SF_TRY(SF_NEW(&keeper->vectors[0], s->T * s->D));
    SF_TRY(SF_NEW(&keeper->vectors[1], s->T * s->D));
    SF_TRY(SF_NEW(&keeper->every, s->T));
    const size_t scratch = sf_head_scratch_size(&s->attention, s->T, s->D, s->H);
    if (scratch > 0) SF_TRY(sf_allocate(&keeper->scratch, scratch, 1));
    for (size_t j = 0; j < s->T; j++) keeper->every[j] = (uint32_t)j;
    return SF_OK;
}

sf_status sf_cuda_keeper_open(sf_cuda_keeper **out, const sf_shape *shape, float score_scale) {
    *out = NULL;
    sf_cuda_keeper *keeper;
    SF_TRY(SF_NEW(&keeper, 1));
    keeper->shape = shape;
    keeper->score_scale = score_scale;
    const sf_status status = open_arrays(keeper);
    if (status != SF_OK)
        sf_cuda_keeper_close(keeper);
    else
        *out = keeper;
    return status;
}

void sf_cuda_keeper_look(sf_cuda_keeper *keeper, const sf_attention_view *view, const sf_moment *moment,
                         size_t sequence) {
    keeper->view = view;
    keeper->opened = keeper->shape->H;
    keeper->keys_index = sf_moment_index(moment, sf_moment_random_keys(moment), view->block, 0, sequence);
}

static sf_index index_of_head(const sf_cuda_keeper *keeper, size_t head) {
    const sf_purpose purpose = (sf_purpose)(keeper->keys_index.stream & 0xff);
    sf_index index = keeper->keys_index;
    index.stream = sf_stream(purpose, keeper->view->block, head);
    return index;
}

static void open_head(sf_cuda_keeper *keeper, size_t head) {
    const sf_shape *s = keeper->shape;
    const sf_attention_view *view = keeper->view;
    const float *q = view->q + head * sf_padded(s->D), *k = view->k + head * sf_padded(s->D);
    for (size_t t = 0; t < s->T; t++)
        for (size_t c = 0; c < s->D; c++) {
            keeper->vectors[0][t * s->D + c] = q[t * view->stride + c];
            keeper->vectors[1][t * s->D + c] = k[t * view->stride + c];
            keeper->scaled[t * s->D + c] = keeper->score_scale * k[t * view->stride + c];
        }
    keeper->state = (sf_head_state){.input = {.D = s->D,
                                              .block = view->block,
                                              .head = head,
                                              .heads = s->H,
                                              .queries = keeper->vectors[0],
                                              .keys = keeper->vectors[1],
                                              .stride = s->D,
                                              .score_scale = keeper->score_scale},
                                    .scratch = keeper->scratch};
    if (sf_attention_needs_head(&s->attention))
        sf_head_prepare(&keeper->state, &s->attention, s->T, index_of_head(keeper, head));
    keeper->opened = head;
}

static void score(const sf_cuda_keeper *keeper, size_t head, size_t query) {
    const sf_shape *s = keeper->shape;
    const float *q = keeper->view->q + query * keeper->view->stride + head * sf_padded(s->D);
    const sf_scored_keys row = {.query = query,
                                .count = sf_attention_visible(&s->attention, query, s->T),
                                .T = s->T,
                                .keys = keeper->every,
                                .head = head,
                                .heads = s->H};
    for (size_t j = 0; j < row.count; j++) {
        float sum = 0;
        for (size_t c = 0; c < s->D; c++) sum = fmaf(q[c], keeper->scaled[j * s->D + c], sum);
        keeper->steps[j] = sum;
    }
    sf_attention_transform_scores(keeper->steps, &s->attention, &row);
    const double *after = keeper->steps + sf_attention_score_steps(&s->attention) * row.count;
    for (size_t j = 0; j < row.count; j++) keeper->scores[j] = (float)after[j];
}

size_t sf_cuda_keeper_keep(uint32_t *kept /* [2T] */, void *context, size_t head, size_t query) {
    sf_cuda_keeper *keeper = context;
    const sf_attention *attention = &keeper->shape->attention;
    if (keeper->opened != head) open_head(keeper, head);
    if ((sf_attention_selects_by(attention) & SF_BY_SCORE) != 0) score(keeper, head, query);
    sf_draws draws = sf_query_draws(index_of_head(keeper, head), query);
    return sf_attention_keep_in(kept, attention, &keeper->state, query, keeper->shape->T, keeper->scores, &draws);
}
