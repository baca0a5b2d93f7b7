/* The loss around the weights of stored runs: on a plane through them that two random directions span, with Lipschitz
 * constants estimated from neighbouring points. Points are stored as they are computed: an interrupted computation can
 * be continued and gives the same bits.
 *
 *   sf_landscape *landscape;
 *   sf_landscape_open(&landscape, store, ids, 2, &options);      grid, samples, direction-seed, extent, at
 *   sf_landscape_compute(landscape, store, &watch);
 *   sf_landscape_surface(landscape, 0)->lipschitz.quantiles
 *   sf_landscape_write(landscape, "landscape.html", "semfocus landscape ...");
 *   sf_landscape_close(landscape); */
#ifndef SEMFOCUS_LANDSCAPE_H
#define SEMFOCUS_LANDSCAPE_H

#include "semfocus/api.h"
#include "semfocus/store.h"

SF_API_BEGIN

typedef struct sf_landscape sf_landscape;

enum { SF_LIPSCHITZ_RADII = 69, SF_LIPSCHITZ_QUANTILES = 4, SF_MOST_SURFACES = 16 };
enum {
    SF_SURFACE_SAMPLES = 1000
}; /* training sequences a point is evaluated on where the setting samples is not given */

/* |difference of neighbouring losses| / grid step, both axes pooled, inside the squares |x|,|y| <= r: its 50, 75, 95
 * and 99 % for r = 0.01, 0.02, ..., 0.69 times the extent. Pairs with a loss that is not finite do not count. */
typedef struct sf_lipschitz_curves {
    double radii[SF_LIPSCHITZ_RADII];
    size_t pairs[SF_LIPSCHITZ_RADII];
    double quantiles[SF_LIPSCHITZ_RADII][SF_LIPSCHITZ_QUANTILES]; /* NaN where the square holds no pair */
} sf_lipschitz_curves;

extern const double sf_lipschitz_shares[SF_LIPSCHITZ_QUANTILES]; /* 0.50, 0.75, 0.95, 0.99 */

typedef struct sf_surface {
    sf_stored_run run;
    size_t epoch;          /* of the weights; 0: initial */
    uint64_t weights_hash; /* of the weights */
    size_t grid;
    double extent;
    size_t samples;                      /* training sequences the loss is the mean over */
    uint32_t seed;                       /* of the directions */
    double *losses;                      /* [grid,grid]: row i lies at y(i), column j at x(j); NaN: not finite */
    double *accuracies;                  /* [grid,grid], percent */
    double centre_loss, centre_accuracy; /* of the weights themselves */
    double least, most;                  /* of the finite losses; NaN without any */
    size_t not_finite;                   /* points of the grid */
    sf_lipschitz_curves lipschitz;
    size_t series, style; /* its number in the legend of a figure, and its style: 0 for the first baseline */
    size_t baseline;      /* index of the surface it is compared with; its own index: none */
    double ratios[SF_LIPSCHITZ_QUANTILES]; /* to the baseline's constants in the largest square; NaN: not known */
    char sentence[768];                    /* how it compares; empty for a baseline */
} sf_surface;

/* Every run is found and checked, and its surface entered, before anything is computed. */
sf_status sf_landscape_open(sf_landscape **out, sf_store *store, const char *const *runs /* [count] */, size_t count,
                            const sf_options *options);
void sf_landscape_close(sf_landscape *landscape);

typedef struct sf_landscape_watch {
    const sf_stop_flag *stop; /* not 0: keep what is done and return; may be NULL */
    /* How many points of a surface are done, of how many. One call at a time, from any thread. */
    void (*on_points)(void *context, size_t surface, size_t done, size_t points);
    void *context;
} sf_landscape_watch;

/* Computes what is missing; SF_INTERRUPTED if stopped. */
sf_status sf_landscape_compute(sf_landscape *landscape, sf_store *store, const sf_landscape_watch *watch);

size_t sf_landscape_count(const sf_landscape *landscape);
const sf_surface *sf_landscape_surface(const sf_landscape *landscape, size_t i);
double sf_surface_coordinate(const sf_surface *surface, size_t i); /* of row or column i of the grid */

/* The name of a run among the others: its mechanism, and what else is needed to distinguish them. */
enum { SF_SURFACE_NAME_SIZE = 256 };
void sf_surface_name(char out[SF_SURFACE_NAME_SIZE], const sf_landscape *landscape, size_t i);

/* One HTML file; a file that was not written by semfocus is not replaced. `command` reproduces it. */
sf_status sf_landscape_write(const sf_landscape *landscape, const char *path, const char *command);
/* Each figure as SVG and its data as CSV; the folder is created if it does not exist. */
sf_status sf_landscape_write_figures(const sf_landscape *landscape, const char *folder);
/* The maps of the loss as text for a terminal; release with free(). */
sf_status sf_landscape_plot(char **out, const sf_landscape *landscape);

SF_API_END

#endif
