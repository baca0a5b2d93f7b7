/* How far apart two runs are: what one other training sequence makes of the same random streams (Hardt, Recht, Singer
 * 2016, algorithmic stability). */
#include <math.h>

#include "lab/stored_model.h"
#include "semfocus/followup.h"

static bool same_shape(const sf_model *a, const sf_model *b) {
    bool same = a->param_count == b->param_count && a->shape.H == b->shape.H;
    for (size_t p = 0; same && p < a->param_count; p++)
        same = a->params[p].rows == b->params[p].rows && a->params[p].columns == b->params[p].columns;
    return same;
}

static sf_status check_comparable(const sf_stored_model *a, const sf_stored_model *b) {
    if (!same_shape(a->model, b->model))
        return sf_fail(
            SF_BAD_INPUT,
            "runs %s and %s have weights of different shapes; only runs of the same width, mlp-width, heads, "
            "blocks, vocabulary with global tokens, and classes have a distance",
            a->run.id, b->run.id);
    if (a->epoch != b->epoch)
        return sf_fail(
            SF_BAD_INPUT,
            "run %s has weights of epoch %zu but run %s of epoch %zu; train both for the same number of epochs",
            a->run.id, a->epoch, b->run.id, b->epoch);
    return SF_OK;
}

static void measure(sf_run_distance_result *out, const sf_model *model, const float *a /* [size] */,
                    const float *b /* [size] */) {
    double apart = 0, size_a = 0, size_b = 0;
    for (size_t p = 0; p < model->param_count; p++)
        for (size_t r = 0; r < model->params[p].rows; r++)
            for (size_t c = 0; c < model->params[p].columns; c++) {
                const size_t i = sf_param_index(&model->params[p], r, c);
                const double left = (double)a[i], right = (double)b[i];
                apart += (left - right) * (left - right);
                size_a += left * left;
                size_b += right * right;
            }
    out->distance = sqrt(apart);
    out->norm_a = sqrt(size_a);
    out->norm_b = sqrt(size_b);
    out->relative = apart > 0 ? 2 * out->distance / (out->norm_a + out->norm_b) : 0;
}

static sf_status compare(sf_run_distance_result *out, sf_store *store, const sf_stored_model *a,
                         const sf_stored_model *b) {
    sf_epoch row_a, row_b;
    SF_TRY(check_comparable(a, b));
    SF_TRY(sf_store_row(&row_a, store, &a->run, a->epoch));
    SF_TRY(sf_store_row(&row_b, store, &b->run, b->epoch));
    *out = (sf_run_distance_result){.epoch = a->epoch,
                                    .train_loss_a = row_a.train_loss,
                                    .train_loss_b = row_b.train_loss,
                                    .heldout_loss_a = row_a.heldout_loss,
                                    .heldout_loss_b = row_b.heldout_loss};
    measure(out, a->model, a->params, b->params);
    return SF_OK;
}

sf_status sf_run_distance(sf_run_distance_result *out, sf_store *store, const sf_stored_run *a,
                          const sf_stored_run *b) {
    *out = (sf_run_distance_result){0};
    sf_stored_model left = {0}, right = {0};
    sf_status status = sf_stored_model_open(&left, store, a, SF_AT_LAST);
    if (status == SF_OK) status = sf_stored_model_open(&right, store, b, SF_AT_LAST);
    if (status == SF_OK) status = compare(out, store, &left, &right);
    sf_stored_model_close(&left);
    sf_stored_model_close(&right);
    return status;
}
