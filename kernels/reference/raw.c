#include "kernels/reference/raw.h"

#include <math.h>

#include "kernels/reference/attention.h"

typedef struct raw_room {
    sf_ref_block block;
    sf_ref_attention attention;
} raw_room;

static void lay_out(raw_room *room, sf_arena *arena, const sf_shape *s) {
    *room = (raw_room){0};
    sf_ref_block_lay_out(&room->block, arena, s);
    sf_ref_attention_lay_out(&room->attention, arena, s);
}

/* [H,T,D] to [T,H,D], and back. */
static void to_rows(double *rows, const double *heads, const sf_shape *s) {
    for (size_t h = 0; h < s->H; h++)
        for (size_t t = 0; t < s->T; t++)
            for (size_t c = 0; c < s->C; c++) rows[(t * s->H + h) * s->C + c] = heads[(h * s->T + t) * s->C + c];
}

static void to_heads(double *heads, const double *rows, const sf_shape *s) {
    for (size_t h = 0; h < s->H; h++)
        for (size_t t = 0; t < s->T; t++)
            for (size_t c = 0; c < s->C; c++) heads[(h * s->T + t) * s->C + c] = rows[(t * s->H + h) * s->C + c];
}

static void run_sequence(const sf_ref_arrays *a, raw_room *room, const sf_shape *s, size_t n) {
    const sf_moment moment = {.seed = a->seed, .training = true};
    const sf_ref_location at = {.moment = &moment, .sample = n};
    const size_t first = n * s->H * s->T * s->C;
    to_rows(room->block.q, a->q + first, s);
    to_rows(room->block.k, a->k + first, s);
    to_rows(room->block.v, a->v + first, s);
    sf_ref_attend(&room->attention, &room->block, s, &at, NULL);
    if (a->out != NULL) to_heads(a->out + first, room->block.context, s);
    if (a->dq == NULL) return;
    to_rows(room->attention.dcontext, a->dout + first, s);
    sf_ref_attend_backward(&room->attention, &room->block, s, &at);
    to_heads(a->dq + first, room->attention.dq, s);
    to_heads(a->dk + first, room->attention.dk, s);
    to_heads(a->dv + first, room->attention.dv, s);
}

sf_status sf_ref_raw_run(const sf_ref_arrays *arrays, const sf_attention *attention, double scale, size_t H, size_t T,
                         size_t D) {
    const sf_shape shape = {.V = 2,
                            .T = T,
                            .C = D,
                            .F = 1,
                            .H = H,
                            .L = 1,
                            .classes = 2,
                            .inverse_temperature = scale * sqrt((double)D),
                            .attention = *attention};
    sf_model model;
    sf_arena arena = {0};
    raw_room room;
    SF_TRY(sf_model_create(&model, &shape)); /* for its record of violations */
    lay_out(&room, &arena, &model.shape);
    sf_status status = sf_arena_open(&arena);
    if (status == SF_OK) lay_out(&room, &arena, &model.shape);
    for (size_t n = 0; n < arrays->N && status == SF_OK; n++) {
        run_sequence(arrays, &room, &model.shape, n);
        status = sf_attention_check_fault(&model.shape.attention);
    }
    sf_arena_close(&arena);
    sf_model_destroy(&model);
    return status;
}
