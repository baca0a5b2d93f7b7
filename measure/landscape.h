/* The loss around a model's weights, on a plane that two random directions span.
 *
 *   w(x, y) = w + x d1 + y d2,  every tensor of d1 and d2 Gaussian and scaled to the Frobenius norm of the same tensor
 * of w, so that one step is the same share of every tensor (a tensor of zeros has no direction). A surface is a fleet
 * of perturbed models, one per grid point; a point's weights are computed when it is evaluated, so memory does not grow
 * with the grid, and its value is a function of the point alone. */
#ifndef SF_MEASURE_LANDSCAPE_H
#define SF_MEASURE_LANDSCAPE_H

#include <stdatomic.h>

#include "kernels/kernels.h"
#include "train/machine.h"

typedef struct sf_lattice { /* grid x grid points over [-extent, extent]^2; grid 1: the centre alone */
    size_t grid;
    double extent;
} sf_lattice;

double sf_lattice_step(const sf_lattice *lattice); /* between neighbours; 0 where there are none */
double sf_lattice_coordinate(const sf_lattice *lattice, size_t i);
/* Points to evaluate: the grid's, row by row (y), then the centre if it is not a grid point. */
size_t sf_lattice_points(const sf_lattice *lattice);
size_t sf_lattice_centre(const sf_lattice *lattice);
void sf_lattice_locate(double *x, double *y, const sf_lattice *lattice, size_t point);

/* The Gaussian behind one element of direction 0 or 1, before it is scaled: a function of its index. */
double sf_direction_draw(uint32_t seed, size_t direction, size_t tensor, size_t element);
void sf_direction_fill(float *out /* [size] */, const sf_model *model, const float *weights /* [size] */, uint32_t seed,
                       size_t direction);

/* Moves weights by x along a direction: where the surface's point (x, 0) lies. */
void sf_direction_go(float *weights /* [size] */, const float *direction /* [size] */, double x, size_t size);

typedef struct sf_loss_plane { /* through the weights of a model */
    const sf_model *model;
    const float *weights;       /* [size] */
    const float *directions[2]; /* [size] each */
    sf_batch data;              /* every sequence the loss is taken over */
    uint32_t seed;              /* of the run, for random keys */
} sf_loss_plane;

typedef struct sf_plane_request {
    const size_t *points; /* [count], of the lattice */
    size_t count;
    sf_machine machine;
    const atomic_int *stop; /* not 0: give up; may be NULL */
    /* Receives the mean loss and the number of sequences guessed right, point by point; returns false to give up. With
     * one label per position, that is the share of right labels times the sequences, rounded. */
    bool (*found)(void *context, size_t point, double loss, size_t correct);
    void *context;
} sf_plane_request;

/* Evaluates the points. SF_INTERRUPTED if given up. */
sf_status sf_loss_plane_evaluate(const sf_loss_plane *plane, const sf_lattice *lattice,
                                 const sf_plane_request *request);

#endif
