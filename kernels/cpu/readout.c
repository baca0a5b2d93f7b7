/* From the last block's output to the loss: the readout, the linear head and the cross-entropy, for readouts with one
 * label per sequence. */
#include <string.h>

#include "base/elementary.h"
#include "kernels/cpu/rows.h"

/* Cross-entropy of the logits; they become its gradient. */
static double cross_entropy(double *logits, uint32_t *correct, int32_t label, size_t classes) {
    double largest = logits[0], total = 0;
    size_t guess = 0;
    for (size_t i = 1; i < classes; i++)
        if (logits[i] > largest) {
            largest = logits[i];
            guess = i;
        }
    const double target = logits[label];
    for (size_t i = 0; i < classes; i++) total += logits[i] = sf_exp(logits[i] - largest);
    for (size_t i = 0; i < classes; i++) logits[i] /= total;
    logits[label] -= 1.0;
    *correct = guess == (size_t)label;
    return sf_log(total) + largest - target;
}

/* The position that `last` and `cls` read. */
static size_t last_of(const sf_job *job, size_t n) {
    const sf_shape *s = &job->plan->model->shape;
    if (s->readout == SF_READ_CLS) return 0;
    return job->last != NULL ? job->last[n] : s->T - s->attention.globals - 1;
}

/* The mean over the positions, or one of them. */
static void read_out(double *pooled /* [C] */, const float *x /* [T,Cp] */, const sf_job *job, size_t n) {
    const sf_shape *s = &job->plan->model->shape;
    const size_t Cp = job->plan->rows.Cp;
    const bool mean = s->readout == SF_READ_MEAN;
    const size_t first = mean ? 0 : last_of(job, n), end = mean ? s->T : first + 1;
    memset(pooled, 0, s->C * sizeof *pooled);
    for (size_t t = first; t < end; t++)
        for (size_t c = 0; c < s->C; c++) pooled[c] += (double)x[t * Cp + c];
    for (size_t c = 0; mean && c < s->C; c++) pooled[c] /= (double)s->T;
}

static void read_out_backward(float *dx /* [T,Cp] */, const double *dpooled /* [C] */, const sf_job *job, size_t n) {
    const sf_shape *s = &job->plan->model->shape;
    const size_t Cp = job->plan->rows.Cp, last = last_of(job, n);
    const bool mean = s->readout == SF_READ_MEAN;
    const double share = mean ? (double)s->T : 1;
    memset(dx, 0, s->T * Cp * sizeof *dx);
    for (size_t c = 0; c < s->C; c++) dx[(mean ? 0 : last) * Cp + c] = (float)(dpooled[c] / share);
    for (size_t t = 1; t < s->T && mean; t++) memcpy(dx + t * Cp, dx, Cp * sizeof *dx);
}

/* Logits of some classes at a time, whose sums do not wait for each other. */
static void score_classes(double *logits /* [classes] */, const double *pooled /* [C] */,
                          const float *weight /* [classes,Cp] */, const float *bias /* [classes] */, size_t classes,
                          size_t C) {
    enum { AT_ONCE = 8 };
    const size_t Cp = sf_padded(C);
    for (size_t first = 0; first < classes; first += AT_ONCE) {
        const size_t count = classes - first < AT_ONCE ? classes - first : AT_ONCE;
        const float *row[AT_ONCE];
        double sums[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++) { /* the last ones once more, so that the number is a constant */
            const size_t at = first + (i < count ? i : count - 1);
            row[i] = weight + at * Cp;
            sums[i] = (double)bias[at];
        }
        for (size_t c = 0; c < C; c++)
            for (size_t i = 0; i < AT_ONCE; i++) sums[i] += pooled[c] * (double)row[i][c];
        memcpy(logits + first, sums, count * sizeof *sums);
    }
}

/* Readout, linear head, loss of sequence n; with a gradient, starts the backward pass: dx. In double:
 * logits near 0 are small differences of large sums, and the cost is small. */
void sf_classify(const sf_job *job, size_t n) {
    const sf_cpu_plan *plan = job->plan;
    const sf_workspace *work = job->work;
    const size_t T = plan->model->shape.T, C = plan->model->shape.C, Cp = plan->rows.Cp;
    const size_t classes = plan->model->shape.classes;
    const sf_param *head = sf_model_head(plan->model);
    const float *weight = job->params + head[0].offset, *bias = job->params + head[1].offset;
    const float *x = work->x + n * T * Cp;

    read_out(work->pooled, x, job, n);
    score_classes(work->logits, work->pooled, weight, bias, classes, C);
    if (job->logits != NULL)
        for (size_t i = 0; i < classes; i++) job->logits[n * classes + i] = (float)work->logits[i];
    job->losses[n] = cross_entropy(work->logits, &job->correct[n], job->labels[n], classes);
    if (job->gradient == NULL) return;

    float *dweight = job->gradient + head[0].offset, *dbias = job->gradient + head[1].offset;
    memset(work->dpooled, 0, C * sizeof *work->dpooled);
    for (size_t i = 0; i < classes; i++) {
        const double slope = work->logits[i] * job->gradient_scale;
        dbias[i] += (float)slope;
        for (size_t c = 0; c < C; c++) {
            dweight[i * Cp + c] += (float)(slope * work->pooled[c]);
            work->dpooled[c] += slope * (double)weight[i * Cp + c];
        }
    }
    read_out_backward(work->dx + n * T * Cp, work->dpooled, job, n);
}
