/* Rows at random: sampled from a task, sampled again, and held out. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/stop.h"
#include "tasks/dataset.h"
#include "tasks/task.h"

typedef struct drawing {
    const sf_sampling *what;
    sf_task_info info; /* of the variant */
    sf_task_options options;
} drawing;

static sf_status prepare(drawing *out, const sf_sampling *what) {
    *out = (drawing){.what = what, .options = what->options != NULL ? *what->options : sf_task_options_of(NULL)};
    SF_TRY(sf_task_describe_with(&out->info, what->task, &out->options));
    SF_TRY(sf_task_check_length_of(&out->info, what->length));
    if (what->shortest == 0) return SF_OK;
    if (what->shortest > what->length)
        return sf_fail_on(SF_BAD_INPUT, "min-length", "the shortest length is %zu but the longest is %zu; lower it",
                          what->shortest, what->length);
    return sf_task_check_length_of(&out->info, what->shortest);
}

static sf_status check_tokens(const sf_task_info *info, const int32_t *tokens /* [count] */, size_t count,
                              size_t length) {
    if (count < 1 || count > length)
        return sf_fail(SF_BAD_INPUT,
                       "the task %s sampled %zu tokens where length %zu was asked for; correct its sample", info->name,
                       count, length);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] > info->pad)
            return sf_fail(
                SF_BAD_INPUT,
                "the task %s sampled token %d at position %zu but its tokens are 0..%d; correct its sample or pad",
                info->name, tokens[i], i, info->pad);
    return SF_OK;
}

static sf_status check_label(const sf_task_info *info, int32_t label, int32_t smallest) {
    if (label >= smallest && label < info->classes) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "the task %s sampled label %d but its labels are 0..%d; correct its sample or classes",
                   info->name, label, info->classes - 1);
}

/* `labels` has room for one label, or for `length` of them. */
static void call_sampler(int32_t *tokens, int32_t *labels, size_t *count, size_t length, const drawing *d,
                         sf_draws *draws) {
    const sf_task *task = d->what->task;
    if (task->sample_with != NULL)
        task->sample_with(tokens, labels, count, length, &d->options, draws);
    else if (task->sample_each != NULL)
        task->sample_each(tokens, labels, count, length, draws);
    else
        task->sample(tokens, count, labels, length, draws);
}

/* Lengths come from a place of their own, so that the other draws do not depend on whether they are drawn. */
static size_t draw_length(const sf_sampling *what, sf_index index) {
    if (what->shortest == 0) return what->length;
    index.epoch = 1;
    sf_draws draws = sf_draws_at(index);
    return what->shortest + sf_draw_below(&draws, (uint32_t)(what->length - what->shortest + 1));
}

static sf_status add_sample(sf_dataset *data, const drawing *d, sf_index index) {
    const size_t length = draw_length(d->what, index);
    int32_t *tokens, *labels;
    size_t count;
    sf_draws draws = sf_draws_at(index);
    SF_TRY(sf_dataset_open_row(&tokens, &labels, data, length));
    call_sampler(tokens, labels, &count, length, d, &draws);
    SF_TRY(check_tokens(&d->info, tokens, count, length));
    if (!data->labels_each) {
        SF_TRY(check_label(&d->info, *labels, 0));
        sf_dataset_close_row(data, count, *labels);
        return SF_OK;
    }
    for (size_t t = 0; t < count; t++) SF_TRY(check_label(&d->info, labels[t], -1));
    sf_dataset_close_row_each(data, count);
    return SF_OK;
}

sf_status sf_dataset_sample(sf_dataset **out, const sf_task *task, sf_split split, uint32_t seed, size_t count,
                            size_t length) {
    const sf_sampling what = {.task = task, .split = split, .seed = seed, .count = count, .length = length};
    return sf_dataset_draw(out, &what);
}

sf_status sf_dataset_draw(sf_dataset **out, const sf_sampling *what) {
    return sf_dataset_draw_until(out, what, NULL);
}

sf_status sf_dataset_draw_until(sf_dataset **out, const sf_sampling *what, const atomic_int *stop) {
    *out = NULL;
    drawing d;
    SF_TRY(prepare(&d, what));
    if (what->count < 1 || what->count > UINT32_MAX)
        return sf_fail(SF_BAD_INPUT, "cannot sample %zu sequences; ask for 1..%u", what->count, UINT32_MAX);
    sf_dataset *data;
    SF_TRY(sf_dataset_create(&data, what->count, what->count * what->length, sf_task_labels_each(what->task)));
    const sf_purpose purpose = what->split == SF_TRAINING ? SF_TRAINING_DATA : SF_HELDOUT_DATA;
    sf_index index = {.seed = what->seed, .stream = sf_stream(purpose, 0, 0)};
    for (size_t i = 0; i < what->count; i++) {
        index.sample = (uint32_t)i;
        const sf_status status =
            sf_stop_asked(stop) ? sf_fail(SF_INTERRUPTED, "stopped on request") : add_sample(data, &d, index);
        if (status == SF_OK) continue;
        sf_dataset_destroy(data);
        return status;
    }
    *out = data;
    return SF_OK;
}

/* An empty dataset for rows of `from`, borrowed like those. */
static sf_status create_like(sf_dataset **out, const sf_dataset *from, size_t rows) {
    if (!from->borrowed) return sf_dataset_create(out, rows, 0, from->labels_each);
    const sf_dataset_view view = {from->tokens, from->labels, from->labels_each, from->largest_token,
                                  from->largest_label};
    return sf_dataset_borrow(out, &view, rows);
}

static sf_status copy_row(sf_dataset *data, const sf_dataset *from, size_t i) {
    size_t count, label_count;
    const int32_t *source = sf_dataset_tokens(from, i, &count);
    const int32_t *source_labels = sf_dataset_labels(from, i, &label_count);
    if (data->borrowed) return sf_dataset_add_view(data, from->rows[i].start, count);
    int32_t *tokens, *labels;
    SF_TRY(sf_dataset_open_row(&tokens, &labels, data, count));
    memcpy(tokens, source, count * sizeof *tokens);
    memcpy(labels, source_labels, label_count * sizeof *labels);
    if (data->labels_each)
        sf_dataset_close_row_each(data, count);
    else
        sf_dataset_close_row(data, count, *labels);
    return SF_OK;
}

sf_status sf_dataset_hold_out(sf_dataset **training, sf_dataset **heldout, const sf_dataset *all, uint32_t seed,
                              double share) {
    *training = *heldout = NULL;
    if (!(share > 0 && share < 1))
        return sf_fail(SF_BAD_INPUT, "share %g cannot be held out; it must be between 0 and 1, both excluded", share);
    if (all->count < 2 || all->count > UINT32_MAX)
        return sf_fail(SF_BAD_INPUT, "%zu row%s cannot be split into training and held-out data; give 2..%u",
                       all->count, all->count == 1 ? "" : "s", UINT32_MAX);
    const size_t wanted = (size_t)round(share * (double)all->count);
    const size_t held = wanted < 1 ? 1 : wanted < all->count ? wanted : all->count - 1;
    sf_status status;
    sf_dataset *kept = NULL, *split_off = NULL;
    SF_TRY_GOTO(status, create_like(&kept, all, all->count - held), failed);
    SF_TRY_GOTO(status, create_like(&split_off, all, held), failed);
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

/* Writes the redraw as the only row of `out`. Redraws use the steps 1, 2, ...; other samples use step 0. */
static sf_status redraw(sf_dataset *out, const sf_dataset *data, const sf_sampling *what, size_t i, size_t longest) {
    sf_index index = {.seed = what->seed, .stream = sf_stream(SF_TRAINING_DATA, 0, 0), .sample = (uint32_t)i};
    drawing d;
    SF_TRY(prepare(&d, what));
    for (index.step = 1; index.step <= REDRAWS; index.step++) {
        size_t count;
        out->count = out->tokens_used = 0;
        SF_TRY(add_sample(out, &d, index));
        sf_dataset_tokens(out, 0, &count);
        if (count <= longest && !same_tokens(out, 0, data, i)) return SF_OK;
    }
    return sf_fail(SF_BAD_INPUT, "%s of length %zu has no other sequence to swap for sequence %zu; choose a longer one",
                   d.info.name, what->length, i);
}

static sf_status copy_with(sf_dataset *out, const sf_dataset *data, const sf_dataset *replacement, size_t at) {
    for (size_t i = 0; i < data->count; i++) SF_TRY(i == at ? copy_row(out, replacement, 0) : copy_row(out, data, i));
    return SF_OK;
}

sf_status sf_dataset_redraw(sf_dataset **data, const sf_sampling *what, size_t i, size_t longest) {
    sf_dataset *fresh = NULL, *swapped = NULL;
    sf_status status = sf_dataset_create(&fresh, 1, what->length, (*data)->labels_each);
    if (status == SF_OK) status = redraw(fresh, *data, what, i, longest);
    if (status == SF_OK)
        status = sf_dataset_create(&swapped, (*data)->count, (*data)->tokens_used, (*data)->labels_each);
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
