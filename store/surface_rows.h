/* Loss surfaces in the store: one row per surface, one row per point. */
#ifndef SF_STORE_SURFACE_ROWS_H
#define SF_STORE_SURFACE_ROWS_H

#include "semfocus/landscape.h"
#include "store/store.h"

typedef struct sf_surface_point {
    size_t point;
    double loss; /* NaN: not finite */
    size_t correct;
} sf_surface_point;

/* The number of the surface that was computed from these weights on this plane; entered if it is new. */
sf_status sf_surface_enter(int64_t *number, sf_store *store, const sf_surface *surface);
/* The surfaces of a run's newest weights whose points are all there; fills in the run and what tells them apart. */
sf_status sf_surface_each_complete(sf_store *store, const sf_stored_run *run,
                                   void (*each)(void *context, const sf_surface *surface, int64_t number),
                                   void *context);
sf_status sf_surface_each_point(sf_store *store, const sf_stored_run *run, int64_t number,
                                void (*each)(void *context, const sf_surface_point *point), void *context);
/* Stores all of them or none. */
sf_status sf_surface_keep(sf_store *store, const sf_stored_run *run, int64_t number,
                          const sf_surface_point *points /* [count] */, size_t count);

#endif
