/* Inside of a landscape, for the files that fill it. */
#ifndef SF_LAB_LANDSCAPE_H
#define SF_LAB_LANDSCAPE_H

#include "lab/stored_model.h"
#include "semfocus/landscape.h"

struct sf_landscape {
    sf_surface surfaces[SF_MOST_SURFACES];
    struct sf_plot { /* what belongs to a surface while it is computed */
        sf_stored_model model;
        int64_t number; /* in the store */
        bool *known;    /* [points] */
        size_t points, done;
    } plots[SF_MOST_SURFACES];
    size_t count, threads;
};

/* Says whom a complete surface is compared with, and how it compares. */
void sf_landscape_compare(sf_landscape *landscape);

#endif
