#include "measure/landscape.h"

#include <math.h>

#include "base/elementary.h"
#include "base/sizes.h"
#include "base/threads.h"
#include "train/evaluator.h"

double sf_lattice_step(const sf_lattice *lattice) {
    return lattice->grid > 1 ? 2 * lattice->extent / (double)(lattice->grid - 1) : 0;
}

double sf_lattice_coordinate(const sf_lattice *lattice, size_t i) {
    if (lattice->grid == 1) return 0;
    return lattice->extent * (2 * (double)i / (double)(lattice->grid - 1) - 1);
}

size_t sf_lattice_points(const sf_lattice *lattice) {
    return lattice->grid * lattice->grid + (lattice->grid % 2 == 0 ? 1 : 0);
}

size_t sf_lattice_centre(const sf_lattice *lattice) {
    const size_t all = lattice->grid * lattice->grid;
    return lattice->grid % 2 == 0 ? all : all / 2;
}

void sf_lattice_locate(double *x, double *y, const sf_lattice *lattice, size_t point) {
    *x = *y = 0;
    if (point == sf_lattice_centre(lattice)) return;
    *x = sf_lattice_coordinate(lattice, point % lattice->grid);
    *y = sf_lattice_coordinate(lattice, point / lattice->grid);
}

/* Box and Muller: two words give two values, so a draw of four words gives four. */
static void draw_four(double out[4], uint32_t seed, size_t direction, size_t tensor, uint32_t draw) {
    static const double circle = 6.283185307179586476925;
    const sf_index index = {.seed = seed,
                            .stream = sf_stream(SF_SURFACE_DIRECTIONS, 0, 0),
                            .step = (uint32_t)direction,
                            .sample = (uint32_t)tensor};
    uint32_t words[4];
    sf_philox(words, &index, draw);
    for (size_t i = 0; i < 4; i += 2) {
        const double radius = sqrt(-2 * sf_log(((double)words[i] + 0.5) * 0x1p-32));
        const double angle = circle * (((double)words[i + 1] + 0.5) * 0x1p-32);
        out[i] = radius * sf_cos(angle);
        out[i + 1] = radius * sf_sin(angle);
    }
}

double sf_direction_draw(uint32_t seed, size_t direction, size_t tensor, size_t element) {
    double four[4];
    draw_four(four, seed, direction, tensor, (uint32_t)(element / 4));
    return four[element % 4];
}

typedef struct drawing { /* the Gaussians of one tensor, in the order of its elements */
    const sf_param *param;
    uint32_t seed;
    size_t direction, tensor;
} drawing;

static double squared_norm(const drawing *d) {
    double four[4], total = 0;
    const size_t elements = d->param->rows * d->param->columns;
    for (size_t e = 0; e < elements; e++) {
        if (e % 4 == 0) draw_four(four, d->seed, d->direction, d->tensor, (uint32_t)(e / 4));
        total += four[e % 4] * four[e % 4];
    }
    return total;
}

static double squared_weights(const sf_param *param, const float *weights) {
    double total = 0;
    for (size_t r = 0; r < param->rows; r++)
        for (size_t c = 0; c < param->columns; c++) {
            const double w = (double)weights[sf_param_index(param, r, c)];
            total += w * w;
        }
    return total;
}

static void write_scaled(float *out, const drawing *d, double scale) {
    double four[4];
    for (size_t r = 0, e = 0; r < d->param->rows; r++)
        for (size_t c = 0; c < d->param->columns; c++, e++) {
            if (e % 4 == 0) draw_four(four, d->seed, d->direction, d->tensor, (uint32_t)(e / 4));
            out[sf_param_index(d->param, r, c)] = (float)(scale * four[e % 4]);
        }
}

void sf_direction_fill(float *out /* [size] */, const sf_model *model, const float *weights /* [size] */, uint32_t seed,
                       size_t direction) {
    for (size_t i = 0; i < model->size; i++) out[i] = 0;
    for (size_t p = 0; p < model->param_count; p++) {
        const drawing d = {.param = &model->params[p], .seed = seed, .direction = direction, .tensor = p};
        write_scaled(out, &d, sqrt(squared_weights(d.param, weights) / squared_norm(&d)));
    }
}

void sf_direction_go(float *weights, const float *direction, double x, size_t size) {
    for (size_t i = 0; i < size; i++) weights[i] = (float)((double)weights[i] + x * (double)direction[i]);
}

static void move_to(float *weights, const sf_loss_plane *plane, double x, double y) {
    const float *first = plane->directions[0], *second = plane->directions[1];
    for (size_t i = 0; i < plane->model->size; i++)
        weights[i] = (float)((double)plane->weights[i] + x * (double)first[i] + y * (double)second[i]);
}

typedef struct point_batch { /* points that are evaluated together */
    sf_evaluator evaluator;
    size_t room;
    int threads;          /* that compute weights */
    float *weights;       /* [room,size] */
    const float **params; /* [room]: where they lie */
    sf_evaluation *sums;  /* [room] */
} point_batch;

static void close_points(point_batch *points) {
    sf_evaluator_close(&points->evaluator);
    sf_release(points->weights);
    sf_release(points->params);
    sf_release(points->sums);
}

static sf_status open_points(point_batch *points, const sf_loss_plane *plane, const sf_plane_request *request) {
    const size_t size = plane->model->size;
    SF_TRY(sf_evaluator_open(&points->evaluator, &request->machine, SF_EVALUATION_WORK, plane->model, SF_F32,
                             plane->data.B, request->count));
    sf_evaluator_obey(&points->evaluator, request->stop);
    points->room = points->evaluator.models;
    points->threads = sf_threads_at_most(request->machine.threads);
    SF_TRY(sf_allocate((void **)&points->weights, points->room * size, sizeof *points->weights));
    SF_TRY(SF_NEW(&points->params, points->room));
    SF_TRY(SF_NEW(&points->sums, points->room));
    for (size_t s = 0; s < points->room; s++) points->params[s] = points->weights + s * size;
    return SF_OK;
}

/* Computes the weights of S points. */
static void place(const point_batch *points, const sf_loss_plane *plane, const sf_lattice *lattice,
                  const size_t *which /* [S] */, size_t S) {
#pragma omp parallel for num_threads(points->threads) if (points->threads > 1 && S > 1)
    for (size_t s = 0; s < S; s++) {
        double x, y;
        sf_lattice_locate(&x, &y, lattice, which[s]);
        move_to(points->weights + s * plane->model->size, plane, x, y);
    }
}

/* The share of the labels that are guessed, as a number of sequences: the same where each has one label. */
static size_t sequences_right(const sf_evaluation *sum, const sf_batch *data) {
    if (sum->labelled == data->B) return sum->correct;
    return (size_t)((double)sum->correct * (double)data->B / (double)sum->labelled + 0.5);
}

static sf_status evaluate_all(point_batch *points, const sf_loss_plane *plane, const sf_lattice *lattice,
                              const sf_plane_request *request) {
    const sf_moment moment = sf_evaluation_moment(plane->seed, SF_TRAINING, 0);
    for (size_t first = 0; first < request->count; first += points->room) {
        const size_t S = sf_smaller(request->count - first, points->room);
        place(points, plane, lattice, request->points + first, S);
        SF_TRY(sf_evaluator_evaluate(&points->evaluator, points->sums, NULL, points->params, S, &plane->data, &moment));
        for (size_t s = 0; s < S; s++) {
            const sf_evaluation *sum = &points->sums[s];
            const double loss = sf_mean_over(sum->loss, sum->labelled);
            if (!request->found(request->context, request->points[first + s], loss, sequences_right(sum, &plane->data)))
                return sf_fail(SF_INTERRUPTED, "stopped on request");
        }
    }
    return SF_OK;
}

sf_status sf_loss_plane_evaluate(const sf_loss_plane *plane, const sf_lattice *lattice,
                                 const sf_plane_request *request) {
    if (request->count == 0) return SF_OK;
    point_batch points = {0};
    sf_status status = open_points(&points, plane, request);
    if (status == SF_OK) status = evaluate_all(&points, plane, lattice, request);
    close_points(&points);
    return status;
}
