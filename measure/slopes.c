#include "measure/slopes.h"

#include <math.h>
#include <stdlib.h>

#include "base/sorted.h"

const double sf_lipschitz_shares[SF_LIPSCHITZ_QUANTILES] = {0.50, 0.75, 0.95, 0.99};

/* Grid points on the edge of a square belong to it, even if their coordinates are rounded outward. */
static const double edge_slack = 1e-9;

static double radius_at(const sf_lattice *lattice, size_t r) {
    return (double)(r + 1) / 100 * lattice->extent;
}

static bool holds(double radius, double reach) {
    return reach <= radius * (1 + edge_slack);
}

typedef struct slope {
    double value;
    double reach; /* half the side of the smallest square around the centre that holds both points */
} slope;

static int by_value(const void *a, const void *b) {
    const double left = ((const slope *)a)->value, right = ((const slope *)b)->value;
    return (left > right) - (left < right);
}

typedef struct corner { /* of the grid */
    size_t row, column;
} corner;

static double reach_of(const sf_lattice *lattice, corner p) {
    return fmax(fabs(sf_lattice_coordinate(lattice, p.row)), fabs(sf_lattice_coordinate(lattice, p.column)));
}

bool sf_slopes_are_there(const sf_lattice *lattice) {
    const size_t middle = lattice->grid / 2;
    if (lattice->grid < 2) return false;
    return holds(radius_at(lattice, SF_LIPSCHITZ_RADII - 1), reach_of(lattice, (corner){middle - 1, middle}));
}

static size_t add_slope(slope *slopes, size_t count, const double *losses, const sf_lattice *lattice, corner a,
                        corner b) {
    const double rise = losses[a.row * lattice->grid + a.column] - losses[b.row * lattice->grid + b.column];
    if (!isfinite(rise)) return count;
    slopes[count] = (slope){.value = fabs(rise) / sf_lattice_step(lattice),
                            .reach = fmax(reach_of(lattice, a), reach_of(lattice, b))};
    return count + 1;
}

static size_t collect(slope *slopes, const double *losses, const sf_lattice *lattice) {
    size_t count = 0;
    for (size_t i = 0; i < lattice->grid; i++)
        for (size_t j = 0; j + 1 < lattice->grid; j++) {
            count = add_slope(slopes, count, losses, lattice, (corner){i, j}, (corner){i, j + 1});
            count = add_slope(slopes, count, losses, lattice, (corner){j, i}, (corner){j + 1, i});
        }
    return count;
}

sf_status sf_slopes_estimate(sf_lipschitz_curves *out, const double *losses /* [grid,grid] */,
                             const sf_lattice *lattice) {
    const size_t most = 2 * lattice->grid * (lattice->grid - 1);
    slope *slopes = NULL;
    double *inside = NULL;
    sf_status status = SF_NEW(&slopes, most);
    if (status == SF_OK) status = SF_NEW(&inside, most);
    if (status == SF_OK) {
        const size_t count = collect(slopes, losses, lattice);
        qsort(slopes, count, sizeof *slopes, by_value);
        for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++) {
            const double radius = radius_at(lattice, r);
            size_t pairs = 0;
            for (size_t i = 0; i < count; i++)
                if (holds(radius, slopes[i].reach)) inside[pairs++] = slopes[i].value;
            out->radii[r] = radius;
            out->pairs[r] = pairs;
            for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++)
                out->quantiles[r][q] = sf_sorted_quantile(inside, pairs, sf_lipschitz_shares[q]);
        }
    }
    sf_release(slopes);
    sf_release(inside);
    return status;
}
