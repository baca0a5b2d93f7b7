#include "study/stored_surfaces.h"

#include <string.h>

#include "base/memory.h"
#include "measure/slopes.h"
#include "store/store_inside.h"
#include "store/surface_rows.h"
#include "study/landscape.h"

typedef struct plane { /* what surfaces must share to be compared */
    size_t grid, samples;
    uint32_t seed;
    double extent;
} plane;

typedef struct candidate {
    sf_surface surface;
    int64_t number;
    size_t group;
} candidate;

enum { MOST_CANDIDATES = 64 };

typedef struct candidates {
    candidate each[MOST_CANDIDATES];
    size_t count, group;
} candidates;

static plane plane_of(const sf_surface *s) {
    return (plane){.grid = s->grid, .samples = s->samples, .seed = s->seed, .extent = s->extent};
}

static bool same_plane(const plane *a, const plane *b) {
    return a->grid == b->grid && a->samples == b->samples && a->seed == b->seed && a->extent == b->extent;
}

/* One per group and plane. */
static void take_candidate(void *context, const sf_surface *surface, int64_t number) {
    candidates *c = context;
    const plane own = plane_of(surface);
    for (size_t i = 0; i < c->count; i++) {
        const plane other = plane_of(&c->each[i].surface);
        if (c->each[i].group == c->group && same_plane(&own, &other)) return;
    }
    if (c->count < MOST_CANDIDATES)
        c->each[c->count++] = (candidate){.surface = *surface, .number = number, .group = c->group};
}

static sf_status find_candidates(candidates *c, sf_store *store, const sf_study *study, size_t from, size_t to) {
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    for (c->group = from; c->group < to; c->group++)
        for (size_t m = 0; m < sf_study_group(study, c->group)->runs; m++) {
            sf_stored_run run;
            bool found;
            SF_TRY(sf_store_look_up(&run, &found, store, runs[sf_study_member(study, c->group, m)].id));
            if (found && run.checkpoint_epoch > 0) SF_TRY(sf_surface_each_complete(store, &run, take_candidate, c));
        }
    return SF_OK;
}

typedef struct worth { /* of a plane, what weighs most first */
    bool has_slopes, has_company;
    size_t grid, groups;
} worth;

static worth worth_of(const plane *own, const candidates *c) {
    const sf_lattice lattice = {.grid = own->grid, .extent = own->extent};
    size_t groups = 0;
    for (size_t i = 0; i < c->count; i++) {
        const plane other = plane_of(&c->each[i].surface);
        groups += same_plane(own, &other);
    }
    return (worth){
        .has_slopes = sf_slopes_are_there(&lattice), .has_company = groups > 1, .grid = own->grid, .groups = groups};
}

static bool is_worth_more(const worth *a, const worth *b) {
    if (a->has_slopes != b->has_slopes) return a->has_slopes;
    if (a->has_company != b->has_company) return a->has_company;
    if (a->grid != b->grid) return a->grid > b->grid;
    return a->groups > b->groups;
}

static plane choose_plane(const candidates *c) {
    plane best = plane_of(&c->each[0].surface);
    worth most = worth_of(&best, c);
    for (size_t i = 1; i < c->count; i++) {
        const plane own = plane_of(&c->each[i].surface);
        const worth ours = worth_of(&own, c);
        if (!is_worth_more(&ours, &most)) continue;
        most = ours;
        best = own;
    }
    return best;
}

static sf_status read_surface(sf_landscape *landscape, sf_store *store, const candidate *chosen) {
    const size_t i = landscape->count;
    landscape->surfaces[i] = chosen->surface;
    landscape->surfaces[i].baseline = i;
    landscape->plots[i].number = chosen->number;
    SF_TRY(sf_store_config(&landscape->configs[i], store, &chosen->surface.run));
    SF_TRY(sf_landscape_make_room(landscape));
    landscape->count++;
    SF_TRY(sf_landscape_read_points(landscape, i, store));
    return sf_surface_summarize(&landscape->surfaces[i]);
}

static sf_status read_surfaces(sf_landscape *landscape, sf_store *store, const candidates *c, size_t from) {
    const plane shared = choose_plane(c);
    size_t series[SF_MOST_SURFACES] = {0};
    for (size_t i = 0; i < c->count && landscape->count < SF_MOST_SURFACES; i++) {
        const plane own = plane_of(&c->each[i].surface);
        if (!same_plane(&own, &shared)) continue;
        series[landscape->count] = c->each[i].group - from;
        SF_TRY(read_surface(landscape, store, &c->each[i]));
    }
    sf_landscape_compare(landscape);
    for (size_t i = 0; i < landscape->count; i++) landscape->surfaces[i].series = series[i];
    return SF_OK;
}

static sf_status open_frozen(sf_landscape **out, sf_store *store, const sf_study *study, size_t from, size_t to) {
    candidates *c;
    bool found = false;
    SF_TRY(sf_database_any(&found, sf_store_database(store), SF_ANY_SURFACES));
    if (!found) return SF_OK;
    SF_TRY(SF_NEW(&c, 1));
    sf_status status = find_candidates(c, store, study, from, to);
    if (status == SF_OK && c->count > 0) status = SF_NEW(out, 1);
    if (status == SF_OK && c->count > 0) status = read_surfaces(*out, store, c, from);
    sf_release(c);
    return status;
}

sf_status sf_landscape_open_stored(sf_landscape **out, sf_store *store, const sf_study *study, size_t from, size_t to) {
    *out = NULL;
    SF_TRY(sf_store_freeze(store));
    const sf_status status = open_frozen(out, store, study, from, to);
    sf_store_unfreeze(store);
    if (status == SF_OK) return SF_OK;
    sf_landscape_close(*out);
    *out = NULL;
    return status;
}
