#include "tasks/dataset.h"

#include <assert.h>

#include "base/memory.h"

static sf_status create(sf_dataset **out, size_t row_room, bool labels_each) {
    sf_dataset *data;
    *out = NULL;
    SF_TRY(SF_NEW(&data, 1));
    data->labels_each = labels_each;
    data->row_room = row_room;
    const sf_status status = SF_NEW(&data->rows, row_room);
    if (status != SF_OK) {
        sf_release(data);
        return status;
    }
    *out = data;
    return SF_OK;
}

sf_status sf_dataset_create(sf_dataset **out, size_t row_room, size_t token_room, bool labels_each) {
    sf_dataset *data;
    *out = NULL;
    SF_TRY(create(&data, row_room, labels_each));
    sf_status status = SF_NEW(&data->own_tokens, token_room);
    if (status == SF_OK) status = SF_NEW(&data->own_labels, labels_each ? token_room : row_room);
    if (status != SF_OK) {
        sf_dataset_destroy(data);
        return status;
    }
    data->token_room = token_room;
    data->tokens = data->own_tokens;
    data->labels = data->own_labels;
    *out = data;
    return SF_OK;
}

sf_status sf_dataset_borrow(sf_dataset **out, const sf_dataset_view *view, size_t row_room) {
    SF_TRY(create(out, row_room, view->labels_each));
    sf_dataset *data = *out;
    data->borrowed = true;
    data->tokens = view->tokens;
    data->labels = view->labels;
    data->largest_token = view->largest_token;
    data->largest_label = view->largest_label;
    return SF_OK;
}

void sf_dataset_destroy(sf_dataset *data) {
    if (data == NULL) return;
    sf_release(data->own_tokens);
    sf_release(data->own_labels);
    sf_release(data->rows);
    sf_release(data);
}

static sf_status grow_rows(sf_dataset *data) {
    if (data->count < data->row_room) return SF_OK;
    const size_t larger = 2 * data->row_room + 1;
    SF_TRY(SF_GROW(&data->rows, data->count, larger));
    if (!data->borrowed && !data->labels_each) SF_TRY(SF_GROW(&data->own_labels, data->count, larger));
    data->labels = data->borrowed ? data->labels : data->own_labels;
    data->row_room = larger;
    return SF_OK;
}

static sf_status grow_tokens(sf_dataset *data, size_t room) {
    if (room <= data->token_room - data->tokens_used) return SF_OK;
    const size_t larger = 2 * data->token_room + room;
    SF_TRY(SF_GROW(&data->own_tokens, data->tokens_used, larger));
    data->tokens = data->own_tokens;
    if (data->labels_each) SF_TRY(SF_GROW(&data->own_labels, data->tokens_used, larger));
    data->labels = data->own_labels;
    data->token_room = larger;
    return SF_OK;
}

sf_status sf_dataset_open_row(int32_t **tokens, int32_t **labels, sf_dataset *data, size_t room) {
    SF_TRY(grow_tokens(data, room));
    SF_TRY(grow_rows(data));
    *tokens = data->own_tokens + data->tokens_used;
    if (labels != NULL) *labels = data->own_labels + (data->labels_each ? data->tokens_used : data->count);
    return SF_OK;
}

static void note_label(sf_dataset *data, int32_t label) {
    data->label_count += label >= 0;
    if (label > data->largest_label) data->largest_label = label;
}

static void add_row(sf_dataset *data, size_t start, size_t count) {
    if (count > data->longest) data->longest = count;
    data->rows[data->count++] = (sf_dataset_row){start, count};
}

static void close_row(sf_dataset *data, size_t count) {
    for (size_t i = data->tokens_used; i < data->tokens_used + count; i++)
        if (data->tokens[i] > data->largest_token) data->largest_token = data->tokens[i];
    add_row(data, data->tokens_used, count);
    data->tokens_used += count;
}

void sf_dataset_close_row(sf_dataset *data, size_t count, int32_t label) {
    data->own_labels[data->count] = label;
    note_label(data, label);
    close_row(data, count);
}

void sf_dataset_close_row_each(sf_dataset *data, size_t count) {
    for (size_t t = 0; t < count; t++) note_label(data, data->labels[data->tokens_used + t]);
    close_row(data, count);
}

sf_status sf_dataset_make_each(sf_dataset *data) {
    assert(data->longest <= 1 && !data->borrowed); /* row i is token i: its label is already in its place */
    SF_TRY(SF_GROW(&data->own_labels, data->count, data->token_room));
    data->labels = data->own_labels;
    data->labels_each = true;
    return SF_OK;
}

sf_status sf_dataset_add_view(sf_dataset *data, size_t start, size_t count) {
    SF_TRY(grow_rows(data));
    data->label_count += data->labels_each ? count : 1;
    add_row(data, start, count);
    return SF_OK;
}

size_t sf_dataset_count(const sf_dataset *data) {
    return data->count;
}

size_t sf_dataset_longest(const sf_dataset *data) {
    return data->longest;
}

size_t sf_dataset_label_count(const sf_dataset *data) {
    return data->label_count;
}

const int32_t *sf_dataset_tokens(const sf_dataset *data, size_t i, size_t *count) {
    *count = data->rows[i].count;
    return data->tokens + data->rows[i].start;
}

bool sf_dataset_labels_each(const sf_dataset *data) {
    return data->labels_each;
}

const int32_t *sf_dataset_labels(const sf_dataset *data, size_t i, size_t *count) {
    *count = data->labels_each ? data->rows[i].count : 1;
    return data->labels + (data->labels_each || data->borrowed ? data->rows[i].start : i);
}

int32_t sf_dataset_label(const sf_dataset *data, size_t i) {
    size_t count;
    return data->labels_each ? -1 : *sf_dataset_labels(data, i, &count);
}

int32_t sf_dataset_largest_token(const sf_dataset *data) {
    return data->largest_token;
}

int32_t sf_dataset_largest_label(const sf_dataset *data) {
    return data->largest_label;
}

sf_status sf_dataset_majority(double *out, const sf_dataset *data) {
    size_t *counts, most = 0;
    SF_TRY(SF_NEW(&counts, (size_t)data->largest_label + 1));
    for (size_t i = 0; i < data->count; i++) {
        size_t count;
        const int32_t *labels = sf_dataset_labels(data, i, &count);
        for (size_t t = 0; t < count; t++)
            if (labels[t] >= 0 && ++counts[labels[t]] > most) most = counts[labels[t]];
    }
    sf_release(counts);
    *out = data->label_count > 0 ? 100 * (double)most / (double)data->label_count : 0;
    return SF_OK;
}
