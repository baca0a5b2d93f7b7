/* Internals of a landscape, for the files that fill it. */
#ifndef SF_STUDY_LANDSCAPE_H
#define SF_STUDY_LANDSCAPE_H

#include "semfocus/landscape.h"
#include "store/stored_model.h"
#include "train/machine.h"

struct sf_landscape {
    sf_surface surfaces[SF_MOST_SURFACES];
    sf_config configs[SF_MOST_SURFACES]; /* of their runs, with the task's recipe */
    struct sf_plot {                     /* what belongs to a surface while it is computed */
        sf_stored_model model;
        int64_t number; /* in the store */
        bool *known;    /* [points] */
        size_t points, done;
    } plots[SF_MOST_SURFACES];
    size_t count;
    sf_machine machine;
};

/* Least, most and slopes of a surface whose points are all there. */
sf_status sf_surface_summarize(sf_surface *surface);
/* Room for the points of the surface behind the last, whose grid is known. */
sf_status sf_landscape_make_room(sf_landscape *landscape);
/* Takes the points that the store has of a surface. */
sf_status sf_landscape_read_points(sf_landscape *landscape, size_t i, sf_store *store);

/* Chooses what each complete surface is compared with, and compares them. */
void sf_landscape_compare(sf_landscape *landscape);

#endif
