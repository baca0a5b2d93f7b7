/* Loss surfaces: directions, points, slopes and contour lines against what is computed here by other means. */
#include "instruction_set.h"
#include "sample_model.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reference/reference.h"
#include "measure/slopes.h"
#include "report/contour.h"
#include "semfocus/fleet.h"
#include "train/fleet.h"

static const sample_case cases[] = {
    {"full", 9, 16, 16, 1, 2, 7, SF_RELU, SF_PRE_NORM, 0, 1},
    {"topk:3", 11, 10, 7, 2, 2, 5, SF_GELU, SF_PRE_NORM, 0, 2},
    {"banded:3+global:2", 8, 5, 19, 1, 3, 4, SF_RELU, SF_POST_NORM, 0, 3},
    {"random:2", 7, 17, 8, 3, 1, 6, SF_MISH, SF_PRE_NORM, 0, 4},
    {"full", 1, 3, 3, 1, 1, 1, SF_RELU, SF_PRE_NORM, 0, 5},
};
enum { CASES = sizeof cases / sizeof *cases };

/* The same Gaussians from their definition: Box and Muller on the words of draw element / 4. */
static double gaussian(uint32_t seed, size_t direction, size_t tensor, size_t element) {
    const sf_index index = {.seed = seed, .stream = 20, .step = (uint32_t)direction, .sample = (uint32_t)tensor};
    uint32_t words[4];
    sf_philox(words, &index, (uint32_t)(element / 4));
    const size_t pair = element % 4 / 2 * 2;
    const double radius = sqrt(-2 * log(((double)words[pair] + 0.5) / 4294967296.0));
    const double angle = 2 * acos(-1.0) * ((double)words[pair + 1] + 0.5) / 4294967296.0;
    return radius * (element % 2 == 0 ? cos(angle) : sin(angle));
}

/* w + x d1 + y d2 in double, straight from the definition. */
static void perturb(double *out, const sample *s, uint32_t seed, double x, double y) {
    for (size_t i = 0; i < s->model.size; i++) out[i] = 0;
    for (size_t p = 0; p < s->model.param_count; p++) {
        const sf_param *param = &s->model.params[p];
        double norm = 0, drawn[2] = {0, 0};
        for (size_t r = 0, e = 0; r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++, e++) {
                const double w = s->params[sf_param_index(param, r, c)];
                norm += w * w;
                for (size_t d = 0; d < 2; d++) drawn[d] += pow(gaussian(seed, d, p, e), 2);
            }
        for (size_t r = 0, e = 0; r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++, e++)
                out[sf_param_index(param, r, c)] = s->params[sf_param_index(param, r, c)] +
                                                   x * gaussian(seed, 0, p, e) * sqrt(norm / drawn[0]) +
                                                   y * gaussian(seed, 1, p, e) * sqrt(norm / drawn[1]);
    }
}

static float *as_floats(const sample *s) {
    float *weights;
    assert_int_equal(SF_NEW(&weights, s->model.size), SF_OK);
    for (size_t i = 0; i < s->model.size; i++) weights[i] = (float)s->params[i];
    return weights;
}

static float *direction_of(const sf_model *model, const float *weights, uint32_t seed, size_t which) {
    float *direction;
    assert_int_equal(SF_NEW(&direction, model->size), SF_OK);
    sf_direction_fill(direction, model, weights, seed, which);
    return direction;
}

typedef struct found_points {
    double losses[1024];
    size_t correct[1024], calls, most;
} found_points;

static bool note(void *context, size_t point, double loss, size_t correct) {
    found_points *found = context;
    found->losses[point] = loss;
    found->correct[point] = correct;
    return ++found->calls < found->most;
}

static found_points *evaluate_plane(const sf_loss_plane *plane, const sf_lattice *lattice, size_t threads) {
    static found_points found;
    size_t points[1024];
    found = (found_points){.most = SIZE_MAX};
    const size_t count = sf_lattice_points(lattice);
    for (size_t i = 0; i < count; i++) points[i] = count - 1 - i; /* any order */
    const sf_plane_request all = {
        .points = points, .count = count, .machine.threads = threads, .found = note, .context = &found};
    assert_int_equal(sf_loss_plane_evaluate(plane, lattice, &all), SF_OK);
    assert_int_equal(found.calls, count);
    return &found;
}

static void points_are_those_of_the_definition(void **state) {
    (void)state;
    double worst = 0;
    for (size_t k = 0; k < CASES; k++) {
        sample s;
        sample_open(&s, &cases[k]);
        s.moment = (sf_moment){.seed = cases[k].seed}; /* as evaluation addresses random keys */
        float *weights = as_floats(&s), *first = direction_of(&s.model, weights, 77, 0),
              *second = direction_of(&s.model, weights, 77, 1);
        const sf_loss_plane plane = {&s.model, weights, {first, second}, sample_batch(&s), cases[k].seed};
        const sf_lattice lattice = {.grid = 4, .extent = 0.7};
        const found_points *found = evaluate_plane(&plane, &lattice, 2);
        sf_reference *reference;
        double *moved, *logits, loss;
        assert_int_equal(sf_reference_create(&reference, &s.model), SF_OK);
        assert_int_equal(SF_NEW(&moved, s.model.size), SF_OK);
        assert_int_equal(SF_NEW(&logits, s.B * s.model.shape.classes), SF_OK);
        for (size_t point = 0; point < 17; point++) { /* the centre is the seventeenth */
            const size_t row = point / 4, column = point % 4;
            const double x = point == 16 ? 0 : -0.7 + 1.4 / 3 * (double)column;
            const double y = point == 16 ? 0 : -0.7 + 1.4 / 3 * (double)row;
            perturb(moved, &s, 77, x, y);
            const sf_batch batch = sample_batch(&s);
            sf_reference_run(reference, &loss, logits, NULL, moved, &batch, &s.moment);
            const double error = fabs(found->losses[point] - loss) / loss;
            worst = fmax(worst, error);
            if (error > 1e-4) {
                describe_case(&cases[k]);
                fail_msg("point %zu: %.9g instead of %.9g", point, found->losses[point], loss);
            }
        }
        sf_reference_destroy(reference);
        sf_release(moved);
        sf_release(logits);
        sf_release(weights);
        sf_release(first);
        sf_release(second);
        sample_close(&s);
    }
    printf("  worst relative error %.2g\n", worst);
    assert_int_equal(sf_bytes_in_use(), 0);
}

static double norm_of(const sf_param *param, const float *block) {
    double total = 0;
    for (size_t r = 0; r < param->rows; r++)
        for (size_t c = 0; c < param->columns; c++) total += pow((double)block[sf_param_index(param, r, c)], 2);
    return sqrt(total);
}

static void directions_are_as_long_as_the_weights_tensor_by_tensor(void **state) {
    (void)state;
    for (size_t k = 0; k < CASES; k++) {
        sample s;
        sample_open(&s, &cases[k]);
        float *weights = as_floats(&s);
        const sf_param *zeros = sf_model_head(&s.model) + 1;
        for (size_t c = 0; c < zeros->columns; c++) weights[sf_param_index(zeros, 0, c)] = 0;
        for (size_t d = 0; d < 2; d++) {
            float *direction = direction_of(&s.model, weights, 11111, d);
            size_t within = 0, nonzero = 0;
            for (size_t p = 0; p < s.model.param_count; p++) {
                const sf_param *param = &s.model.params[p];
                const double length = norm_of(param, weights);
                assert_true(fabs(norm_of(param, direction) - length) <= 1e-6 * length);
                for (size_t r = 0; r < param->rows; r++)
                    for (size_t c = 0; c < param->columns; c++) within += direction[sf_param_index(param, r, c)] != 0;
            }
            for (size_t i = 0; i < s.model.size; i++) nonzero += direction[i] != 0;
            assert_int_equal(nonzero, within); /* padding stays zero */
            assert_int_equal(nonzero, s.model.parameters - zeros->columns);
            sf_release(direction);
        }
        sf_release(weights);
        sample_close(&s);
    }
}

/* Mean, variance and fourth moment of a Gaussian; seeds, directions, tensors and elements do not repeat each other. */
static void draws_are_gaussian_and_independent(void **state) {
    (void)state;
    enum { COUNT = 200000 };
    double sums[4] = {0}, products[4] = {0};
    for (size_t e = 0; e < COUNT; e++) {
        const double z = sf_direction_draw(11111, 0, 3, e);
        assert_true(fabs(z - gaussian(11111, 0, 3, e)) < 1e-12);
        for (int power = 1; power <= 4; power++) sums[power - 1] += pow(z, power);
        products[0] += z * sf_direction_draw(11112, 0, 3, e);
        products[1] += z * sf_direction_draw(11111, 1, 3, e);
        products[2] += z * sf_direction_draw(11111, 0, 4, e);
        products[3] += z * sf_direction_draw(11111, 0, 3, e + 1);
    }
    const double spread = 1 / sqrt(COUNT);
    printf("  moments %.4f %.4f %.4f %.4f\n", sums[0] / COUNT, sums[1] / COUNT, sums[2] / COUNT, sums[3] / COUNT);
    assert_true(fabs(sums[0] / COUNT) < 5 * spread);
    assert_true(fabs(sums[1] / COUNT - 1) < 5 * sqrt(2) * spread);
    assert_true(fabs(sums[2] / COUNT) < 5 * sqrt(15) * spread);
    assert_true(fabs(sums[3] / COUNT - 3) < 5 * sqrt(96) * spread);
    for (size_t i = 0; i < 4; i++) assert_true(fabs(products[i] / COUNT) < 5 * spread);
}

static void threads_do_not_change_a_bit(void **state) {
    (void)state;
    sample s;
    sample_open(&s, &cases[1]);
    float *weights = as_floats(&s), *first = direction_of(&s.model, weights, 1, 0),
          *second = direction_of(&s.model, weights, 1, 1);
    const sf_loss_plane plane = {&s.model, weights, {first, second}, sample_batch(&s), 9};
    for (size_t grid = 1; grid <= 6; grid++) { /* grid 1 with threads inside the model, larger ones side by side */
        const sf_lattice lattice = {.grid = grid, .extent = 2};
        const found_points alone = *evaluate_plane(&plane, &lattice, 1);
        for (size_t threads = 2; threads <= 5; threads++)
            assert_memory_equal(evaluate_plane(&plane, &lattice, threads), &alone, sizeof alone);
    }
    sf_release(weights);
    sf_release(first);
    sf_release(second);
    sample_close(&s);
}

static void an_evaluation_can_be_given_up(void **state) {
    (void)state;
    sample s;
    sample_open(&s, &cases[0]);
    float *weights = as_floats(&s), *direction = direction_of(&s.model, weights, 1, 0);
    const sf_loss_plane plane = {&s.model, weights, {direction, direction}, sample_batch(&s), 9};
    const sf_lattice lattice = {.grid = 3, .extent = 1};
    size_t points[9];
    for (size_t i = 0; i < 9; i++) points[i] = i;
    atomic_int stop = 1;
    found_points *found = calloc(1, sizeof *found);
    found->most = SIZE_MAX;
    sf_plane_request part = {
        .points = points, .count = 9, .machine.threads = 1, .stop = &stop, .found = note, .context = found};
    assert_int_equal(sf_loss_plane_evaluate(&plane, &lattice, &part), SF_INTERRUPTED);
    assert_int_equal(found->calls, 0);
    stop = 0;
    found->most = 4;
    assert_int_equal(sf_loss_plane_evaluate(&plane, &lattice, &part), SF_INTERRUPTED);
    assert_int_equal(found->calls, 4);
    free(found);
    sf_release(weights);
    sf_release(direction);
    sample_close(&s);
}

/* The weights themselves have the loss that training saw, bit by bit; more sequences than one batch of evaluation. */
static void check_centre(const char *attention) {
    sf_config config;
    sf_config_init(&config);
    const char *const settings[][2] = {{"length", "6"}, {"train-count", "1100"},  {"heldout-count", "5"},
                                       {"blocks", "2"}, {"width", "8"},           {"mlp-width", "8"},
                                       {"epochs", "1"}, {"attention", attention}, {"pad", "none"}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_int_equal(sf_config_set(&config, settings[i][0], settings[i][1]), SF_OK);
    sf_fleet *fleet;
    assert_int_equal(sf_fleet_create(&fleet, "even-pairs", &config, 1, NULL), SF_OK);
    assert_int_equal(sf_fleet_advance(fleet), SF_OK);
    const sf_member *member = sf_fleet_member(fleet, 0);
    float *weights;
    int32_t *tokens, *labels;
    assert_int_equal(SF_NEW(&weights, member->model.size), SF_OK);
    assert_int_equal(SF_NEW(&tokens, (size_t)1100 * 6), SF_OK);
    assert_int_equal(SF_NEW(&labels, 1100), SF_OK);
    assert_int_equal(sf_fleet_read(fleet, 0, 0, weights), SF_OK);
    for (size_t n = 0; n < 1100; n++) {
        size_t count;
        memcpy(tokens + n * 6, sf_dataset_tokens(member->data->training, n, &count), 6 * sizeof *tokens);
        labels[n] = sf_dataset_label(member->data->training, n);
    }
    float *first = direction_of(&member->model, weights, 1, 0), *second = direction_of(&member->model, weights, 1, 1);
    const sf_loss_plane plane = {&member->model,
                                 weights,
                                 {first, second},
                                 {.tokens = tokens, .labels = labels, .B = 1100},
                                 (uint32_t)config.seed};
    for (size_t grid = 1; grid <= 3; grid++) {
        const sf_lattice lattice = {.grid = grid, .extent = 1};
        const found_points *found = evaluate_plane(&plane, &lattice, 2);
        const size_t centre = sf_lattice_centre(&lattice);
        assert_true(found->losses[centre] == member->result.last.train_loss);
        assert_true(100.0 * (double)found->correct[centre] / 1100 == member->result.last.train_accuracy);
    }
    sf_release(first);
    sf_release(second);
    sf_release(weights);
    sf_release(tokens);
    sf_release(labels);
    sf_fleet_destroy(fleet);
}

static void the_centre_is_the_runs_own_loss(void **state) {
    (void)state;
    static const char *const mechanisms[] = {"full", "topk:2", "random:2"};
    for (size_t i = 0; i < 3; i++) check_centre(mechanisms[i]);
}

enum { LARGEST = 201 };

static double plane(double x, double y) {
    return 3 * x - 4 * y;
}
static double bowl(double x, double y) {
    return x * x + 0.5 * y * y + x * y;
}

static double *fill(const sf_lattice *lattice, double (*surface)(double x, double y)) {
    static double values[LARGEST * LARGEST];
    for (size_t i = 0; i < lattice->grid; i++)
        for (size_t j = 0; j < lattice->grid; j++)
            values[i * lattice->grid + j] =
                surface(sf_lattice_coordinate(lattice, j), sf_lattice_coordinate(lattice, i));
    return values;
}

static int ascending(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Every pair of points that are one step apart, from the definition. */
static size_t slopes_inside(double *slopes, const double *values, size_t n, double extent, size_t percent) {
    size_t count = 0;
    const double step = n > 1 ? 2 * extent / (double)(n - 1) : 1;
    for (size_t a = 0; a < n * n; a++)
        for (size_t b = a + 1; b <= a + n && b < n * n; b++) {
            const size_t down = b / n - a / n, across = b % n > a % n ? b % n - a % n : a % n - b % n;
            if (down + across != 1) continue;
            bool inside = true; /* |coordinate| <= r in whole numbers: 100 |2 i - (n - 1)| <= percent (n - 1) */
            const size_t places[4] = {a / n, a % n, b / n, b % n};
            for (size_t i = 0; i < 4; i++)
                inside &= 100 * labs(2 * (long)places[i] - (long)(n - 1)) <= (long)(percent * (n - 1));
            if (inside && isfinite(values[a] - values[b])) slopes[count++] = fabs(values[a] - values[b]) / step;
        }
    qsort(slopes, count, sizeof *slopes, ascending);
    return count;
}

static void check_slopes(double *values, size_t n, double extent) {
    static double slopes[2 * LARGEST * LARGEST];
    const sf_lattice lattice = {.grid = n, .extent = extent};
    sf_lipschitz_curves curves;
    assert_int_equal(sf_slopes_estimate(&curves, values, &lattice), SF_OK);
    for (size_t r = 0; r<SF_LIPSCHITZ_RADII; r += n> 100 ? 17 : 1) {
        const size_t count = slopes_inside(slopes, values, n, extent, r + 1);
        assert_int_equal(curves.pairs[r], count);
        assert_true(fabs(curves.radii[r] - 0.01 * (double)(r + 1) * extent) < 1e-12 * extent);
        for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) {
            const double got = curves.quantiles[r][q];
            if (count == 0) {
                assert_true(isnan(got));
                continue;
            }
            const double place = (double[]){0.5, 0.75, 0.95, 0.99}[q] * (double)(count - 1);
            const size_t below = (size_t)floor(place), above = (size_t)ceil(place);
            const double expected =
                slopes[below] * (1 - (place - (double)below)) + slopes[above] * (place - (double)below);
            assert_true(fabs(got - expected) <= 1e-9 * (1 + expected));
        }
    }
}

static void slopes_of_known_surfaces(void **state) {
    (void)state;
    static const size_t grids[] = {1, 2, 3, 4, 5, 20, 21, 51, 200, 201};
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
        for (size_t e = 0; e < 2; e++) {
            const sf_lattice lattice = {.grid = grids[g], .extent = e == 0 ? 1 : 0.3};
            check_slopes(fill(&lattice, bowl), grids[g], lattice.extent);
        }
        const sf_lattice lattice = {.grid = grids[g], .extent = 1};
        sf_lipschitz_curves curves;
        assert_int_equal(sf_slopes_estimate(&curves, fill(&lattice, plane), &lattice), SF_OK);
        for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++) { /* as many of 3 as of 4 */
            if (curves.pairs[r] == 0) continue;
            assert_true(fabs(curves.quantiles[r][0] - 3.5) < 1e-9);
            for (size_t q = 1; q < SF_LIPSCHITZ_QUANTILES; q++) assert_true(fabs(curves.quantiles[r][q] - 4) < 1e-9);
        }
        if (grids[g] == 200) assert_int_equal(curves.pairs[0], 4); /* the paper's smallest square: four points */
        if (grids[g] <= 3) assert_int_equal(curves.pairs[SF_LIPSCHITZ_RADII - 1], 0);
        assert_int_equal(sf_slopes_are_there(&lattice), curves.pairs[SF_LIPSCHITZ_RADII - 1] > 0);
    }
}

static void slopes_leave_out_what_is_not_finite(void **state) {
    (void)state;
    const sf_lattice lattice = {.grid = 21, .extent = 1};
    double *values = fill(&lattice, bowl);
    values[220] = NAN /* the centre */;
    values[3] = INFINITY;
    values[4] = INFINITY;
    values[201] = -INFINITY;
    check_slopes(values, 21, 1);
    for (size_t i = 0; i < (size_t)21 * 21; i++) values[i] = NAN;
    check_slopes(values, 21, 1);
}

static double cone(double x, double y) {
    return hypot(x, y);
}
static double saddle(double x, double y) {
    return x * y;
}

/* On x or y in units of the grid to the plane. */
static double in_plane(const sf_lattice *lattice, double place) {
    return -lattice->extent + place * sf_lattice_step(lattice);
}

static void contours_of_a_plane_are_straight(void **state) {
    (void)state;
    const sf_lattice lattice = {.grid = 30, .extent = 1};
    const double levels[] = {-6.5, -3.3, 0.01, 1, 5};
    for (size_t i = 0; i < 5; i++) {
        sf_contour contour;
        assert_int_equal(sf_contour_trace(&contour, fill(&lattice, plane), 30, 30, levels[i]), SF_OK);
        assert_int_equal(contour.line_count, 1);
        assert_false(contour.lines[0].closed);
        for (size_t p = 0; p < contour.point_count; p++) {
            const double x = in_plane(&lattice, contour.points[p].x), y = in_plane(&lattice, contour.points[p].y);
            assert_true(fabs(plane(x, y) - levels[i]) < 1e-9);
        }
        const sf_contour_point ends[2] = {contour.points[0], contour.points[contour.point_count - 1]};
        for (size_t e = 0; e < 2; e++) /* it runs from edge to edge */
            assert_true(fmin(fmin(ends[e].x, ends[e].y), fmin(29 - ends[e].x, 29 - ends[e].y)) < 1e-9);
        sf_contour_close(&contour);
    }
    sf_contour contour;
    assert_int_equal(sf_contour_trace(&contour, fill(&lattice, plane), 30, 30, 8), SF_OK);
    assert_int_equal(contour.line_count, 0);
    sf_contour_close(&contour);
}

static void contours_of_a_cone_are_circles(void **state) {
    (void)state;
    const sf_lattice lattice = {.grid = 81, .extent = 1};
    const double radii[] = {0.1, 0.37, 0.8};
    for (size_t i = 0; i < 3; i++) {
        sf_contour contour;
        assert_int_equal(sf_contour_trace(&contour, fill(&lattice, cone), 81, 81, radii[i]), SF_OK);
        assert_int_equal(contour.line_count, 1);
        assert_true(contour.lines[0].closed);
        double length = 0;
        for (size_t p = 0; p < contour.point_count; p++) {
            const sf_contour_point a = contour.points[p], b = contour.points[(p + 1) % contour.point_count];
            assert_true(fabs(cone(in_plane(&lattice, a.x), in_plane(&lattice, a.y)) - radii[i]) < 2e-3);
            const double piece = hypot(a.x - b.x, a.y - b.y);
            assert_true(piece < 1.5); /* neighbours share a square */
            length += piece * sf_lattice_step(&lattice);
        }
        assert_true(fabs(length - 2 * acos(-1.0) * radii[i]) < 0.02 * length);
        sf_contour_close(&contour);
    }
    /* beyond the edges of the square only the corners are left */
    sf_contour contour;
    assert_int_equal(sf_contour_trace(&contour, fill(&lattice, cone), 81, 81, 1.2), SF_OK);
    assert_int_equal(contour.line_count, 4);
    sf_contour_close(&contour);
}

static void contours_part_at_saddles_and_stop_at_holes(void **state) {
    (void)state;
    const sf_lattice lattice = {.grid = 20, .extent = 1};
    sf_contour contour;
    assert_int_equal(sf_contour_trace(&contour, fill(&lattice, saddle), 20, 20, 0.1), SF_OK);
    assert_int_equal(contour.line_count, 2); /* the two branches of a hyperbola */
    sf_contour_close(&contour);
    const double corners[4] = {1, 0, 0, 1}; /* one square whose diagonal corners are high */
    for (size_t high = 0; high < 2; high++) {
        assert_int_equal(sf_contour_trace(&contour, corners, 2, 2, high == 0 ? 0.4 : 0.6), SF_OK);
        assert_int_equal(contour.line_count, 2);
        for (size_t l = 0; l < 2; l++) { /* below the mean the low corners are cut off, above it the high ones */
            const sf_contour_point *p = &contour.points[contour.lines[l].first];
            const double x = 0.5 * (p[0].x + p[1].x), y = 0.5 * (p[0].y + p[1].y);
            assert_true((fabs(x - y) < 1e-9) == (high == 1));
        }
        sf_contour_close(&contour);
    }
    double *values = fill(&lattice, plane);
    for (size_t j = 0; j < 20; j++) values[(size_t)10 * 20 + j] = NAN; /* a row of them cuts the line */
    assert_int_equal(sf_contour_trace(&contour, values, 20, 20, 0.01), SF_OK);
    assert_int_equal(contour.line_count, 2);
    for (size_t p = 0; p < contour.point_count; p++) assert_true(isfinite(contour.points[p].x + contour.points[p].y));
    sf_contour_close(&contour);
    assert_int_equal(sf_contour_trace(&contour, values, 1, 20, 0.01), SF_OK);
    assert_int_equal(contour.line_count, 0);
    assert_int_equal(sf_bytes_in_use(), 0);
}

int main(void) {
    if (!has_instruction_set(SF_F32)) return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_those_of_the_definition),
        cmocka_unit_test(directions_are_as_long_as_the_weights_tensor_by_tensor),
        cmocka_unit_test(draws_are_gaussian_and_independent),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(an_evaluation_can_be_given_up),
        cmocka_unit_test(the_centre_is_the_runs_own_loss),
        cmocka_unit_test(slopes_of_known_surfaces),
        cmocka_unit_test(slopes_leave_out_what_is_not_finite),
        cmocka_unit_test(contours_of_a_plane_are_straight),
        cmocka_unit_test(contours_of_a_cone_are_circles),
        cmocka_unit_test(contours_part_at_saddles_and_stop_at_holes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
