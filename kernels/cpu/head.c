/* The readout `each`: linear head and cross-entropy at every labelled position.
 *
 * Rows are taken a tile at a time. The logits of a tile become their own gradient in place and are used up before the
 * next tile, so that nothing of the size of all positions times all classes is ever stored. */
#include <string.h>

#include "base/elementary.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"

enum { SUMMED_COLUMNS = 1024 }; /* whose exponentials are added in floats; these sums are added in double */

static float largest_of(const float *logits, size_t classes) {
    vf largest = splat(-INFINITY);
    size_t i = 0;
    for (; i + VL <= classes; i += VL) largest = max_of(load(logits + i), largest);
    if (i < classes) largest = max_of(load_first(logits + i, classes - i, -INFINITY), largest);
    return max_lanes(largest);
}

/* The logits become exp(logit - largest), and padding 0; returns their sum. */
static double exponentials(float *logits, float largest, size_t classes) {
    const size_t padded = sf_padded(classes);
    double total = 0;
    for (size_t first = 0; first < padded; first += SUMMED_COLUMNS) {
        const size_t end = padded - first < SUMMED_COLUMNS ? padded : first + SUMMED_COLUMNS;
        lane_sums sums = {0};
        for (size_t c = first; c < end; c += SUM_LANES) {
            vf x[SUM_VECTORS];
            for (size_t v = 0; v < SUM_VECTORS; v++) x[v] = load(logits + c + v * VL) - splat(largest);
            exp_each_below_zero(x, SUM_VECTORS);
            for (size_t v = 0; v < SUM_VECTORS; v++) {
                const size_t at = c + v * VL;
                if (at + VL > classes) x[v] = masked(real_bits(at, classes), x[v]);
                sums.at[v] += x[v];
                store(logits + at, x[v]);
            }
        }
        total += (double)total_of(sums);
    }
    return total;
}

/* The first of the largest logits is the guess. */
static bool guesses(const float *logits, float largest, size_t label) {
    if (logits[label] != largest) return false;
    for (size_t i = 0; i < label; i++)
        if (logits[i] == largest) return false;
    return true;
}

/* Cross-entropy of a row of logits, which becomes its gradient times `scale`. */
static double cross_entropy(float *logits, uint32_t *correct, size_t label, double scale, size_t classes) {
    const float largest = largest_of(logits, classes), target = logits[label];
    *correct += guesses(logits, largest, label);
    const double total = exponentials(logits, largest, classes);
    const double of_label = (double)logits[label] / total;
    sf_row_scale(logits, (float)(scale / total), sf_padded(classes));
    logits[label] = (float)((of_label - 1) * scale);
    return sf_log(total) + (double)largest - (double)target;
}

static void gather(float *rows /* [count,Cp] */, const float *x /* [any,Cp] */, const uint32_t *listed /* [count] */,
                   size_t count, size_t Cp) {
    for (size_t i = 0; i < count; i++) memcpy(rows + i * Cp, x + listed[i] * Cp, Cp * sizeof *rows);
}

static void scatter(float *x /* [any,Cp] */, const float *rows /* [count,Cp] */, const uint32_t *listed /* [count] */,
                    size_t count, size_t Cp) {
    for (size_t i = 0; i < count; i++) memcpy(x + listed[i] * Cp, rows + i * Cp, Cp * sizeof *rows);
}

static void head_backward(const sf_job *job, size_t count) {
    const sf_workspace *work = job->work;
    const sf_param *head = sf_model_head(job->plan->model);
    const size_t Cp = job->plan->rows.Cp, classes = job->plan->model->shape.classes, Vp = sf_padded(classes);
    sf_rows_sum(job->gradient + head[1].offset, true, work->tile_logits, Vp, count, Vp);
    sf_gemm(job->gradient + head[0].offset, Cp, sf_transposed(work->tile_logits, Vp), sf_plain(work->tile_rows, Cp),
            NULL, true, classes, Cp, count);
    sf_gemm(work->tile_rows, Cp, sf_upright(work->tile_logits, Vp), job->head->back.at, NULL, false, count, Cp,
            classes);
    scatter(work->dx, work->tile_rows, work->tile_listed, count, Cp);
}

/* The rows that are listed in tile_listed. */
static void classify_tile(const sf_job *job, size_t count) {
    const sf_cpu_plan *plan = job->plan;
    const sf_workspace *work = job->work;
    const size_t T = plan->model->shape.T, Cp = plan->rows.Cp, classes = plan->model->shape.classes;
    const size_t Vp = sf_padded(classes);
    const sf_param *bias = &sf_model_head(plan->model)[1];
    gather(work->tile_rows, work->x, work->tile_listed, count, Cp);
    sf_gemm(work->tile_logits, Vp, sf_upright(work->tile_rows, Cp), job->head->across.at, job->params + bias->offset,
            false, count, Vp, Cp);
    for (size_t i = 0; i < count; i++) {
        const size_t row = work->tile_listed[i], n = row / T;
        float *logits = work->tile_logits + i * Vp;
        if (job->logits != NULL) memcpy(job->logits + row * classes, logits, classes * sizeof *logits);
        if (job->labels[row] != SF_NO_LABEL)
            job->losses[n] +=
                cross_entropy(logits, &job->correct[n], (size_t)job->labels[row], job->gradient_scale, classes);
    }
    if (job->gradient != NULL) head_backward(job, count);
}

void sf_classify_each(const sf_job *job) {
    const size_t R = job->n * job->plan->model->shape.T;
    uint32_t *listed = job->work->tile_listed;
    memset(job->losses, 0, job->n * sizeof *job->losses);
    memset(job->correct, 0, job->n * sizeof *job->correct);
    if (job->gradient != NULL) memset(job->work->dx, 0, R * job->plan->rows.Cp * sizeof *job->work->dx);
    for (size_t r = 0; r < R;) {
        size_t count = 0;
        for (; r < R && count < SF_GROUP_ROWS; r++) /* logits are asked for at all positions */
            if (job->labels[r] != SF_NO_LABEL || job->logits != NULL) listed[count++] = (uint32_t)r;
        if (count > 0) classify_tile(job, count);
    }
}

void sf_pack_head(sf_packed_head *packed, const sf_cpu_plan *plan, const float *params) {
    const size_t Cp = plan->rows.Cp, classes = plan->model->shape.classes;
    const float *weight = params + sf_model_head(plan->model)[0].offset;
    const sf_right across = sf_transpose_to_panels(packed->across.transposed, 1.0F, weight, Cp, classes, Cp);
    packed->across.at = sf_prepare(packed->across.room, across, Cp, sf_padded(classes));
    packed->back.at = sf_prepare(packed->back.room, sf_plain(weight, Cp), classes, Cp);
}
