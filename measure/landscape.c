#include "measure/landscape.h"

#include <math.h>
#include <omp.h>
#include <pthread.h>

#include "base/elementary.h"
#include "base/threads.h"
#include "kernels/cpu/cpu.h"
#include "train/backend.h"

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

typedef struct desk { /* what one model in flight needs */
    sf_cpu_crew *crew;
    float *weights; /* [size] */
} desk;

typedef struct site { /* what the workers share */
    const sf_terrain *terrain;
    const sf_lattice *lattice;
    const sf_survey *survey;
    sf_cpu_plan *plan;
    desk *desks; /* [desk_count] */
    size_t desk_count;
    pthread_mutex_t lock;
    size_t found; /* under the lock */
    atomic_size_t next;
    atomic_bool given_up;
} site;

static void close_site(site *s) {
    for (size_t d = 0; s->desks != NULL && d < s->desk_count; d++) {
        sf_cpu_crew_destroy(s->desks[d].crew);
        sf_release(s->desks[d].weights);
    }
    sf_release(s->desks);
    sf_cpu_plan_destroy(s->plan);
}

/* A model a core where there are enough of them, the cores inside one model otherwise: both compute the same bits. */
static sf_status open_site(site *s) {
    const size_t threads = (size_t)sf_threads_for(s->survey->threads), B = s->terrain->data.B;
    const bool side_by_side = s->survey->count >= threads;
    s->desk_count = side_by_side ? threads : 1;
    SF_TRY(sf_cpu_plan_create(&s->plan, s->terrain->model, SF_F32));
    SF_TRY(SF_NEW(&s->desks, s->desk_count));
    for (size_t d = 0; d < s->desk_count; d++) {
        SF_TRY(sf_cpu_crew_create(&s->desks[d].crew, &s->plan, 1, side_by_side ? 1 : threads,
                                  B < SF_EVALUATION_BATCH ? B : SF_EVALUATION_BATCH));
        sf_cpu_crew_obey(s->desks[d].crew, s->survey->stop);
        SF_TRY(SF_NEW(&s->desks[d].weights, s->terrain->model->size));
    }
    return sf_threads_start(s->desk_count);
}

static bool is_over(const site *s) {
    return atomic_load(&s->given_up) || (s->survey->stop != NULL && atomic_load(s->survey->stop) != 0);
}

void sf_direction_go(float *weights, const float *direction, double x, size_t size) {
    for (size_t i = 0; i < size; i++) weights[i] = (float)((double)weights[i] + x * (double)direction[i]);
}

static void move_to(float *weights, const sf_terrain *terrain, double x, double y) {
    const float *first = terrain->directions[0], *second = terrain->directions[1];
    for (size_t i = 0; i < terrain->model->size; i++)
        weights[i] = (float)((double)terrain->weights[i] + x * (double)first[i] + y * (double)second[i]);
}

/* False where it was given up. */
static bool evaluate(double *loss, size_t *correct, const site *s, const desk *at) {
    const sf_batch *data = &s->terrain->data;
    const size_t T = s->terrain->model->shape.T;
    *loss = 0;
    *correct = 0;
    for (size_t first = 0; first < data->B; first += SF_EVALUATION_BATCH) {
        const sf_batch batch = {.tokens = data->tokens + first * T,
                                .labels = data->labels + first,
                                .B = data->B - first < SF_EVALUATION_BATCH ? data->B - first : SF_EVALUATION_BATCH};
        const sf_moment moment = sf_evaluation_moment(s->terrain->seed, SF_TRAINING, first);
        sf_evaluation part;
        sf_cpu_evaluate(at->crew, &part, NULL, s->plan, at->weights, &batch, &moment);
        if (is_over(s) || sf_attention_is_faulty(&s->terrain->model->shape.attention))
            return false; /* the evaluation may be a part of one */
        *loss += part.loss;
        *correct += part.correct;
    }
    *loss /= (double)data->B;
    return true;
}

static void work(site *s, const desk *at) {
    for (;;) {
        const size_t i = atomic_fetch_add(&s->next, 1);
        if (i >= s->survey->count || is_over(s)) return;
        const size_t point = s->survey->points[i];
        double x, y, loss;
        size_t correct;
        sf_lattice_locate(&x, &y, s->lattice, point);
        move_to(at->weights, s->terrain, x, y);
        if (!evaluate(&loss, &correct, s, at)) return;
        pthread_mutex_lock(&s->lock);
        s->found++;
        if (!s->survey->found(s->survey->context, point, loss, correct)) atomic_store(&s->given_up, true);
        pthread_mutex_unlock(&s->lock);
    }
}

sf_status sf_landscape_survey(const sf_terrain *terrain, const sf_lattice *lattice, const sf_survey *survey) {
    if (survey->count == 0) return SF_OK;
    SF_TRY(sf_cpu_check_isa(SF_F32));
    site s = {.terrain = terrain, .lattice = lattice, .survey = survey};
    sf_status status = open_site(&s);
    if (status == SF_OK) {
        pthread_mutex_init(&s.lock, NULL);
#pragma omp parallel num_threads((int)s.desk_count) if (s.desk_count > 1)
        work(&s, &s.desks[s.desk_count > 1 ? omp_get_thread_num() : 0]);
        pthread_mutex_destroy(&s.lock);
        status = sf_attention_check_fault(&terrain->model->shape.attention);
        if (status == SF_OK && (s.found < survey->count || atomic_load(&s.given_up)))
            status = sf_fail(SF_INTERRUPTED, "stopped on request");
    }
    close_site(&s);
    return status;
}
