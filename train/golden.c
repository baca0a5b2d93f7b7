#include "semfocus/golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/reference/reference.h"
#include "train/evaluator.h"
#include "train/golden_file.h"
#include "train/golden_support.h"
#include "train/optimizer.h"

/* One implementation: loss, logits and gradient of its weights, in double. */
typedef struct engine {
    double loss;
    double *gradient;        /* [size] */
    double *logits;          /* [B,labels,classes] */
    sf_reference *reference; /* in double */
    double *params;
    sf_evaluator evaluator, observer; /* in floats; the observer: of bf16 and tf32 */
    float *narrow_params, *narrow_gradient, *narrow_logits;
    sf_status (*run)(struct engine *engine, const sf_golden_file *g);
    sf_status (*step)(struct engine *engine, const sf_golden_file *g);
} engine;

static double norm_of(const double *values, size_t size) {
    double total = 0;
    for (size_t i = 0; i < size; i++) total += values[i] * values[i];
    return sqrt(total);
}

static double largest_of(const double *values, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(values[i]));
    return largest;
}

static sf_batch batch_of(const sf_golden_file *g) {
    return (sf_batch){.tokens = g->tokens, .labels = g->labels, .B = g->B};
}

static sf_status open_engine(engine *e, const sf_golden_file *g) {
    SF_TRY(SF_NEW(&e->gradient, g->model.size));
    return SF_NEW(&e->logits, sf_golden_logits(g));
}

static void close_engine(engine *e) {
    sf_reference_destroy(e->reference);
    sf_evaluator_close(&e->evaluator);
    sf_evaluator_close(&e->observer);
    sf_release(e->gradient);
    sf_release(e->logits);
    sf_release(e->params);
    sf_release(e->narrow_params);
    sf_release(e->narrow_gradient);
    sf_release(e->narrow_logits);
}

/* ---- the reference */

static sf_status reference_run(engine *e, const sf_golden_file *g) {
    const sf_batch batch = batch_of(g);
    sf_reference_run(e->reference, &e->loss, e->logits, e->gradient, e->params, &batch, &(sf_moment){0});
    return SF_OK;
}

static sf_status reference_step(engine *e, const sf_golden_file *g) {
    const double factor = sf_clip_factor(norm_of(e->gradient, g->model.size), g->clip);
    for (size_t i = 0; i < g->model.size; i++) e->params[i] -= g->lr * factor * e->gradient[i];
    return SF_OK;
}

static sf_status open_reference(engine *e, const sf_golden_file *g) {
    e->run = reference_run;
    e->step = reference_step;
    SF_TRY(open_engine(e, g));
    SF_TRY(sf_reference_create(&e->reference, &g->model));
    SF_TRY(SF_NEW(&e->params, g->model.size));
    memcpy(e->params, g->params, g->model.size * sizeof *e->params);
    return SF_OK;
}

/* ---- a device */

static sf_status device_run(engine *e, const sf_golden_file *g) {
    const sf_batch batch = batch_of(g);
    const sf_moment moment = {0};
    const float *params = e->narrow_params;
    sf_evaluation unused;
    SF_TRY(sf_evaluator_evaluate(&e->evaluator, &unused, e->narrow_logits, &params, 1, &batch, &moment));
    SF_TRY(sf_evaluator_gradient(&e->evaluator, &e->loss, e->narrow_gradient, params, &batch, &moment));
    for (size_t i = 0; i < sf_golden_logits(g); i++) e->logits[i] = (double)e->narrow_logits[i];
    for (size_t i = 0; i < g->model.size; i++) e->gradient[i] = (double)e->narrow_gradient[i];
    return SF_OK;
}

static sf_status device_step(engine *e, const sf_golden_file *g) {
    const sf_batch batch = batch_of(g);
    sf_config config;
    sf_config_init(&config);
    config.clip = g->clip;
    double loss;
    return sf_evaluator_step(&e->evaluator, &loss, &e->narrow_params,
                             &(sf_update){.config = &config, .lr = g->lr, .step = 1}, &batch, &(sf_moment){0});
}

static sf_status open_device(engine *e, const sf_golden_file *g, const sf_machine *machine, sf_precision precision) {
    e->run = device_run;
    e->step = device_step;
    SF_TRY(open_engine(e, g));
    SF_TRY(sf_evaluator_open(&e->evaluator, machine, SF_TRAINING_WORK, &g->model, precision, g->B, 1));
    if (precision != SF_F32)
        SF_TRY(sf_evaluator_open(&e->observer, machine, SF_OBSERVATION_WORK, &g->model, precision, g->B, 1));
    SF_TRY(SF_NEW(&e->narrow_params, g->model.size));
    SF_TRY(SF_NEW(&e->narrow_gradient, g->model.size));
    SF_TRY(SF_NEW(&e->narrow_logits, sf_golden_logits(g)));
    for (size_t i = 0; i < g->model.size; i++) e->narrow_params[i] = (float)g->params[i];
    return SF_OK;
}

/* ---- number by number, against the file */

static void note_error(sf_golden_path *path, const char *name, double error) {
    if (isnan(error)) error = INFINITY;
    if (error < path->worst) return;
    path->worst = error;
    snprintf(path->worst_name, sizeof path->worst_name, "%s", name);
}

static void compare(sf_golden_path *path, const char *name, double ours, double theirs, double floor) {
    const bool finite = isfinite(ours) && isfinite(theirs);
    const double apart = ours == theirs ? 0 : fabs(ours - theirs) / fmax(fabs(theirs), floor);
    note_error(path, name, finite ? apart : INFINITY);
}

static void name_gradient(char out[sizeof((sf_golden_path *)0)->worst_name], const sf_param *param) {
    const size_t size = sizeof((sf_golden_path *)0)->worst_name;
    snprintf(out, size, "grad.%.*s", (int)size - 6, param->name);
}

static void compare_gradient(sf_golden_path *path, const sf_golden_file *g, const double *gradient /* [size] */) {
    for (size_t p = 0; p < g->model.param_count; p++) {
        const sf_param *param = &g->model.params[p];
        char name[sizeof path->worst_name];
        name_gradient(name, param);
        for (size_t r = 0; r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++) {
                const size_t at = sf_param_index(param, r, c);
                compare(path, name, gradient[at], g->gradient[at], 1e-3 * g->gradient_norm);
            }
    }
}

static sf_status check_exactly(sf_golden_path *path, engine *e, const sf_golden_file *g) {
    for (int step = 0; step < SF_GOLDEN_LOSSES; step++) {
        SF_TRY(e->run(e, g));
        compare(path, "losses", e->loss, g->losses[step], 0);
        if (step == 0) {
            const double floor = 1e-2 * largest_of(g->logits, sf_golden_logits(g));
            for (size_t i = 0; i < sf_golden_logits(g); i++) compare(path, "logits", e->logits[i], g->logits[i], floor);
            compare(path, "grad_norm", norm_of(e->gradient, g->model.size), g->gradient_norm, 0);
            compare_gradient(path, g, e->gradient);
        }
        SF_TRY(e->step(e, g));
    }
    return SF_OK;
}

/* ---- tensor by tensor, against the reference that makes the choices of the device */

typedef struct choices {
    const sf_shape *shape;
    sf_precision precision;
    bool *kept;     /* [B,L,H,T,T]; NULL: no keys are chosen */
    bool *active;   /* [B,L,T,F] */
    uint32_t *room; /* [2T] */
    double *scores; /* [SF_MOST_TRANSFORMS+2,T] */
} choices;

/* The keys that reach the context of a query; returns their number. */
static size_t list_kept(const choices *c, const sf_attention_view *view, size_t head, size_t query) {
    const sf_shape *s = c->shape;
    size_t count;
    if (sf_view_has_choices(view)) {
        const uint32_t *chosen = sf_view_chosen(&count, c->room, view, s->T, head, query);
        if (chosen != c->room) memcpy(c->room, chosen, count * sizeof *chosen);
    } else {
        count = sf_attention_keep(c->room, &s->attention, query, s->T, NULL, NULL);
    }
    if (!sf_has_support(&s->attention)) return count;
    return sf_keep_support(c->room, count, view, s, head, query, c->precision, c->scores);
}

static void see_choices(void *context, size_t worker, const sf_attention_view *view) {
    const choices *c = context;
    const sf_shape *s = c->shape;
    const size_t slot = view->sequence * s->L + view->block, Fp = sf_padded(s->F);
    (void)worker;
    for (size_t i = 0; i < s->T * s->F; i++)
        c->active[slot * s->T * s->F + i] = view->hidden[i / s->F * Fp + i % s->F] > 0;
    for (size_t i = 0; i < s->H * s->T && c->kept != NULL; i++) {
        bool *row = c->kept + (slot * s->H * s->T + i) * s->T;
        const size_t count = list_kept(c, view, i / s->T, i % s->T);
        memset(row, 0, s->T * sizeof *row);
        for (size_t n = 0; n < count; n++) row[c->room[n]] = true;
    }
}

/* The share of queries that keep the keys that the reference chooses by itself. Not of a support: the reference keeps
 * keys without weight, too. */
static double equal_share(engine *reference, const choices *c, const sf_golden_file *g) {
    const sf_shape *s = c->shape;
    const sf_batch batch = batch_of(g);
    const size_t queries = s->H * s->T;
    size_t equal = 0;
    if (c->kept == NULL || sf_has_support(&g->model.shape.attention)) return 1;
    for (size_t n = 0; n < g->B; n++) {
        const sf_batch one = sf_batch_part(&batch, s, n, 1);
        sf_reference_run(reference->reference, &reference->loss, reference->logits, NULL, reference->params, &one,
                         &(sf_moment){.first_sample = (uint32_t)n});
        for (size_t block = 0; block < s->L; block++) {
            const bool *theirs = sf_reference_kept(reference->reference, block);
            const bool *ours = c->kept + (n * s->L + block) * queries * s->T;
            for (size_t i = 0; i < queries; i++)
                equal += memcmp(ours + i * s->T, theirs + i * s->T, s->T * sizeof *ours) == 0;
        }
    }
    return (double)equal / (double)(g->B * s->L * queries);
}

typedef struct distance { /* squares, summed over a tensor */
    double apart, size;
} distance;

static void add_distance(distance *d, double ours, double theirs) {
    d->apart += (ours - theirs) * (ours - theirs);
    d->size += theirs * theirs;
}

static void note_distance(sf_golden_path *path, const char *name, const distance *d, double floor) {
    const double apart = sqrt(d->apart);
    note_error(path, name, apart == 0 ? 0 : isfinite(apart) ? apart / fmax(sqrt(d->size), floor) : INFINITY);
}

static void compare_tensors(sf_golden_path *path, const sf_golden_file *g, const engine *ours, const engine *theirs) {
    const double norm = norm_of(theirs->gradient, g->model.size);
    distance logits = {0};
    for (size_t i = 0; i < sf_golden_logits(g); i++) add_distance(&logits, ours->logits[i], theirs->logits[i]);
    note_distance(path, "logits", &logits, 0);
    compare(path, "grad_norm", norm_of(ours->gradient, g->model.size), norm, 0);
    for (size_t p = 0; p < g->model.param_count; p++) {
        const sf_param *param = &g->model.params[p];
        char name[sizeof path->worst_name];
        distance d = {0};
        for (size_t i = 0; i < param->rows * param->columns; i++) {
            const size_t at = sf_param_index(param, i / param->columns, i % param->columns);
            add_distance(&d, ours->gradient[at], theirs->gradient[at]);
        }
        name_gradient(name, param);
        note_distance(path, name, &d, 1e-2 * norm);
    }
}

static sf_status observe(engine *device, const choices *c, const sf_golden_file *g) {
    const sf_batch batch = batch_of(g);
    return sf_evaluator_observe(&device->observer, &(sf_observer){see_choices, (void *)c}, device->narrow_params,
                                &batch, &(sf_moment){0});
}

/* Rounding lets scores that are nearly equal change places, and numbers near 0 their sign. So the reference keeps the
 * keys that the device keeps, and its ReLUs are open where the device's are. */
static sf_status compare_rounded(sf_golden *out, engine *reference, engine *device, const choices *c,
                                 const sf_golden_file *g) {
    for (int step = 0; step < SF_GOLDEN_LOSSES; step++) {
        SF_TRY(observe(device, c, g));
        if (step == 0) out->equal_kept = equal_share(reference, c, g);
        sf_reference_follow(reference->reference, &(sf_reference_choices){c->kept, c->active});
        SF_TRY(reference->run(reference, g));
        SF_TRY(device->run(device, g));
        compare(&out->computed, "losses", device->loss, reference->loss, 0);
        if (step == 0) compare_tensors(&out->computed, g, device, reference);
        SF_TRY(reference->step(reference, g));
        SF_TRY(device->step(device, g));
    }
    return SF_OK;
}

static sf_status check_rounded(sf_golden *out, engine *device, const sf_golden_file *g, sf_precision precision) {
    const sf_shape *s = &g->model.shape;
    const bool support = sf_has_support(&s->attention);
    sf_golden_file followed = *g;
    if (support) followed.model.shape.attention.weighting = &sf_weighting_given_support;
    engine reference = {0};
    choices c = {.shape = s, .precision = precision};
    sf_status status = open_reference(&reference, &followed);
    if (status == SF_OK) status = SF_NEW(&c.active, g->B * s->L * s->T * s->F);
    if (status == SF_OK) status = SF_NEW(&c.room, 2 * s->T);
    if (status == SF_OK) status = SF_NEW(&c.scores, (SF_MOST_TRANSFORMS + 2) * s->T);
    if (status == SF_OK && (support || sf_attention_selects_by(&s->attention) != SF_BY_POSITION))
        status = SF_NEW(&c.kept, g->B * s->L * s->H * s->T * s->T);
    if (status == SF_OK) status = compare_rounded(out, &reference, device, &c, g);
    close_engine(&reference);
    sf_release(c.active);
    sf_release(c.kept);
    sf_release(c.room);
    sf_release(c.scores);
    return status;
}

/* ---- both */

static sf_status check(sf_golden *out, engine *reference, engine *device, const sf_golden_file *g,
                       const sf_machine *machine, sf_precision precision) {
    SF_TRY(open_reference(reference, g));
    SF_TRY(check_exactly(&out->reference, reference, g));
    SF_TRY(open_device(device, g, machine, precision));
    return precision == SF_F32 ? check_exactly(&out->computed, device, g) : check_rounded(out, device, g, precision);
}

sf_status sf_golden_check(sf_golden *out, const char *path, sf_precision precision, const sf_execution *execution) {
    static const double limits[] = {
        [SF_F32] = SF_GOLDEN_F32_LIMIT, [SF_BF16] = SF_GOLDEN_BF16_LIMIT, [SF_TF32] = SF_GOLDEN_TF32_LIMIT};
    sf_machine machine = sf_machine_of(execution);
    machine.threads = 1;
    *out =
        (sf_golden){.reference.limit = SF_GOLDEN_REFERENCE_LIMIT, .computed.limit = limits[precision], .equal_kept = 1};
    sf_golden_file g = {0};
    engine reference = {0}, device = {0};
    sf_status status = sf_backend_check(machine.device, precision);
    if (status == SF_OK) status = sf_golden_file_open(&g, path);
    if (status == SF_OK) status = check(out, &reference, &device, &g, &machine, precision);
    out->reference.passes = status == SF_OK && out->reference.worst <= out->reference.limit;
    out->computed.passes = status == SF_OK && out->computed.worst <= out->computed.limit;
    close_engine(&reference);
    close_engine(&device);
    sf_golden_file_close(&g);
    return status;
}
