#include "tasks/dataset.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/stop.h"
#include "tasks/task.h"

sf_status sf_dataset_create(sf_dataset **out, size_t row_room, size_t token_room) {
    sf_dataset *data;
    *out = NULL;
    SF_TRY(SF_NEW(&data, 1));
    data->row_room = row_room;
    data->token_room = token_room;
    sf_status status;
    SF_TRY_GOTO(status, SF_NEW(&data->tokens, token_room), failed);
    SF_TRY_GOTO(status, SF_NEW(&data->offsets, row_room + 1), failed);
    SF_TRY_GOTO(status, SF_NEW(&data->labels, row_room), failed);
    *out = data;
    return SF_OK;
failed:
    sf_dataset_destroy(data);
    return status;
}

void sf_dataset_destroy(sf_dataset *data) {
    if (data == NULL) return;
    sf_release(data->tokens);
    sf_release(data->offsets);
    sf_release(data->labels);
    sf_release(data);
}

sf_status sf_dataset_open_row(int32_t **tokens, sf_dataset *data, size_t room) {
    const size_t used = data->offsets[data->count];
    if (room > data->token_room - used) {
        const size_t larger = 2 * data->token_room + room;
        SF_TRY(SF_GROW(&data->tokens, used, larger));
        data->token_room = larger;
    }
    if (data->count == data->row_room) {
        const size_t larger = 2 * data->row_room + 1;
        SF_TRY(SF_GROW(&data->offsets, data->count + 1, larger + 1));
        SF_TRY(SF_GROW(&data->labels, data->count, larger));
        data->row_room = larger;
    }
    *tokens = data->tokens + used;
    return SF_OK;
}

void sf_dataset_close_row(sf_dataset *data, size_t count, int32_t label) {
    const size_t start = data->offsets[data->count];
    for (size_t i = start; i < start + count; i++)
        if (data->tokens[i] > data->largest_token) data->largest_token = data->tokens[i];
    if (label > data->largest_label) data->largest_label = label;
    if (count > data->longest) data->longest = count;
    data->labels[data->count++] = label;
    data->offsets[data->count] = start + count;
}

static sf_status check_sample(const sf_task *task, const int32_t *tokens /* [count] */, size_t count, int32_t label,
                              size_t length) {
    const sf_task_info *info = &task->info;
    if (count < 1 || count > length)
        return sf_fail(SF_BAD_INPUT,
                       "the task %s sampled %zu tokens where length %zu was asked for; correct its sample", info->name,
                       count, length);
    if (label < 0 || label >= info->classes)
        return sf_fail(SF_BAD_INPUT,
                       "the task %s sampled label %d but its labels are 0..%d; correct its sample or classes",
                       info->name, label, info->classes - 1);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] > info->pad)
            return sf_fail(
                SF_BAD_INPUT,
                "the task %s sampled token %d at position %zu but its tokens are 0..%d; correct its sample or pad",
                info->name, tokens[i], i, info->pad);
    return SF_OK;
}

static sf_status add_sample(sf_dataset *data, const sf_task *task, sf_index index, size_t length) {
    int32_t *tokens, label;
    size_t count;
    sf_draws draws = sf_draws_at(index);
    SF_TRY(sf_dataset_open_row(&tokens, data, length));
    task->sample(tokens, &count, &label, length, &draws);
    SF_TRY(check_sample(task, tokens, count, label, length));
    sf_dataset_close_row(data, count, label);
    return SF_OK;
}

sf_status sf_dataset_majority(double *out, const sf_dataset *data) {
    size_t *counts, most = 0;
    SF_TRY(SF_NEW(&counts, (size_t)data->largest_label + 1));
    for (size_t i = 0; i < data->count; i++) {
        const size_t count = ++counts[data->labels[i]];
        if (count > most) most = count;
    }
    sf_release(counts);
    *out = data->count > 0 ? 100 * (double)most / (double)data->count : 0;
    return SF_OK;
}

sf_status sf_task_check_length(const sf_task *task, size_t length) {
    if (length >= task->info.shortest && length <= task->info.longest) return SF_OK;
    return sf_fail_on(SF_BAD_INPUT, "length", "length %zu is out of range; %s has lengths %zu..%zu", length,
                      task->info.name, task->info.shortest, task->info.longest);
}

sf_status sf_dataset_sample(sf_dataset **out, const sf_task *task, sf_split split, uint32_t seed, size_t count,
                            size_t length) {
    return sf_dataset_sample_until(out, task, split, seed, count, length, NULL);
}

sf_status sf_dataset_sample_until(sf_dataset **out, const sf_task *task, sf_split split, uint32_t seed, size_t count,
                                  size_t length, const atomic_int *stop) {
    *out = NULL;
    SF_TRY(sf_task_check_length(task, length));
    if (count < 1 || count > UINT32_MAX)
        return sf_fail(SF_BAD_INPUT, "cannot sample %zu sequences; ask for 1..%u", count, UINT32_MAX);
    sf_dataset *data;
    SF_TRY(sf_dataset_create(&data, count, count * length));
    const sf_purpose purpose = split == SF_TRAINING ? SF_TRAINING_DATA : SF_HELDOUT_DATA;
    sf_index index = {.seed = seed, .stream = sf_stream(purpose, 0, 0)};
    for (size_t i = 0; i < count; i++) {
        index.sample = (uint32_t)i;
        const sf_status status =
            sf_stop_asked(stop) ? sf_fail(SF_INTERRUPTED, "stopped on request") : add_sample(data, task, index, length);
        if (status == SF_OK) continue;
        sf_dataset_destroy(data);
        return status;
    }
    *out = data;
    return SF_OK;
}

static sf_status copy_row(sf_dataset *data, const sf_dataset *from, size_t i) {
    size_t count;
    const int32_t *source = sf_dataset_tokens(from, i, &count);
    int32_t *tokens;
    SF_TRY(sf_dataset_open_row(&tokens, data, count));
    memcpy(tokens, source, count * sizeof *tokens);
    sf_dataset_close_row(data, count, from->labels[i]);
    return SF_OK;
}

sf_status sf_dataset_hold_out(sf_dataset **training, sf_dataset **heldout, const sf_dataset *all, uint32_t seed,
                              double share) {
    *training = *heldout = NULL;
    if (!(share > 0 && share < 1))
        return sf_fail(SF_BAD_INPUT, "share %g cannot be held out; it must be between 0 and 1, both excluded", share);
    if (all->count < 2 || all->count > UINT32_MAX)
        return sf_fail(SF_BAD_INPUT, "%zu rows cannot be split into training and held-out data; give 2..%u", all->count,
                       UINT32_MAX);
    const size_t wanted = (size_t)round(share * (double)all->count);
    const size_t held = wanted < 1 ? 1 : wanted < all->count ? wanted : all->count - 1;
    sf_status status;
    sf_dataset *kept = NULL, *split_off = NULL;
    SF_TRY_GOTO(status, sf_dataset_create(&kept, all->count - held, 0), failed);
    SF_TRY_GOTO(status, sf_dataset_create(&split_off, held, 0), failed);
    sf_draws draws = sf_draws_at((sf_index){.seed = seed, .stream = sf_stream(SF_HOLD_OUT, 0, 0)});
    for (size_t i = 0; i < all->count; i++) {
        /* Selection sampling: of the rows left, as many as are still wanted are equally likely to contain this one. */
        const bool chosen = sf_draw_below(&draws, (uint32_t)(all->count - i)) < held - split_off->count;
        SF_TRY_GOTO(status, copy_row(chosen ? split_off : kept, all, i), failed);
    }
    *training = kept;
    *heldout = split_off;
    return SF_OK;
failed:
    sf_dataset_destroy(kept);
    sf_dataset_destroy(split_off);
    return status;
}

static bool same_tokens(const sf_dataset *a, size_t i, const sf_dataset *b, size_t j) {
    size_t left_count, right_count;
    const int32_t *left = sf_dataset_tokens(a, i, &left_count), *right = sf_dataset_tokens(b, j, &right_count);
    return left_count == right_count && memcmp(left, right, left_count * sizeof *left) == 0;
}

enum { REDRAWS = 1000 }; /* a different sequence, if there is one, is found long before */

/* Writes the redraw as the only row of `out`. Redraws use the steps 1, 2, ...; sf_dataset_sample() uses step 0. */
static sf_status redraw(sf_dataset *out, const sf_dataset *data, const sf_task *task, uint32_t seed, size_t length,
                        size_t i, size_t longest) {
    sf_index index = {.seed = seed, .stream = sf_stream(SF_TRAINING_DATA, 0, 0), .sample = (uint32_t)i};
    for (index.step = 1; index.step <= REDRAWS; index.step++) {
        size_t count;
        out->count = 0;
        SF_TRY(add_sample(out, task, index, length));
        sf_dataset_tokens(out, 0, &count);
        if (count <= longest && !same_tokens(out, 0, data, i)) return SF_OK;
    }
    return sf_fail(SF_BAD_INPUT, "%s of length %zu has no other sequence to swap for sequence %zu; choose a longer one",
                   task->info.name, length, i);
}

static sf_status copy_with(sf_dataset *out, const sf_dataset *data, const sf_dataset *replacement, size_t at) {
    for (size_t i = 0; i < data->count; i++) SF_TRY(i == at ? copy_row(out, replacement, 0) : copy_row(out, data, i));
    return SF_OK;
}

sf_status sf_dataset_redraw(sf_dataset **data, const sf_task *task, uint32_t seed, size_t length, size_t i,
                            size_t longest) {
    sf_dataset *fresh = NULL, *swapped = NULL;
    sf_status status = sf_dataset_create(&fresh, 1, length);
    if (status == SF_OK) status = redraw(fresh, *data, task, seed, length, i, longest);
    if (status == SF_OK) status = sf_dataset_create(&swapped, (*data)->count, (*data)->offsets[(*data)->count]);
    if (status == SF_OK) status = copy_with(swapped, *data, fresh, i);
    sf_dataset_destroy(fresh);
    if (status != SF_OK) {
        sf_dataset_destroy(swapped);
        return status;
    }
    sf_dataset_destroy(*data);
    *data = swapped;
    return SF_OK;
}

size_t sf_dataset_count(const sf_dataset *data) {
    return data->count;
}

size_t sf_dataset_longest(const sf_dataset *data) {
    return data->longest;
}

const int32_t *sf_dataset_tokens(const sf_dataset *data, size_t i, size_t *count) {
    *count = data->offsets[i + 1] - data->offsets[i];
    return data->tokens + data->offsets[i];
}

int32_t sf_dataset_label(const sf_dataset *data, size_t i) {
    return data->labels[i];
}

int32_t sf_dataset_largest_token(const sf_dataset *data) {
    return data->largest_token;
}

int32_t sf_dataset_largest_label(const sf_dataset *data) {
    return data->largest_label;
}
