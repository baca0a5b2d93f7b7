#include "train/batch.h"

sf_status sf_batch_room_open(sf_batch_room *out, size_t B, size_t T) {
    *out = (sf_batch_room){0};
    sf_status status = sf_allocate((void **)&out->tokens, B, T * sizeof *out->tokens);
    if (status == SF_OK) status = sf_allocate((void **)&out->labels, B, T * sizeof *out->labels);
    if (status == SF_OK) status = SF_NEW(&out->last, B);
    if (status != SF_OK) sf_batch_room_close(out);
    return status;
}

void sf_batch_room_close(sf_batch_room *room) {
    sf_release(room->tokens);
    sf_release(room->labels);
    sf_release(room->last);
    *room = (sf_batch_room){0};
}

size_t sf_batch_room_bytes(size_t B, size_t T) {
    return B * (T * (sizeof(int32_t) + sizeof(int32_t)) + sizeof(uint32_t));
}

static void place_tokens(int32_t *out /* [T] */, const sf_run_data *data, const int32_t *tokens, size_t count,
                         const sf_shape *s) {
    const size_t globals = s->attention.globals, plain = s->T - globals;
    const size_t cls = s->readout == SF_READ_CLS ? 1 : 0;
    if (cls > 0) out[0] = data->pad + 1 + (int32_t)globals;
    for (size_t t = cls; t < plain; t++) out[t] = t - cls < count ? tokens[t - cls] : data->pad;
    for (size_t t = plain; t < s->T; t++) out[t] = data->pad + 1 + (int32_t)(t - plain);
}

static void place_labels(int32_t *out /* [labels] */, const sf_dataset *set, size_t i, const sf_shape *s) {
    size_t count;
    const int32_t *labels = sf_dataset_labels(set, i, &count);
    for (size_t t = 0; t < sf_shape_labels(s); t++) out[t] = t < count ? labels[t] : SF_NO_LABEL;
}

void sf_batch_room_place(const sf_batch_room *room, size_t n, const sf_run_data *data, const sf_dataset *set, size_t i,
                         const sf_shape *shape) {
    size_t count;
    const int32_t *tokens = sf_dataset_tokens(set, i, &count);
    place_tokens(room->tokens + n * shape->T, data, tokens, count, shape);
    place_labels(room->labels + n * sf_shape_labels(shape), set, i, shape);
    room->last[n] = (uint32_t)count - 1; /* of the readout `last`: it has no CLS */
}

sf_batch sf_batch_room_read(const sf_batch_room *room, size_t B) {
    return (sf_batch){.tokens = room->tokens, .labels = room->labels, .B = B, .last = room->last};
}

size_t sf_labels_of(const sf_dataset *set, size_t i) {
    size_t count, labelled = 0;
    const int32_t *labels = sf_dataset_labels(set, i, &count);
    for (size_t t = 0; t < count; t++) labelled += labels[t] != SF_NO_LABEL;
    return labelled;
}
