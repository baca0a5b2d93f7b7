/* How far apart two runs are: the effect of one changed training sequence under the same random streams (Hardt, Recht,
 * Singer 2016, algorithmic stability). */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "semfocus/followup.h"
#include "store/stored_model.h"

typedef struct weights {
    sf_stored_run run; /* as it was when they were read */
    sf_safetensors *file;
} weights;

/* The i-th tensor of a checkpoint, if it is one of the weights: what the optimizer keeps follows them. */
static const sf_tensor *weight_at(const weights *of, size_t i) {
    const sf_tensor *tensor = sf_safetensors_at(of->file, i);
    return tensor != NULL && strncmp(tensor->name, "optimizer.", strlen("optimizer.")) != 0 ? tensor : NULL;
}

static bool same_tensor(const sf_tensor *a, const sf_tensor *b) {
    bool same = strcmp(a->name, b->name) == 0 && a->rank == b->rank;
    for (size_t r = 0; same && r < a->rank; r++) same = a->shape[r] == b->shape[r];
    return same;
}

static bool same_shape(const weights *a, const weights *b) {
    for (size_t i = 0;; i++) {
        const sf_tensor *left = weight_at(a, i), *right = weight_at(b, i);
        if (left == NULL || right == NULL) return left == right;
        if (!same_tensor(left, right)) return false;
    }
}

static sf_status check_comparable(const weights *a, const weights *b) {
    if (!same_shape(a, b))
        return sf_fail(
            SF_BAD_INPUT,
            "runs %s and %s have weights of different shapes; only runs of the same width, mlp-width, heads, "
            "blocks, vocabulary with global tokens, and classes have a distance",
            a->run.id, b->run.id);
    if (a->run.checkpoint_epoch != b->run.checkpoint_epoch)
        return sf_fail(
            SF_BAD_INPUT,
            "run %s has weights of epoch %zu but run %s of epoch %zu; train both for the same number of epochs",
            a->run.id, a->run.checkpoint_epoch, b->run.id, b->run.checkpoint_epoch);
    return SF_OK;
}

typedef struct squares {
    double apart, a, b;
} squares;

static sf_status add_tensor(squares *sum, const sf_tensor *a, const sf_tensor *b) {
    double *left = NULL, *right = NULL;
    sf_status status = SF_NEW(&left, a->count);
    if (status == SF_OK) status = SF_NEW(&right, a->count);
    if (status == SF_OK) status = sf_tensor_reals(left, a);
    if (status == SF_OK) status = sf_tensor_reals(right, b);
    for (size_t i = 0; status == SF_OK && i < a->count; i++) {
        sum->apart += (left[i] - right[i]) * (left[i] - right[i]);
        sum->a += left[i] * left[i];
        sum->b += right[i] * right[i];
    }
    sf_release(left);
    sf_release(right);
    return status;
}

static sf_status measure(sf_run_distance_result *out, const weights *a, const weights *b) {
    squares sum = {0};
    for (size_t i = 0; weight_at(a, i) != NULL; i++) SF_TRY(add_tensor(&sum, weight_at(a, i), weight_at(b, i)));
    out->distance = sqrt(sum.apart);
    out->norm_a = sqrt(sum.a);
    out->norm_b = sqrt(sum.b);
    out->relative = sum.apart > 0 ? 2 * out->distance / (out->norm_a + out->norm_b) : 0;
    return SF_OK;
}

static sf_status compare(sf_run_distance_result *out, sf_store *store, const weights *a, const weights *b) {
    sf_epoch row_a, row_b;
    SF_TRY(check_comparable(a, b));
    SF_TRY(sf_store_row(&row_a, store, &a->run, a->run.checkpoint_epoch));
    SF_TRY(sf_store_row(&row_b, store, &b->run, b->run.checkpoint_epoch));
    *out = (sf_run_distance_result){.epoch = a->run.checkpoint_epoch,
                                    .train_loss_a = row_a.train_loss,
                                    .train_loss_b = row_b.train_loss,
                                    .heldout_loss_a = row_a.heldout_loss,
                                    .heldout_loss_b = row_b.heldout_loss};
    return measure(out, a, b);
}

sf_status sf_run_distance(sf_run_distance_result *out, sf_store *store, const sf_stored_run *a,
                          const sf_stored_run *b) {
    *out = (sf_run_distance_result){0};
    weights left = {.run = *a}, right = {.run = *b};
    sf_status status = sf_stored_weights_open(&left.file, &left.run, store);
    if (status == SF_OK) status = sf_stored_weights_open(&right.file, &right.run, store);
    if (status == SF_OK) status = compare(out, store, &left, &right);
    sf_safetensors_close(left.file);
    sf_safetensors_close(right.file);
    return status;
}
