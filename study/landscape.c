#include "study/landscape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "measure/slopes.h"
#include "store/surface_rows.h"
#include "train/automatic.h"
#include "train/batch.h"

static sf_lattice lattice_of(const sf_surface *surface) {
    return (sf_lattice){.grid = surface->grid, .extent = surface->extent};
}

double sf_surface_coordinate(const sf_surface *surface, size_t i) {
    const sf_lattice lattice = lattice_of(surface);
    return sf_lattice_coordinate(&lattice, i);
}

size_t sf_landscape_count(const sf_landscape *landscape) {
    return landscape->count;
}

const sf_surface *sf_landscape_surface(const sf_landscape *landscape, size_t i) {
    return &landscape->surfaces[i];
}

static void close_plot(struct sf_plot *plot) {
    sf_stored_model_close(&plot->model);
    sf_release(plot->known);
    plot->known = NULL;
}

void sf_landscape_close(sf_landscape *landscape) {
    if (landscape == NULL) return;
    for (size_t i = 0; i < SF_MOST_SURFACES; i++) {
        close_plot(&landscape->plots[i]);
        sf_release(landscape->surfaces[i].losses);
        sf_release(landscape->surfaces[i].accuracies);
    }
    sf_release(landscape);
}

typedef struct target { /* a surface and what is known about it */
    sf_surface *surface;
    struct sf_plot *plot;
} target;

static void take_point(const target *to, const sf_surface_point *point) {
    const sf_lattice lattice = lattice_of(to->surface);
    const double accuracy = 100.0 * (double)point->correct / (double)to->surface->samples;
    if (point->point >= to->plot->points || to->plot->known[point->point]) return;
    to->plot->known[point->point] = true;
    to->plot->done++;
    if (point->point == sf_lattice_centre(&lattice)) {
        to->surface->centre_loss = point->loss;
        to->surface->centre_accuracy = accuracy;
    }
    if (point->point >= lattice.grid * lattice.grid) return;
    to->surface->losses[point->point] = point->loss;
    to->surface->accuracies[point->point] = accuracy;
}

static void take_stored_point(void *context, const sf_surface_point *point) {
    take_point(context, point);
}

sf_status sf_landscape_make_room(sf_landscape *landscape) {
    sf_surface *surface = &landscape->surfaces[landscape->count];
    struct sf_plot *plot = &landscape->plots[landscape->count];
    const sf_lattice lattice = lattice_of(surface);
    plot->points = sf_lattice_points(&lattice);
    SF_TRY(SF_NEW(&plot->known, plot->points));
    SF_TRY(SF_NEW(&surface->losses, surface->grid * surface->grid));
    return SF_NEW(&surface->accuracies, surface->grid * surface->grid);
}

sf_status sf_landscape_read_points(sf_landscape *landscape, size_t i, sf_store *store) {
    target to = {&landscape->surfaces[i], &landscape->plots[i]};
    return sf_surface_each_point(store, &to.surface->run, to.plot->number, take_stored_point, &to);
}

static sf_status open_surface(sf_landscape *landscape, sf_store *store, const char *id, const sf_options *options) {
    sf_surface *surface = &landscape->surfaces[landscape->count];
    struct sf_plot *plot = &landscape->plots[landscape->count];
    SF_TRY(sf_store_find(&surface->run, store, id));
    for (size_t i = 0; i < landscape->count; i++)
        if (strcmp(landscape->surfaces[i].run.id, surface->run.id) == 0)
            return sf_fail(SF_BAD_INPUT, "run %s is named twice; name it once", surface->run.id);
    SF_TRY(sf_stored_model_open(&plot->model, store, &surface->run, (sf_weights_at)options->at));
    const size_t sequences = sf_dataset_count(plot->model.data->training);
    const size_t asked = sf_options_given(options, "samples") ? (size_t)options->samples : SF_SURFACE_SAMPLES;
    landscape->configs[landscape->count] = *plot->model.config;
    surface->run = plot->model.run;
    surface->epoch = plot->model.epoch;
    surface->weights_hash = sf_model_hash(plot->model.model, plot->model.params);
    surface->grid = (size_t)options->grid;
    surface->extent = options->extent;
    surface->samples = asked == 0 || asked > sequences ? sequences : asked;
    surface->seed = (uint32_t)options->direction_seed;
    surface->baseline = landscape->count;
    SF_TRY(sf_landscape_make_room(landscape));
    landscape->count++;
    return SF_OK;
}

sf_status sf_landscape_open(sf_landscape **out, sf_store *store, const char *const *runs /* [count] */, size_t count,
                            const sf_options *options) {
    *out = NULL;
    if (count == 0 || count > SF_MOST_SURFACES)
        return sf_fail(SF_BAD_INPUT, "%zu runs were named but it must be 1 to %d at a time", count,
                       (int)SF_MOST_SURFACES);
    sf_landscape *landscape;
    SF_TRY(sf_backend_check((sf_device)options->execution.device, SF_F32));
    SF_TRY(SF_NEW(&landscape, 1));
    landscape->machine = sf_machine_of(&options->execution);
    sf_status status = SF_OK;
    for (size_t i = 0; i < count && status == SF_OK; i++) status = open_surface(landscape, store, runs[i], options);
    for (size_t i = 0; i < count && status == SF_OK; i++) {
        status = sf_surface_enter(&landscape->plots[i].number, store, &landscape->surfaces[i]);
        if (status == SF_OK) status = sf_landscape_read_points(landscape, i, store);
    }
    if (status != SF_OK) {
        sf_landscape_close(landscape);
        return status;
    }
    *out = landscape;
    return SF_OK;
}

/* Spread evenly over the training set: a user's file may be sorted. */
static void place_samples(const sf_batch_room *room, const sf_stored_model *stored, size_t samples) {
    const sf_dataset *set = stored->data->training;
    const size_t sequences = sf_dataset_count(set);
    for (size_t n = 0; n < samples; n++)
        sf_batch_room_place(room, n, stored->data, set, n * sequences / samples, &stored->model->shape);
}

enum { MOST_PENDING = 256 };
static const double keep_seconds = 1; /* the most that a kill can lose, but for points under way */

typedef struct recording { /* of points to be stored */
    target to;
    sf_store *store;
    const sf_landscape_watch *watch;
    size_t surface;
    sf_surface_point pending[MOST_PENDING];
    size_t pending_count;
    double kept; /* when */
    sf_status status;
    char message[SF_RUN_MESSAGE_SIZE];
} recording;

static void keep_pending(recording *r) {
    if (r->status == SF_OK && r->pending_count > 0)
        r->status = sf_surface_keep(r->store, &r->to.surface->run, r->to.plot->number, r->pending, r->pending_count);
    if (r->status != SF_OK) snprintf(r->message, sizeof r->message, "%s", sf_message());
    r->pending_count = 0;
    r->kept = sf_clock_seconds();
}

static void tell(const recording *r) {
    if (r->watch->on_points != NULL)
        r->watch->on_points(r->watch->context, r->surface, r->to.plot->done, r->to.plot->points);
}

static bool record(void *context, size_t point, double loss, size_t correct) {
    recording *r = context;
    const sf_surface_point found = {.point = point, .loss = isfinite(loss) ? loss : NAN, .correct = correct};
    take_point(&r->to, &found);
    r->pending[r->pending_count++] = found;
    if (r->pending_count == MOST_PENDING || sf_clock_seconds() - r->kept >= keep_seconds) keep_pending(r);
    tell(r);
    return r->status == SF_OK;
}

static sf_status evaluate_missing(recording *r, const sf_loss_plane *plane, const sf_machine *machine) {
    const sf_lattice lattice = lattice_of(r->to.surface);
    size_t *missing, count = 0;
    SF_TRY(SF_NEW(&missing, r->to.plot->points));
    for (size_t point = 0; point < r->to.plot->points; point++)
        if (!r->to.plot->known[point]) missing[count++] = point;
    const sf_plane_request request = {
        .points = missing, .count = count, .machine = *machine, .stop = r->watch->stop, .found = record, .context = r};
    r->kept = sf_clock_seconds();
    const sf_status status = sf_loss_plane_evaluate(plane, &lattice, &request);
    sf_release(missing);
    if (r->status != SF_OK) return sf_fail(r->status, "%s", r->message); /* it stopped because the store failed */
    keep_pending(r);
    if (r->status != SF_OK) return r->status;
    return status == SF_INTERRUPTED ? sf_fail(SF_INTERRUPTED, "stopped on request") : status;
}

static sf_status compute_surface(recording *r, const sf_machine *machine) {
    const sf_stored_model *stored = &r->to.plot->model;
    const sf_surface *surface = r->to.surface;
    const sf_model *model = stored->model;
    sf_batch_room room = {0};
    float *directions[2] = {NULL, NULL};
    sf_status status = sf_batch_room_open(&room, surface->samples, model->shape.T);
    for (size_t d = 0; d < 2 && status == SF_OK; d++) {
        status = SF_NEW(&directions[d], model->size);
        if (status == SF_OK) sf_direction_fill(directions[d], model, stored->params, surface->seed, d);
    }
    if (status == SF_OK) {
        place_samples(&room, stored, surface->samples);
        const sf_loss_plane plane = {.model = model,
                                     .weights = stored->params,
                                     .directions = {directions[0], directions[1]},
                                     .data = sf_batch_room_read(&room, surface->samples),
                                     .seed = (uint32_t)stored->config->seed};
        status = evaluate_missing(r, &plane, machine);
    }
    sf_release(directions[0]);
    sf_release(directions[1]);
    sf_batch_room_close(&room);
    return status;
}

sf_status sf_surface_summarize(sf_surface *surface) {
    const sf_lattice lattice = lattice_of(surface);
    surface->least = surface->most = NAN;
    surface->not_finite = 0;
    for (size_t i = 0; i < surface->grid * surface->grid; i++) {
        surface->not_finite += isnan(surface->losses[i]) ? 1 : 0;
        surface->least = fmin(surface->least, surface->losses[i]);
        surface->most = fmax(surface->most, surface->losses[i]);
    }
    return sf_slopes_estimate(&surface->lipschitz, surface->losses, &lattice);
}

static void choose_device(sf_landscape *landscape) {
    sf_workload work = {0};
    for (size_t i = 0; i < landscape->count; i++) {
        const struct sf_plot *plot = &landscape->plots[i];
        if (plot->done == plot->points) continue;
        const sf_shape *shape = &plot->model.model->shape;
        sf_workload_add_evaluation(&work, shape, plot->points - plot->done, landscape->surfaces[i].samples);
    }
    sf_machine_decide(&landscape->machine, &work);
}

sf_status sf_landscape_compute(sf_landscape *landscape, sf_store *store, const sf_landscape_watch *watch) {
    recording *r; /* too large for a stack frame */
    SF_TRY(SF_NEW(&r, 1));
    choose_device(landscape);
    sf_store_obey(store, watch->stop);
    sf_status status = SF_OK;
    for (size_t i = 0; i < landscape->count && status == SF_OK; i++) {
        struct sf_plot *plot = &landscape->plots[i];
        *r = (recording){.to = {&landscape->surfaces[i], plot}, .store = store, .watch = watch, .surface = i};
        tell(r);
        if (plot->done < plot->points) status = compute_surface(r, &landscape->machine);
        if (status == SF_OK) status = sf_surface_summarize(&landscape->surfaces[i]);
        close_plot(plot);
    }
    sf_release(r);
    if (status == SF_OK) sf_landscape_compare(landscape);
    return status;
}
